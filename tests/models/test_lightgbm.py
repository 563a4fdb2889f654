"""Boosted trees: what they learn, when they stop, and what their files promise."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from rankloop.errors import ModelFileError
from rankloop.models import LightGBMModel, model_from_bytes
from rankloop.models.lightgbm import EarlyStopping, boost
from rankloop.ragged import THREADS_VARIABLE
from rankloop.types import Float32, Float64

STEP = np.arange(40, dtype=np.float32).reshape(40, 1)
TARGET = np.where(STEP[:, 0] < 20, -1.0, 3.0)
# Two leaves, and a bin a document, so that the step can be found where it is.
STUMP = {"num_leaves": 2, "learning_rate": 1.0, "min_data_in_leaf": 1, "min_data_in_bin": 1}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On data this small, the threads of LightGBM would only wait for one another."""
    monkeypatch.setenv(THREADS_VARIABLE, "1")


def squares(target: Float64) -> Any:
    """Derivatives of ``-½ Σ (s − target)²``: the gradient, and a curvature of one."""
    return lambda scores: (target - scores, np.ones(len(target)))


def loss(target: Float64) -> Any:
    return lambda scores: -float(((scores - target) ** 2).mean())


@pytest.fixture
def features(rng: np.random.Generator) -> Float32:
    return rng.normal(size=(200, 3)).astype(np.float32)


def test_one_stump_of_full_rate_fits_a_step() -> None:
    """A leaf's value is Σ gradient / Σ curvature: the mean of the target on its side of the step."""
    model = boost(STEP, squares(TARGET), rounds=1, parameters=STUMP)
    assert model.n_trees == 1
    assert model.n_features == 1
    np.testing.assert_allclose(model.scores(STEP), TARGET, atol=1e-6)


def test_a_rate_goes_part_of_the_way() -> None:
    model = boost(STEP, squares(TARGET), rounds=2, parameters={**STUMP, "learning_rate": 0.5})
    # Half of what is missing, twice.
    np.testing.assert_allclose(model.scores(STEP), TARGET * (1 - 0.5**2), atol=1e-6)


def test_the_curvature_divides() -> None:
    model = boost(STEP, lambda s: (TARGET - s, np.full(40, 4.0)), rounds=1, parameters=STUMP)
    np.testing.assert_allclose(model.scores(STEP), TARGET / 4, atol=1e-6)


def test_derivatives_are_asked_for_at_the_scores_so_far() -> None:
    seen: list[Float64] = []

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        seen.append(scores.copy())
        return TARGET - scores, np.ones(40)

    model = boost(STEP, derivatives, rounds=3, parameters={"min_data_in_leaf": 1})
    np.testing.assert_array_equal(seen[0], np.zeros(40))
    for trees in (1, 2):
        np.testing.assert_allclose(
            seen[trees], model.booster.predict(STEP, raw_score=True, num_iteration=trees), atol=1e-12
        )


def test_it_stops_early_and_keeps_the_best_round(features: Float32, rng: np.random.Generator) -> None:
    amount, noise = features[:, 0].astype(np.float64), rng.normal(size=200)
    held_out = features[100:]
    values: list[float] = []
    model = boost(
        features[:100],
        squares((amount + 2 * noise)[:100]),
        rounds=60,
        held_out=EarlyStopping(held_out, loss(amount[100:]), patience=7),
        parameters={"num_leaves": 4, "learning_rate": 0.3, "min_data_in_leaf": 2},
        watch=values.append,
    )
    best = int(np.argmax(values))
    assert 0 < best + 1 + 7 == len(values) < 60
    assert model.n_trees == best + 1
    assert loss(amount[100:])(model.scores(held_out)) == pytest.approx(values[best], rel=1e-9)


def test_where_no_tree_helps_there_is_none(features: Float32) -> None:
    target = features[:, 0].astype(np.float64)
    values: list[float] = []
    held_out = EarlyStopping(features, loss(-target), patience=3)
    model = boost(features, squares(target), rounds=50, held_out=held_out, watch=values.append)
    assert max(values) < loss(-target)(np.zeros(200))
    assert (model.n_trees, model.n_features) == (0, 3)
    np.testing.assert_array_equal(model.scores(features), np.zeros(200))
    again = model_from_bytes(model.to_bytes())
    assert again.fingerprint == model.fingerprint
    np.testing.assert_array_equal(again.scores(features), np.zeros(200))


@pytest.mark.parametrize("documents", [1, 4, 12, 200])
def test_documents_that_cannot_be_divided_give_no_tree(
    documents: int, capfd: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    """LightGBM itself ends with "Check failed: (train_data->num_features()) > (0)"."""
    alike = documents == 200
    features = np.zeros((documents, 3), np.float32) if alike else rng.random((documents, 3), np.float32)
    target = rng.normal(size=documents)
    held_out = EarlyStopping(features, loss(target), patience=3)
    parameters = {"min_data_in_leaf": 20, "bagging_fraction": 0.8, "bagging_freq": 1}
    model = boost(features, squares(target), rounds=5, held_out=held_out, parameters=parameters)
    assert (model.n_trees, model.n_features) == (0, 3)
    np.testing.assert_array_equal(model.scores(features), np.zeros(documents))
    assert capfd.readouterr() == ("", "")


def test_without_held_out_queries_every_round_is_kept_and_watched(features: Float32) -> None:
    values: list[float] = []
    target = features[:, 0].astype(np.float64)
    model = boost(features, squares(target), rounds=4, watch=values.append)
    assert model.n_trees == 4
    assert len(values) == 4
    assert np.isnan(values).all()


def test_the_seed_decides_what_is_drawn(features: Float32) -> None:
    drawn = {"bagging_fraction": 0.5, "bagging_freq": 1}
    target = features[:, 0].astype(np.float64)
    first, same, other = (
        boost(features, squares(target), rounds=3, parameters=drawn, seed=seed) for seed in (1, 1, 2)
    )
    assert first.text == same.text
    assert first.fingerprint == same.fingerprint
    assert not np.array_equal(first.scores(features), other.scores(features))


@pytest.fixture
def model(features: Float32) -> LightGBMModel:
    return boost(features, squares(features[:, 0].astype(np.float64)), rounds=3)


def test_a_stored_model_is_a_model_of_lightgbms(
    model: LightGBMModel, features: Float32, tmp_path: Path
) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(model.to_bytes())
    for booster in (lightgbm.Booster(model_str=model.to_bytes().decode()), lightgbm.Booster(model_file=path)):
        assert booster.num_trees() == 3
        np.testing.assert_array_equal(booster.predict(features, raw_score=True), model.scores(features))


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_the_end_of_the_text_does_not_matter(model: LightGBMModel, end: str) -> None:
    given = LightGBMModel(model.text.rstrip("\n") + end)
    again = LightGBMModel.from_bytes(given.to_bytes())
    assert given.fingerprint == again.fingerprint == model.fingerprint
    assert again.text == given.text


def _with_last_line_in_the_middle(text: str) -> bytes:
    """What is left looks like a file of LightGBM's own, which has no fingerprint."""
    body, line = text.removesuffix("\n").rsplit("\n", 1)
    return body.replace("\n\nfeature_importances:", f"\n{line}\nfeature_importances:", 1).encode() + b"\n"


def test_damaged_and_foreign_files_are_refused(model: LightGBMModel) -> None:
    data = model.to_bytes()
    assert LightGBMModel.from_bytes(data).text == model.text
    text = data.decode()
    for damaged, message in [
        (model.text[:-30].encode(), "the file was cut short"),
        (data[: len(data) // 2], "the file was cut short"),
        (text.replace("leaf_value=", "leaf_value=9", 1).encode(), "its trees have fingerprint"),
        (text.replace(model.fingerprint, "0" * 16).encode(), "its trees have fingerprint"),
        (text.replace('{"fingerprint"', '{"finger"').encode(), "the last line .* is damaged"),
        (text.replace('{"fingerprint"', '["fingerprint"').encode(), "the last line .* is damaged"),
        (text[:-3].encode(), "the last line .* is damaged"),
        (data[:-1], "damaged at its end"),
        (data + b"\n", "damaged at its end"),
        (_with_last_line_in_the_middle(text), "is not at its end"),
        (b"tree\xff" + data, "not a LightGBM text file"),
    ]:  # fmt: skip
        with pytest.raises(ModelFileError, match=message):
            LightGBMModel.from_bytes(damaged)
        with pytest.raises(ModelFileError, match=message):
            model_from_bytes(damaged)


def test_text_that_lightgbm_cannot_read(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelFileError, match=r"LightGBM cannot read|no line that ends the trees"):
        LightGBMModel.from_bytes(LightGBMModel("tree\nnothing else\n").to_bytes())
    capfd.readouterr()  # LightGBM itself prints what it thinks of it


def test_any_rows_at_all(model: LightGBMModel, features: Float32) -> None:
    assert model.scores(features[:0]).shape == (0,)
    np.testing.assert_array_equal(model.scores(features[5:6]), model.scores(features)[5:6])


FORK = """
import multiprocessing, os
import numpy as np
os.environ["RANKLOOP_THREADS"] = "2"
from rankloop.models.lightgbm import boost
features = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
model = boost(features, lambda scores: (features[:, 0] - scores, np.ones(2000)), rounds=3)
expected = model.scores(features)
def score():
    assert (model.scores(features) == expected).all()
child = multiprocessing.get_context("fork").Process(target=score)
child.start()
child.join(120)
stuck = child.is_alive()
child.kill()
raise SystemExit("the child hangs" if stuck else child.exitcode)
"""


@pytest.mark.long
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_forked_process_scores() -> None:
    # OpenMP's threads do not survive a fork, and scoring waited for them for ever.
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
