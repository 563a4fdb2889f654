"""How a comparison changes with the bias."""

from __future__ import annotations

import json

import pytest

import rankloop
from rankloop.bias import named_bias
from rankloop.reports.document import Document
from rankloop.reports.evaluation import sensitivity_section
from rankloop.reports.html import html_page
from tests.offline.worlds_of_logs import Simulated, simulated


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("sensitivity") / "log")


def test_every_row_is_the_comparison_under_its_bias(world: Simulated) -> None:
    found = rankloop.sensitivity(world.log, "later", "production")
    names = [row.name for row in found.rows]
    assert names == ["position@3(eta=0.5)", "position@3", "position@3(eta=1.5)", "paper@3"]
    for row in found.rows:
        bias = named_bias(row.name)
        alone = world.log.evaluate("later", "production", bias=bias)
        assert row.comparison.difference == alone.difference
        assert row.last_rank == bias.examination[-1]
        assert row.relative == pytest.approx(alone.difference.estimate.value / alone.against.estimate.value)
    assert json.loads(json.dumps(found.to_dict()))["rows"][1]["bias"] == "position@3"
    page = html_page(Document("t", "t", (sensitivity_section(found),)))
    assert "position@3(eta=1.5)" in page
    assert found.text in page


def test_the_sentence_says_whether_the_decision_depends_on_the_bias(world: Simulated) -> None:
    given = (named_bias("paper@3"), "position@3")
    found = rankloop.sensitivity(world.log, "later", "production", given)
    assert [row.name for row in found.rows] == ["bias 1", "position@3"]
    same = len({row.comparison.decision.kind for row in found.rows}) == 1
    assert found.text.startswith("The decision is the same under all 2" if same else "The decision depends")
