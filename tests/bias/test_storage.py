"""Bias files: they are read back exactly, and other files are rejected."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import BiasOptions, estimate_bias, load_bias, save_bias
from rankloop.errors import DataError, RankloopError
from rankloop.types import Bias
from tests.bias.counts_of import simulated

BIAS = Bias([0.35, 0.1 + 0.2], beta=[0.65, 0.26], examination=[1.0, 0.8])


def test_a_bias_is_read_back_exactly(tmp_path: Path) -> None:
    path = save_bias(BIAS, tmp_path / "new" / "bias.json")
    loaded = load_bias(path)
    for name in ("alpha", "beta", "examination"):
        assert np.array_equal(getattr(loaded, name), getattr(BIAS, name))
    assert [child.name for child in path.parent.iterdir()] == ["bias.json"]


def test_an_estimate_is_loaded_as_its_bias_and_the_file_has_the_rest(tmp_path: Path) -> None:
    counts = simulated("paper@2", queries=60, impressions=20_000, seed=0)
    estimate = estimate_bias(counts, BiasOptions(resamples=20), rng=np.random.default_rng(0))
    path = save_bias(estimate, tmp_path / "bias.json")
    assert np.array_equal(load_bias(path).alpha, estimate.bias.alpha)
    kept = json.loads(path.read_text())["estimate"]
    assert kept["anchor"] == {"high": 1, "low": 2}
    assert estimate.alpha is not None
    assert kept["alpha_interval"] == {
        "low": estimate.alpha.low.tolist(),
        "high": estimate.alpha.high.tolist(),
    }
    assert kept["movement"]["connected"] == [True, True]
    assert kept["held_out"]["better"] == "affine"


def test_the_evidence_of_an_estimate_is_read_back(tmp_path: Path) -> None:
    counts = simulated("paper@2", queries=60, impressions=20_000, seed=0)
    estimate = estimate_bias(counts, BiasOptions(resamples=20, held_out=False), rng=np.random.default_rng(0))
    loaded = load_bias(save_bias(estimate, tmp_path / "bias.json")).evidence
    known = estimate.bias.evidence
    assert loaded is not None
    assert known is not None
    assert loaded.method == "pairs"
    assert known.resamples is not None
    assert known.resamples.shape == (20, 3, 2)
    np.testing.assert_allclose(loaded.resamples, known.resamples, atol=1e-6)
    # The resamples are those of the intervals.
    for name, drawn in zip(("alpha", "beta", "examination"), known.resamples.swapaxes(0, 1), strict=True):
        np.testing.assert_allclose(
            getattr(estimate, name).low, np.quantile(drawn, 0.05, axis=0, method="weibull")
        )
    assumed = estimate_bias(counts, BiasOptions("assumed"), rng=np.random.default_rng(0))
    loaded_bias = load_bias(save_bias(assumed, tmp_path / "bias.json"))
    assert loaded_bias.evidence is not None
    assert loaded_bias.evidence.method == "assumed"
    assert not loaded_bias.is_estimated


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "rankloop-bias",\n "alpha": [0.1', "line 2: the file is damaged"),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": [0.1], "beta": [0], "examination": [1], '
            '"estimate": {"method": "guess"}}',
            "the method of the estimate is 'guess'",
        ),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": [0.1], "beta": [0], "examination": [1], '
            '"estimate": {"method": "pairs", "resampled": {"alpha": [[1]]}}}',
            "'resampled' must hold a table",
        ),
        ("[1, 2]", 'does not contain "format": "rankloop-bias"'),
        ('{"format": "rankloop-model"}', 'does not contain "format"'),
        ('{"format": "rankloop-bias", "version": 2}', "version 2, but this program reads version 1"),
        ('{"format": "rankloop-bias", "version": 1, "alpha": [0.1]}', "'beta' must be a list of numbers"),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": ["x"], "beta": [0], "examination": [1]}',
            r"'alpha' must be a list of numbers, one per rank, got \['x'\]",
        ),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": [0.9], "beta": [0.5], "examination": [1]}',
            "click probabilities",
        ),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": [NaN], "beta": [0.5], "examination": [1]}',
            "finite",
        ),
        (
            '{"format": "rankloop-bias", "version": 1, "alpha": [0, 0], "beta": [0.5], "examination": [1]}',
            "the same number of ranks",
        ),
    ],
)
def test_other_files_are_rejected_with_a_reason(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bias.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        load_bias(path)
    assert str(path) in str(caught.value)


def test_binary_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataError, match="not text"):
        load_bias(tmp_path / "model")
    with pytest.raises(DataError, match="cannot read the bias: No such file"):
        load_bias(tmp_path / "none.json")


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RankloopError, match="cannot be written"):
        save_bias(BIAS, tmp_path / "file" / "bias.json")


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 10_000, '{"alpha": ' + "9" * 10_000 + "}"])
def test_numbers_and_brackets_without_end(tmp_path: Path, text: str) -> None:
    """Before: a RecursionError or a ValueError of the JSON parser."""
    (tmp_path / "bias.json").write_text(text)
    with pytest.raises(DataError, match=r"bias\.json: the file is damaged or is not a bias file"):
        load_bias(tmp_path / "bias.json")
