"""The report on a fit: what was learned from, how training went, and what every report must say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.offline import Fit
from rankloop.offline.fit_result import GuessReport
from rankloop.relevance import Calibration
from rankloop.relevance.click_model import ReliabilityRow
from rankloop.reports.document import Section
from rankloop.reports.fit import fit_document, importance
from rankloop.reports.html import html_page
from rankloop.training import ROBUST, Settings
from tests.offline.worlds_of_logs import BIAS, simulated
from tests.reports.shown import shown

MODELS = ["linear", "mlp(hidden=4)", "lightgbm(min_documents=2, rounds=4)"]


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    folder: Path = tmp_path_factory.mktemp("reports")
    log = simulated(folder / "log", queries=12, impressions=600).log
    learning = replace(ROBUST, settings=Settings(epochs=2))
    return {model: log.fit(model, bias=BIAS, learning=learning) for model in MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_the_page(fits: dict[str, Fit], model: str) -> None:
    found = fits[model]
    page = html_page(fit_document(replace(found, notes=("Beware <of> this.",))))
    for words in (
        model,
        "fitted to 600 impressions",
        "Beware &lt;of&gt; this.",
        f"{found.held_out.new.value:.4f}",
        f"{found.held_out.old.value:.4f}",
        "production",
        found.model.fingerprint,
        found.estimator,
        f"{BIAS.alpha[1]:.4f}",
    ):
        assert words in page
    # Training, and the self-test of the log.
    assert len(re.findall(r'<svg role="img"', page)) == 2
    assert not re.search(r'(src|href)="http', page)
    assert ("<h2>Features</h2>" in page) == (not model.startswith("mlp"))
    assert html_page(fit_document(found)) == html_page(fit_document(found))


def test_the_terminal_shows_the_numbers_of_the_page(fits: dict[str, Fit]) -> None:
    found = fits["linear"]
    lines = shown(fit_document(replace(found, notes=("Beware of this.",))))
    assert "note: Beware of this." in lines
    gain = found.held_out.gain
    assert f"{gain.value:.4f}" in lines
    assert f"{gain.low:.4f} to {gain.high:.4f}" in lines
    assert "weight" not in lines


def test_features_have_their_names(fits: dict[str, Fit]) -> None:
    """The table of features listed "0", "1", "2" although the log knew their names."""
    page = html_page(fit_document(replace(fits["linear"], feature_names=("price", "age", "stock"))))
    for name in ("price", "age", "stock"):
        assert re.search(rf"<th[^>]*>{name}</th>", page)


def test_the_next_step_comes_last(fits: dict[str, Fit]) -> None:
    blocks = fit_document(fits["linear"]).blocks
    assert isinstance(blocks[-1], Section)
    assert blocks[-1].heading == "Next step"


def test_importance(fits: dict[str, Fit]) -> None:
    linear, mlp, trees = (importance(fits[model]) for model in MODELS)
    assert linear is not None
    assert linear.tolist() == fits["linear"].model.parameters[:-1].tolist()  # type: ignore[attr-defined]
    assert mlp is None
    assert trees is not None
    assert trees.sum() == pytest.approx(1.0)
    # The first feature is the label with noise.
    assert np.argmax(trees) == 0


@pytest.mark.parametrize("effects", [False, True])
def test_the_page_says_what_guesses_are_compared_with(fits: dict[str, Fit], *, effects: bool) -> None:
    row = ReliabilityRow(relevance=0.25, displays=200, expected=50.0, clicks=40)
    guess = GuessReport("trees", Calibration(0.01, 200, (row,), query_effects=effects))
    page = html_page(fit_document(replace(fits["linear"], guess=guess)))
    assert "0.2500" in page
    assert "0.2000" in page
    assert ("one relevance for all documents of a query" in page) == effects
    assert ("estimated from the clicks of its other documents" in page) == effects
