"""Results that notebooks show as their reports."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import Any, ClassVar

# Pixels: about two screens of a notebook; the frame scrolls.
HEIGHT = 600


class NotebookResult:
    """A result that a notebook shows as its report: the page that `rankloop.write_report` writes.

    Attributes:
        document: where the function is that makes the report from the result, as ``module:function``. It is
            imported when a notebook asks for it: results know nothing else about reports.
    """

    document: ClassVar[str]

    def _repr_html_(self) -> str:
        """The report in a frame of its own, so that its style and that of the notebook do not mix."""
        module, _, function = self.document.partition(":")
        report: Any = getattr(import_module(module), function)(self)
        page: str = import_module("rankloop.reports.html").html_page(report)
        return (
            f'<iframe title="{escape(report.title)}" srcdoc="{escape(page)}" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )
