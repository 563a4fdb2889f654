"""Results show their reports in notebooks: whole pages, in frames of their own."""

from __future__ import annotations

import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from rankloop.bias import BiasEstimate, BiasOptions
from rankloop.experiments.results import read_result
from rankloop.experiments.run import Run
from rankloop.experiments.spec import RunSpec
from rankloop.notebook import NotebookResult
from rankloop.offline import Comparison, Fit
from rankloop.reports.html import html_page
from tests.offline.worlds_of_logs import BIAS, simulated

ROOT = Path(__file__).parents[1]


class Frames(HTMLParser):
    """Collects frames, and notices everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        self.frames.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        assert not data.strip()


def page_of(result: NotebookResult) -> str:
    parser = Frames()
    parser.feed(result._repr_html_())
    (frame,) = parser.frames
    assert frame["title"]
    return str(frame["srcdoc"])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("notebook")
    log = simulated(folder / "log", queries=40, impressions=4_000).log
    fit = log.fit("linear", bias=BIAS)
    return {
        "fit": fit,
        "comparison": log.evaluate(fit, "production"),
        "bias": log.estimate_bias(BiasOptions(resamples=0, held_out=False)),
        "check": log.check(),
    }


def test_the_page_of_a_result_is_its_report(results: dict[str, Any]) -> None:
    from rankloop.reports.files import DOCUMENTS

    kinds = {"fit": Fit, "comparison": Comparison, "bias": BiasEstimate}
    for name, result in results.items():
        assert isinstance(result, kinds.get(name, NotebookResult))
        page = page_of(result)
        assert page == html_page(DOCUMENTS[type(result)](result))
        assert "<script" not in page


def test_a_result_is_printed_as_the_command_prints_it(results: dict[str, Any]) -> None:
    comparison, fit = results["comparison"], results["fit"]
    assert comparison.conclusion in str(comparison)
    assert str(results["bias"]).startswith(results["bias"].headline)
    assert all(note in str(fit) for note in fit.notes)
    # Arrays, and ids of queries, of which a log may have millions, are left to the object.
    for name, said in (("comparison", comparison.decision.kind), ("fit", fit.spec), ("bias", "ranks")):
        shown = repr(results[name])
        assert len(shown) < 200
        assert "\n" not in shown
        assert said in shown


def test_a_run_shows_its_report(tmp_path: Path) -> None:
    spec = RunSpec(data="synthetic(queries=30, features=3)", horizon=300, interventions=1, oracle=False)
    Run(spec, tmp_path / "run").resume()
    page = page_of(read_result(tmp_path / "run"))
    assert "<h1>Learning to rank from clicks: " in page


class ThisPython(AsyncKernelManager):
    """The kernel of the Python that runs this test."""

    kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


def run_notebook(*cells: str) -> list[list[Any]]:
    """The outputs of each cell."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(book, timeout=300, kernel_manager_class=ThisPython)
    client.execute(cwd=str(ROOT), env={**os.environ, "PYTHONPATH": str(ROOT)})
    return [cell.outputs for cell in book.cells]


def test_a_bare_kernel_has_no_widgets_and_needs_none(tmp_path: Path):
    """DuckDB wants ipywidgets to change anything about its progress bars."""
    world = simulated(tmp_path / "log", queries=30, impressions=2_000)
    outputs = run_notebook(
        "import rankloop, importlib.util",
        "assert importlib.util.find_spec('ipywidgets') is None",
        f"log = rankloop.open_log({str(world.log.folder)!r})",
        "log.check()",
        "log.estimate_bias()",
    )
    for shown in outputs[3:]:
        assert any("text/html" in output.get("data", {}) for output in shown)
        assert not [output for output in shown if output["output_type"] == "stream"]
