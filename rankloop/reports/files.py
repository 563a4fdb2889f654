"""Results as HTML pages on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rankloop.bias import BiasEstimate
from rankloop.logs import ImportReport
from rankloop.offline import Backtest, Comparison, Fit, ListComparison, LogCheck
from rankloop.reports.backtest import backtest_document
from rankloop.reports.bias import bias_document
from rankloop.reports.check import check_document
from rankloop.reports.document import Document
from rankloop.reports.evaluation import evaluation_document, list_document
from rankloop.reports.fit import fit_document
from rankloop.reports.html import write_page
from rankloop.reports.import_report import import_document

Result = ImportReport | LogCheck | BiasEstimate | Fit | Comparison | Backtest | ListComparison

DOCUMENTS: dict[type[Any], Any] = {
    ImportReport: import_document,
    LogCheck: check_document,
    BiasEstimate: bias_document,
    Fit: fit_document,
    Comparison: evaluation_document,
    Backtest: backtest_document,
    ListComparison: list_document,
}


def write_report(result: Result, path: str | os.PathLike[str]) -> Path:
    """Write the HTML page on a result, whole or not at all.

    Args:
        result: what an import, `Log.check`, `Log.estimate_bias`, `Log.fit`, `Log.evaluate`, `Log.backtest`
            or `Log.compare_lists` returned.
        path: the file.
    """
    document: Document = DOCUMENTS[type(result)](result)
    return write_page(document, path)
