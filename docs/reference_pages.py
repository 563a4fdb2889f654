"""A hook of MkDocs: pages from the code, one per package with every public name, and from other files."""

from __future__ import annotations

import importlib
import inspect
import types
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

# In the order of the data: what comes in, what is computed, what goes out.
PACKAGES = (
    "data",
    "logs",
    "policies",
    "models",
    "clicks",
    "statistics",
    "estimators",
    "bias",
    "objectives",
    "evaluation",
    "evidence",
    "training",
    "online",
    "loop",
    "offline",
    "exchange",
    "experiments",
    "live",
    "reports",
    "checks",
    "rank_weights",
)

# Files at the top of the repository that are pages of the site, too.
PROJECT_FILES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; the navigation lists them under `reference/` and by the names of `PROJECT_FILES`."""
    pages, described = {}, set()
    for name in PACKAGES:
        package = importlib.import_module(f"rankloop.{name}")
        identifiers = [_identifier(package, public) for public in public_names(package)]
        described.update(identifiers)
        summary = (inspect.getdoc(package) or "").split("\n\n")[0]
        pages[f"reference/{name}.md"] = _page(f"rankloop.{name}", summary, identifiers)
    pages["reference/rankloop.md"] = _top_page(described)
    root = Path(config.docs_dir).parent
    for path, name in PROJECT_FILES.items():
        # Links of a file at the top start with docs/, those of a page do not.
        pages[path] = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def public_names(package: types.ModuleType) -> list[str]:
    """The names that a package or module offers, without the modules and the constants among them."""
    names = getattr(package, "__all__", vars(package))
    found = []
    for name in names:
        value = getattr(package, name)
        documented = inspect.isclass(value) or inspect.isroutine(value)
        if documented and not name.startswith("_") and value.__module__.startswith("rankloop"):
            found.append(name)
    return sorted(found, key=str.lower)


def _page(title: str, summary: str, identifiers: list[str]) -> str:
    return "\n".join([f"# {title}", "", summary, "", *(f"::: {name}\n" for name in identifiers)])


def _top_page(described: set[str]) -> str:
    """What `import rankloop` offers: links to the packages, and what belongs to none of them in full."""
    top = importlib.import_module("rankloop")
    links, others = [], []
    for name in public_names(top):
        identifier = _identifier(top, name)
        summary = (inspect.getdoc(getattr(top, name)) or "").split("\n")[0]
        links.append(f"- [`{name}`][{identifier}]: {summary}")
        if identifier not in described:
            others.append(f"::: {identifier}\n")
    return "\n".join(["# rankloop", "", "What `import rankloop` offers.", "", *links, "", *others])


def _identifier(package: types.ModuleType, name: str) -> str:
    value: Any = getattr(package, name)
    return f"{value.__module__}.{value.__qualname__}"
