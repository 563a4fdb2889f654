"""Decisions per segment: exact on each device, together more cautious, and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.bias import save_bias
from rankloop.errors import DataError
from rankloop.offline import Comparison, EvaluationOptions, Log, open_log
from rankloop.reports.evaluation import evaluation_document
from rankloop.reports.html import html_page
from rankloop.types import Bias
from tests.cli.commands import Run

BIAS = Bias([0.8, 0.4], [0.2, 0.1], [1.0, 0.5])
# Users of phones like b, those of desktops a; a few others have no device.
RELEVANCE = {"phone": {"a": 0.25, "b": 1.0}, "desktop": {"a": 1.0, "b": 0.5}, None: {"a": 0.5, "b": 0.5}}
LISTS = {"production": "ab", "variant": "ba"}
TIMES = {"phone": 40, "desktop": 80, None: 10}
QUERIES = 20


def chance(device: str | None, policy: str) -> list[float]:
    """The click probabilities of a list; 1/20 is the smallest difference between two."""
    relevance = RELEVANCE[device]
    return [
        float(BIAS.alpha[k] * relevance[document] + BIAS.beta[k]) for k, document in enumerate(LISTS[policy])
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Clicks are as frequent as they are likely, for every device and policy."""
    rows: dict[str, list[object]] = {
        name: []
        for name in (
            "impression_id", "query_id", "policy_id", "position", "doc_id", "clicked", "timestamp", "device",
        )
    }  # fmt: skip
    for number in range(QUERIES):
        for device, times in TIMES.items():
            for policy, documents in LISTS.items():
                for turn in range(times // 2):
                    for position, document in enumerate(documents):
                        share = chance(device, policy)[position]
                        row = (
                            f"{number} {device} {policy} {turn}", f"q{number:02d}", policy, position + 1,
                            document, turn < round(share * (times // 2)), None, device,
                        )  # fmt: skip
                        for name, value in zip(rows, row, strict=True):
                            rows[name].append(value)
    folder = tmp_path_factory.mktemp("segments") / "log"
    folder.mkdir()
    table = pa.table({**rows, "timestamp": pa.array(rows["timestamp"], pa.timestamp("us", tz="UTC"))})
    pq.write_table(table, folder / "impressions.parquet")
    return open_log(folder)


def test_each_segment_has_the_difference_of_its_own_clicks(log: Log) -> None:
    options = EvaluationOptions(segments="device")
    found = log.evaluate("variant", "production", bias=BIAS, metric="clicks", options=options)
    assert [one.value for one in found.segments] == ["desktop", "phone", "missing"]
    for one, device in zip(found.segments, ("desktop", "phone", None), strict=True):
        truth = sum(chance(device, "variant")) - sum(chance(device, "production"))
        assert one.difference.estimate.value == pytest.approx(truth, abs=0.01)
        assert one.impressions == QUERIES * TIMES[device]
    # Phones are a third of the impressions, and the variant is worse on the others.
    desktop, phone, _ = found.segments
    assert phone.difference.estimate.value > 0.1 > -0.1 > desktop.difference.estimate.value
    # The log has no times, and the bias was given: nothing is firm.
    assert phone.decision.kind == "leans better"
    assert desktop.decision.kind == "leans worse"
    assert phone.decision.level == pytest.approx(0.1 / 3)


@pytest.fixture(scope="module")
def by_device(log: Log) -> Comparison:
    return log.evaluate("variant", "production", bias=BIAS, options=EvaluationOptions(segments="device"))


def test_intervals_hold_together(by_device: Comparison) -> None:
    for one in by_device.segments:
        gain = one.difference.estimate
        # Of 1/3 of a tenth in place of a tenth.
        if gain.error:
            assert (gain.same_high - gain.value) / gain.error == pytest.approx(2.128, abs=0.001)
    whole = by_device.difference.estimate
    assert (whole.same_high - whole.value) / whole.error == pytest.approx(1.645, abs=0.001)


def test_a_column_that_divides_nothing_is_refused(log: Log) -> None:
    with pytest.raises(DataError, match=r"'browser' does not divide .* device"):
        log.evaluate("variant", "production", bias=BIAS, options=EvaluationOptions(segments="browser"))


def test_terminal_page_and_json_have_the_segments(
    log: Log, by_device: Comparison, run: Run, tmp_path: Path
) -> None:
    page, bias = tmp_path / "page.html", save_bias(BIAS, tmp_path / "bias.json")
    code, out, _ = run(
        "evaluate", str(log.folder), "--policy", "variant", "--against", "production", "--bias", str(bias),
        "--segments", "device", "-o", str(page),
    )  # fmt: skip
    assert code == 0
    assert "by device" in out
    assert np.all([name in out for name in ("phone", "desktop", "missing")])
    told = json.loads(json.dumps(by_device.to_dict()))
    assert [one["value"] for one in told["segments"]] == ["desktop", "phone", "missing"]
    assert told["segments"][1]["decision"]["kind"] == "leans better"
    assert html_page(evaluation_document(by_device)) == page.read_text()
