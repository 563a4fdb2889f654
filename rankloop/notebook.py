"""Results that show themselves as their reports: `print` the brief one, a notebook the whole page."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import Any, ClassVar

# In pixels: most of a screen. The frame scrolls, and its border shows that there is more below; a reader can
# make it higher at its lower right corner.
HEIGHT = 600
FRAME = (
    f"width: 100%; height: {HEIGHT}px; box-sizing: border-box; border: 1px solid rgba(128, 128, 128, 0.4); "
    "border-radius: 4px; resize: vertical"
)


class NotebookResult:
    """A result that shows itself: a notebook shows the page that `rankloop.write_report` writes.

    `print(result)` prints what the command prints.

    Attributes:
        document: where the function is that makes the report from the result, as ``module:function``. It is
            imported when a notebook asks for it: results know nothing else about reports.
    """

    document: ClassVar[str]

    def __str__(self) -> str:
        """What a terminal shows of the report."""
        return str(import_module("rankloop.reports.terminal").brief_text(self._report()))

    def _repr_html_(self) -> str:
        """The report in a frame of its own, so that its style and that of the notebook do not mix."""
        report = self._report()
        page: str = import_module("rankloop.reports.html").html_page(report)
        return f'<iframe title="{escape(report.title)}" srcdoc="{escape(page)}" style="{FRAME}"></iframe>'

    def _report(self) -> Any:
        module, _, function = self.document.partition(":")
        return getattr(import_module(module), function)(self)
