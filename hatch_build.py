"""The README as package indexes show it: links into the repository become absolute, or plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# An image or a link whose target is a path of the repository: neither an address nor a part of the page.
RELATIVE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """The readme of the package.

    Links go to ``repository`` and ``branch``, which are set below ``tool.hatch.metadata.hooks.custom``.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the package."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = absolute_links(text, self.config.get("repository", ""), self.config.get("branch", "main"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute_links(text: str, repository: str, branch: str) -> str:
    """Markdown without relative links: absolute ones, or without a repository, text and no images.

    >>> absolute_links("![a curve](a.svg) See [the page](docs/a.md).", "https://a.org/b", "main")
    '![a curve](https://a.org/b/raw/main/a.svg) See [the page](https://a.org/b/blob/main/docs/a.md).'
    >>> absolute_links("![a curve](a.svg)See [the page](docs/a.md).", "", "main")
    'See the page.'
    """

    def replaced(link: re.Match[str]) -> str:
        image, words, path = link["image"], link["text"], link["path"]
        if not repository:
            return "" if image else words
        return f"{image}[{words}]({repository}/{'raw' if image else 'blob'}/{branch}/{path})"

    return RELATIVE.sub(replaced, text)
