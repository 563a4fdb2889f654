"""From a log to a decision in one call."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.evidence import exit_code
from rankloop.offline import Log
from rankloop.reports.pipeline import PipelineOptions, run_pipeline
from tests.offline.worlds_of_logs import simulated

OPTIONS = PipelineOptions("lightgbm(min_documents=2, rounds=5)", bias="paper@3")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return simulated(tmp_path_factory.mktemp("pipeline") / "log", queries=20, impressions=600).log


def test_every_stage_is_on_the_page(log: Log, tmp_path: Path) -> None:
    """Four commands had to be called one after the other, and none had an exit code to gate on."""
    found = run_pipeline(log, tmp_path / "out", OPTIONS)
    page = (tmp_path / "out" / "index.html").read_text()
    # The number with the decision first, and what to do about it last.
    assert 0 < page.index("Decision") < page.index("Estimated from") < page.index("Check: ")
    assert page.index("Next step") > page.index("Evaluation: ")
    for words in ("Decision", "Check: ", "Fit: ", "Evaluation: ", found.comparison.conclusion.split("`")[0]):
        assert words in page
    stored = rankloop.load_fit(tmp_path / "out" / "policy")
    assert stored.model.fingerprint == found.fit.model.fingerprint
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["decision"]["kind"] == found.comparison.decision.kind
    assert found.exit_code == exit_code(found.comparison.decision.kind)
    # The stages are those of the single calls, and what the fit was evaluated by is not computed again.
    assert found.comparison is found.fit.comparison
    assert found.comparison == log.evaluate(found.fit, "later")


@pytest.mark.parametrize("asked", [{"metric": "clicks"}, {"against": "production"}])
def test_another_question_than_that_of_the_fit_is_answered(
    log: Log, tmp_path: Path, asked: dict[str, str]
) -> None:
    found = run_pipeline(log, tmp_path / "out", replace(OPTIONS, **asked))  # type: ignore[arg-type]
    against = asked.get("against", "later")
    assert found.comparison == log.evaluate(found.fit, against, metric=asked.get("metric", "dcg"))
    assert found.comparison != found.fit.comparison


def test_a_run_that_fails_leaves_the_stages_before(log: Log, tmp_path: Path) -> None:
    with pytest.raises(RankloopError):
        run_pipeline(log, tmp_path / "out", PipelineOptions("lightgbm(rounds=3)", bias="papr@3"))
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Check: " in page
    assert "Next step" in page
    assert "Fit: " not in page
