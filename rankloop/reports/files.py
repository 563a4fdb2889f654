"""Results as HTML pages on disk."""

from __future__ import annotations

import os
from pathlib import Path

from rankloop.bias import BiasEstimate
from rankloop.logs import ImportReport, LogCheck
from rankloop.offline import Comparison, Fit
from rankloop.reports.bias import bias_page
from rankloop.reports.check import check_page
from rankloop.reports.evaluation import evaluation_page
from rankloop.reports.fit import fit_page
from rankloop.reports.import_report import import_page
from rankloop.storage.files import write_whole

Result = ImportReport | LogCheck | BiasEstimate | Fit | Comparison

PAGES = {
    ImportReport: import_page,
    LogCheck: check_page,
    BiasEstimate: bias_page,
    Fit: fit_page,
    Comparison: evaluation_page,
}


def write_report(result: Result, path: str | os.PathLike[str]) -> Path:
    """Write the page of HTML on a result, whole or not at all.

    Args:
        result: what an import, `Log.check`, `Log.estimate_bias`, `Log.fit` or `Log.evaluate` returned.
        path: the file.
    """
    return write_whole(path, PAGES[type(result)](result).encode())  # type: ignore[operator]
