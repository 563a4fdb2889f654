"""Training on labels: every model learns, the seed decides everything, and the best epoch is kept."""

from __future__ import annotations

import pytest

from rankloop import ragged
from rankloop.data import synthetic
from rankloop.errors import RankloopError
from rankloop.evaluation import ranking_metrics
from rankloop.models import Adam
from rankloop.models.specs import LightGBMSpec, LinearSpec, MLPSpec, ModelSpec
from rankloop.progress import Update
from rankloop.training import Settings, Task, train
from rankloop.types import Dataset, Split
from tests.training.problems import N_FEATURES


@pytest.mark.parametrize("metric", ["mrr", "arp"])
def test_a_metric_that_is_not_a_sum_over_documents_is_refused(easy: Dataset, metric: str) -> None:
    with pytest.raises(RankloopError, match=rf"'{metric}.*' cannot be trained on.*choose dcg, ndcg"):
        train(easy, "linear", metric=metric)


@pytest.mark.parametrize(
    "model", ["linear", "mlp(hidden=8)", "lightgbm(rounds=25, rate=0.3, min_documents=5)"]
)
def test_every_model_learns_a_linear_problem(easy: Dataset, model: str) -> None:
    settings = Settings(Adam(rate=0.02), epochs=25)
    result = train(easy, model, settings=settings)
    (value,) = ranking_metrics(result.model.scores(easy.test.features), easy.test, ["ndcg@5"]).values()
    # Random order gives 0.75; a straight line through the features gives 1.
    assert value > (0.99 if model == "linear" else 0.95)
    assert result.best.held_out > result.history[0].held_out + 0.1


def test_specs_and_names_are_the_same(easy: Dataset) -> None:
    settings = Settings(epochs=1)
    cases: list[tuple[str, ModelSpec]] = [
        ("mlp(hidden=4)", MLPSpec(hidden=(4,))),
        ("linear", LinearSpec()),
        ("lightgbm(rounds=3)", LightGBMSpec(rounds=3)),
    ]
    for name, spec in cases:
        named, given = train(easy, name, settings=settings), train(easy, spec, settings=settings)
        assert named.model.fingerprint == given.model.fingerprint
        assert named.model.kind == name.split("(")[0]


@pytest.mark.parametrize("model", ["mlp(hidden=4)", "linear", "lightgbm(rounds=3, min_documents=5)"])
def test_the_seed_decides_everything(easy: Dataset, model: str) -> None:
    settings = Settings(epochs=2)
    first, same, other = (train(easy, model, settings=settings, seed=seed) for seed in (1, 1, 2))
    assert first.model.to_bytes() == same.model.to_bytes()
    assert first.history == same.history
    assert first.model.fingerprint != other.model.fingerprint


@pytest.mark.parametrize("model", ["mlp(hidden=4)", "lightgbm(rounds=3, min_documents=5)"])
def test_the_number_of_threads_changes_no_bit(
    easy: Dataset, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ragged, "ROWS_PER_CHUNK", 10)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv(ragged.THREADS_VARIABLE, threads)
        results.append(train(easy, model, settings=Settings(epochs=2)))
    assert results[0].history == results[1].history
    assert results[0].model.to_bytes() == results[1].model.to_bytes()


@pytest.mark.parametrize(
    "model", ["mlp(hidden=8)", "lightgbm(rounds=200, patience=4, rate=0.3, min_documents=2)"]
)
def test_the_best_epoch_is_the_one_that_is_kept(noisy: Dataset, model: str) -> None:
    result = train(noisy, model, settings=Settings(Adam(rate=0.05), epochs=200, patience=4))
    values = [epoch.held_out for epoch in result.history]
    assert values[0] < result.best.held_out == max(values)
    assert values[result.best.number] == result.best.held_out
    held_out = Task.supervised(noisy.validation, "ndcg@5")
    again = held_out.value(result.model.scores(noisy.validation.features))
    # Trees add up their leaves in another order when they grow than when they are read back.
    assert again == pytest.approx(result.best.held_out, abs=0 if result.model.kind == "mlp" else 1e-12)
    # It stopped because four epochs brought nothing, long before the last one allowed.
    assert result.history[-1].number == result.best.number + 4 < 200
    assert [epoch.number for epoch in result.history] == list(range(len(values)))


def test_training_continues_from_a_model(easy: Dataset) -> None:
    first = train(easy, "mlp(hidden=4)", settings=Settings(epochs=2))
    fingerprint = first.model.fingerprint
    second = train(easy, first.model, settings=Settings(epochs=2))
    assert second.history[0].held_out == first.best.held_out
    assert second.best.held_out > first.best.held_out
    assert first.model.fingerprint == fingerprint != second.model.fingerprint


def test_progress_reports_every_epoch(easy: Dataset) -> None:
    for model in ("linear", "lightgbm(rounds=3, min_documents=5)"):
        seen: list[Update] = []
        result = train(easy, model, settings=Settings(epochs=3), progress=seen.append)
        assert tuple(update.detail for update in seen) == result.history
        assert {update.task for update in seen} == {"training"}
        assert len(seen) == 1 + 3


def test_the_test_split_is_not_read() -> None:
    data = synthetic(queries=40, features=N_FEATURES)
    # Labels outside the five grades of the metric: reading them would be an error.
    poisoned = Split.build(data.test.features, data.test.labels + 9, data.test.sizes)
    other = Dataset("other", data.train, data.validation, poisoned)
    first, second = (train(d, "linear", metric="rctr@5", settings=Settings(epochs=1)) for d in (data, other))
    assert first.model.fingerprint == second.model.fingerprint


@pytest.mark.parametrize("objective", ["pairwise-logistic", "softmax", "linear", "expected-metric(ranks=2)"])
def test_a_network_learns_on_another_objective_and_is_judged_by_the_metric(
    easy: Dataset, objective: str
) -> None:
    settings = Settings(epochs=10)
    plain = train(easy, "linear", settings=settings)
    other = train(easy, "linear", objective=objective, settings=settings)
    assert other.model.fingerprint != plain.model.fingerprint
    # The first epoch is the start, which is the same, and so is its held-out metric.
    assert other.history[0].held_out == plain.history[0].held_out
    assert other.best.held_out > other.history[0].held_out


def test_an_objective_for_trees_is_refused_with_the_way_to_say_it(easy: Dataset) -> None:
    with pytest.raises(RankloopError, match=r"lightgbm\(objective=lambdarank\)"):
        train(easy, "lightgbm(rounds=2)", objective="softmax")


def test_an_unknown_objective_is_named(easy: Dataset) -> None:
    with pytest.raises(RankloopError, match="hinge"):
        train(easy, "linear", objective="hinge")
