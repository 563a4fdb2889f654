"""Documents as a terminal shows them."""

from __future__ import annotations

import io

from rich.console import Console

from rankloop.reports.document import Document
from rankloop.reports.terminal import print_document


def shown(document: Document, *, width: int = 120) -> str:
    """What is printed, without colours."""
    screen = io.StringIO()
    print_document(document, Console(file=screen, width=width))
    return screen.getvalue()
