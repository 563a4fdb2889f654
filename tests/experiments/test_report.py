"""The report: one page that needs nothing else, and says what was measured."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.baselines import Peakedness
from rankloop.experiments.report import report_document, write_report
from rankloop.experiments.results import RunResult, find_results
from rankloop.experiments.spec import RunSpec
from rankloop.experiments.summary import group_runs, summarise
from rankloop.reports.html import Html, element, html_page
from tests.experiments import runs

VOID = {"meta", "path", "use", "circle", "rect", "line"}


class Page(HTMLParser):
    """A page taken apart: tags that do not match are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.cells: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if {"td", "th"} & set(self._open):
            self.cells[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report(several: list[RunResult]) -> str:
    """The page on some runs."""
    return html_page(report_document(several))


def written(folder: Path) -> list[RunResult]:
    """Two seeds of the loop, and one naive run."""
    spec = RunSpec(data="made-up", horizon=10_000, interventions=(100, 1000), learning="doubly-robust")
    for seed in range(2):
        shifted = tuple(runs.row(r.impressions, r.learned + 0.01 * seed, r.logging) for r in runs.ROWS)
        seeded = spec.model_copy(update={"seed": seed})
        runs.written(folder / f"aware-{seed}", seeded, rows=shifted)
    naive = (runs.row(100, 0.5, 0.5, estimate=None, estimate_error=None), *runs.ROWS[1:])
    runs.written(folder / "naive", spec.model_copy(update={"estimator": "naive"}), rows=naive)
    return find_results([folder])


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> list[RunResult]:
    return written(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(several: list[RunResult]) -> str:
    return report(several)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_needs_nothing_from_elsewhere(text: str, page: Page) -> None:
    assert not re.search(r"https?:|//\w", text)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]


def test_the_page_is_the_same_byte_for_byte_wherever_the_runs_are(tmp_path: Path, text: str) -> None:
    page = write_report(written(tmp_path), tmp_path / "report.html")
    assert page.read_bytes() == text.encode()


def test_every_number_of_the_table_is_there(several: list[RunResult], page: Page) -> None:
    lines = [summarise(group) for group in group_runs(several)]
    assert [line.group.name for line in lines] == ["2 seeds", "naive"]
    for line in lines:
        gain = f"+{line.gain}"
        row = [line.learned, gain, line.start, line.oracle, line.logging, line.shown]
        wanted = [f"{line.group.name}{line.group.label}", *map(str, row), "10,000", "2"]
        at = page.cells.index(wanted[0])
        assert page.cells[at : at + len(wanted)] == wanted
    # By hand: two seeds end at 0.8125 and 0.8225, and t = 6.314 for two.
    assert "0.8175 ± 0.0316" in page.cells
    assert "0.6575" in page.cells  # (100 · 0.5 + 900 · 0.375 + 9000 · 0.6875) / 10,000


def test_every_evaluation_of_every_run_is_there(several: list[RunResult], page: Page) -> None:
    for run in several:
        for row in run.rows:
            cells = [f"{row.impressions:,}", f"{row.learned:.4f}", f"{row.logging:.4f}"]
            assert any(page.cells[i : i + 3] == cells for i in range(len(page.cells)))
    assert page.cells.count("–") == 2  # the estimate and the error that the naive run does not know


def test_the_setup_is_reported(page: Page) -> None:
    text = " ".join(page.text)
    for told in ("made-up", "paper@5", "robust", "rankloop run made-up", "--seed 1", "--out aware-1"):
        assert told in text
    assert "rankloop report aware-0 aware-1 naive" in text
    assert "90% confidence" in text
    for value in ("0.4000", "0.2000", "0.750", "12.5%", "30.0", "33.0"):  # α, β, peakedness, seconds
        assert value in page.cells


def test_figures_have_words(page: Page) -> None:
    figures = [attributes for attributes in page.all("svg") if attributes.get("role") == "img"]
    # Learned, logging; one estimate a group; three levels of support and the scale.
    assert len(figures) == 2 + 2 + 4 == len(page.all("figure")) == len(page.all("figcaption"))
    labels = [str(figure["aria-label"]) for figure in figures]
    assert len(set(labels)) == len(labels)
    assert "robust intervention-aware, interventions at 100,1000: 0.8175 ± 0.0316" in labels[0]
    assert "2 seeds: doubly robust" in labels[0]
    # A standard error of 0.125 on either side, 1.645 times.
    assert any("the estimate is 1.8175 ± 0.2056, the truth 1.8800" in label for label in labels)
    others = [attributes for attributes in page.all("svg") if attributes.get("role") != "img"]
    assert all(attributes.get("aria-hidden") == "true" for attributes in others)


def test_ids_are_unique(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert ids
    assert len(set(ids)) == len(ids)


def test_what_users_wrote_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('&')</script>"
    name = '<b>bold & "quoted"<'
    runs.written(
        tmp_path / name,
        RunSpec(data=evil, start=evil, horizon=10_000, interventions=2),
        about=runs.facts(dataset=evil, start_kind=evil),
    )
    text = report(find_results([tmp_path / name]))
    assert "<script" not in text
    assert "<b>" not in text
    page = Page(text)
    assert evil in "".join(page.text)
    assert any(name in str(attributes.get("aria-label")) for attributes in page.all("svg"))


def test_a_peaked_start_is_reported_and_a_soft_one_is_not(tmp_path: Path, page: Page) -> None:
    assert "nearly deterministic" not in " ".join(page.text)
    peaked = Peakedness(top_first=0.99, support={"0.01": 0.9, "0.0001": 0.8, "1e-06": 0.7})
    runs.written(tmp_path / "peaked" / "a", about=runs.facts(peakedness=peaked))
    text = report(find_results([tmp_path / "peaked"]))
    assert "nearly deterministic" in text
    assert "--temperature 5" in text


def test_an_oracle_that_is_not_known_is_not_drawn(tmp_path: Path) -> None:
    runs.written(tmp_path / "a", about=runs.facts(oracle=None))
    (run,) = find_results([tmp_path])
    text = report([run])
    cells = Page(text).cells
    at = cells.index("aclick-likelihood, interventions at 100,1000")
    assert cells[at + 4] == "–"
    documents = re.findall(r"<li>.*?</li>", text)
    assert not any("oracle" in document for document in documents)
    assert any("starting policy" in document for document in documents)


def test_a_run_that_has_not_ended_is_marked(tmp_path: Path, page: Page) -> None:
    assert "is not finished" not in " ".join(page.text)
    runs.written(tmp_path / "cut" / "a", rows=runs.ROWS[:2])
    assert "is not finished" in report(find_results([tmp_path / "cut"]))


def test_different_metrics_are_not_one_table(tmp_path: Path) -> None:
    runs.written(tmp_path / "a")
    runs.written(tmp_path / "b", RunSpec(metric="mrr"))
    with pytest.raises(
        RankloopError, match=r"a was measured by ndcg@5 and .*b by mrr: make one report for each"
    ):
        report(find_results([tmp_path]))


def test_runs_on_different_data_are_distinguished(tmp_path: Path) -> None:
    runs.written(tmp_path / "a")
    about = runs.facts(dataset="other", queries={"train": 4, "validation": 1, "test": 99}, start=0.25)
    runs.written(tmp_path / "b", RunSpec(data="other", horizon=10_000), about=about)
    text = "".join(Page(report(find_results([tmp_path]))).text)
    assert "Learning to rank from clicks: made-up, other" in text
    assert "12 or 99 test queries" in text


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "<", Html("<b>x</b>"), title='"') == '<p title="&quot;">&lt;<b>x</b></p>'
