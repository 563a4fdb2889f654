"""Training: the compiled epoch against the same steps in plain Python, and what stopping early promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import ragged
from rankloop.data import synthetic
from rankloop.errors import DataError, RankloopError
from rankloop.evaluation import policy_metrics, ranking_metrics
from rankloop.models import MLP, SGD, Adam, LightGBMModel, Linear, TorchModel
from rankloop.models.mlp import Network
from rankloop.models.optimisers import Optimiser
from rankloop.models.specs import LightGBMSpec, LinearSpec, MLPSpec, ModelSpec
from rankloop.training import Epoch, Settings, Task, Training, train, train_network, train_trees
from rankloop.types import Dataset, Split
from tests.training.steps import Foreign, in_plain_python

# One query of one document, and one whose documents all weigh the same: neither can be ranked better.
SIZES = np.array([1, 4, 7, 2, 5, 3, 6, 2])
FLAT = 5
N_FEATURES = 4
DCG_AT_3 = 1 / np.log2([2.0, 3.0, 4.0])


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On data this small, the threads of LightGBM would only wait for one another."""
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "1")


@pytest.fixture
def task(rng: np.random.Generator) -> Task:
    offsets = ragged.offsets_of(SIZES)
    weights = rng.normal(size=SIZES.sum())
    weights[offsets[FLAT] : offsets[FLAT + 1]] = 0.7
    features = rng.normal(size=(SIZES.sum(), N_FEATURES)).astype(np.float32)
    return Task(features, offsets, weights, DCG_AT_3)


def linear_problem(queries: int, seed: int, *, noise: float = 0.0) -> Split:
    """Five documents a query, graded 0 to 4 by their place along one direction (plus noise)."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries, 5, N_FEATURES))
    values = features @ np.array([2.0, -1.0, 0.5, 0.0]) + noise * rng.normal(size=(queries, 5))
    grades = values.argsort(axis=1).argsort(axis=1)
    return Split.build(features.reshape(-1, N_FEATURES), grades.ravel(), sizes=[5] * queries)


@pytest.fixture(scope="module")
def easy() -> Dataset:
    return Dataset("easy", linear_problem(60, 0), linear_problem(20, 1), linear_problem(20, 2))


@pytest.fixture(scope="module")
def noisy() -> Dataset:
    """Few queries and much noise: a network soon learns what is not there."""
    return Dataset("noisy", *(linear_problem(n, seed, noise=4.0) for n, seed in ((12, 0), (12, 1), (12, 2))))


float64_networks = pytest.mark.parametrize(
    "start",
    [
        MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5, 3), dtype=np.float64),
        MLP.initialise(
            N_FEATURES, np.random.default_rng(1), hidden=(6,), activation="tanh", dtype=np.float64
        ),
        Linear.initialise(N_FEATURES, np.random.default_rng(1), dtype=np.float64),
    ],
    ids=["mlp", "tanh", "linear"],
)
every_optimiser = pytest.mark.parametrize("optimiser", [SGD(rate=0.5), Adam(rate=0.05)], ids=["sgd", "adam"])


@float64_networks
@every_optimiser
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_the_compiled_epoch_takes_the_steps_of_plain_python(
    task: Task, start: Network, optimiser: Optimiser, batch: int
) -> None:
    settings = Settings(optimiser, batch=batch, epochs=3)
    result = train_network(start, task, held_out=None, settings=settings, rng=np.random.default_rng(5))
    learner = start.learner(optimiser)
    steps = in_plain_python(learner, task, batch=batch, epochs=3, rng=np.random.default_rng(5))
    assert steps == learner.state.step > 0
    assert np.abs(learner.parameters - start.parameters).max() > 0.01
    assert isinstance(result.model, Network)
    # The last bias shifts all scores alike, so its gradient is 0 but for rounding, which Adam blows up.
    np.testing.assert_allclose(result.model.parameters[:-1], learner.parameters[:-1], rtol=0, atol=1e-10)


@every_optimiser
@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_of_another_make_takes_the_same_steps(task: Task, optimiser: Optimiser, batch: int) -> None:
    start = MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5,), dtype=np.float64)
    settings = Settings(optimiser, batch=batch, epochs=3)
    compiled, plain = (
        train_network(model, task, held_out=task, settings=settings, rng=np.random.default_rng(5))
        for model in (start, Foreign(start))
    )
    assert plain.model.kind == "foreign"
    scores, expected = (result.model.scores(task.features) for result in (plain, compiled))
    # Up to a shift, as above.
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        [epoch.held_out for epoch in plain.history],
        [epoch.held_out for epoch in compiled.history],
        atol=1e-10,
    )


@pytest.mark.extras
@every_optimiser
def test_a_torch_module_takes_the_same_steps(task: Task, optimiser: Optimiser) -> None:
    torch = pytest.importorskip("torch", reason='torch is not installed: pip install "rankloop[torch]"')
    start = MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5,))
    module = torch.nn.Sequential(torch.nn.Linear(N_FEATURES, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 1))
    cuts = np.split(start.parameters, np.cumsum([N_FEATURES * 5, 5, 5]))
    shapes = [(N_FEATURES, 5), (5,), (5, 1), (1,)]
    with torch.no_grad():
        for parameter, flat, shape in zip(module.parameters(), cuts, shapes, strict=True):
            parameter.copy_(torch.tensor(flat.reshape(shape).T))
    settings = Settings(optimiser, batch=3, epochs=3)
    ours, theirs = (
        train_network(model, task, held_out=task, settings=settings, rng=np.random.default_rng(5))
        for model in (start, TorchModel(module, N_FEATURES))
    )
    assert ours.best.held_out > ours.history[0].held_out
    np.testing.assert_allclose(
        [epoch.held_out for epoch in theirs.history], [epoch.held_out for epoch in ours.history], atol=1e-5
    )
    scores, expected = (result.model.scores(task.features) for result in (theirs, ours))
    # Up to a shift: the last bias has no gradient but rounding.
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=1e-4, atol=1e-4)


@every_optimiser
@pytest.mark.parametrize("make", [lambda model: model, Foreign], ids=["compiled", "foreign"])
def test_what_cannot_be_ranked_better_moves_nothing(make: Any, optimiser: Optimiser) -> None:
    start = MLP.initialise(1, np.random.default_rng(0), hidden=(3,))
    features = np.array([[1.0], [2.0], [3.0]], np.float32)
    flat = Task(features, np.array([0, 2, 3]), np.array([0.5, 0.5, 2.0]), DCG_AT_3)
    result = train_network(
        make(start), flat, held_out=None, settings=Settings(optimiser, epochs=3), rng=_rng()
    )
    assert result.model.fingerprint == start.fingerprint


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_objective_is_the_mean_expected_metric(noisy: Dataset) -> None:
    scores = _rng().normal(size=noisy.test.n_docs)
    for metric in ["ndcg@3", "dcg", "precision@2", "rctr@4", "nrctr@4"]:
        (expected,) = policy_metrics(scores, noisy.test, [metric]).values()
        assert Task.supervised(noisy.test, metric).value(scores) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("metric", ["mrr", "arp"])
def test_a_metric_that_does_not_add_up_is_refused(easy: Dataset, metric: str) -> None:
    with pytest.raises(RankloopError, match=rf"'{metric}.*' cannot be trained on.*choose dcg, ndcg"):
        train(easy, "linear", metric=metric)


@pytest.mark.parametrize("model", ["linear", "mlp(hidden=8)", "lightgbm(rounds=25, rate=0.3, min_docs=5)"])
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


@pytest.mark.parametrize("model", ["mlp(hidden=4)", "linear", "lightgbm(rounds=3, min_docs=5)"])
def test_the_seed_decides_everything(easy: Dataset, model: str) -> None:
    settings = Settings(epochs=2)
    first, same, other = (train(easy, model, settings=settings, seed=seed) for seed in (1, 1, 2))
    assert first.model.to_bytes() == same.model.to_bytes()
    assert first.history == same.history
    assert first.model.fingerprint != other.model.fingerprint


@pytest.mark.parametrize("model", ["mlp(hidden=4)", "lightgbm(rounds=3, min_docs=5)"])
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


@pytest.mark.parametrize("model", ["mlp(hidden=8)", "lightgbm(rounds=200, patience=4, rate=0.3, min_docs=2)"])
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


def opposed(task: Task) -> Task:
    """The task whose every gain is this one's loss."""
    return Task(task.features, task.offsets, -task.doc_weights, task.rank_weights)


def test_what_never_gets_better_is_left_as_it_was(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    start = Linear.initialise(N_FEATURES, _rng())
    settings = Settings(epochs=50, patience=3)
    result = train_network(start, task, held_out=opposed(task), settings=settings, rng=_rng())
    assert result.model is start
    assert result.best.number == 0
    assert len(result.history) == 1 + 3


def test_caution_keeps_the_best_of_the_epochs_that_convince(noisy: Dataset) -> None:
    task, held_out = (Task.supervised(split, "ndcg@5") for split in (noisy.train, noisy.validation))
    start = MLP.initialise(noisy.n_features, _rng(), hidden=(8,))

    def trained(caution: float) -> Training:
        settings = Settings(Adam(rate=0.05), epochs=12, patience=12, caution=caution)
        return train_network(start, task, held_out=held_out, settings=settings, rng=_rng())

    bold, careful, timid = trained(0.0), trained(1.0), trained(100.0)
    # The same epochs in all three: caution only says which of them may be kept.
    values = [epoch.held_out for epoch in bold.history]
    assert (
        [epoch.held_out for epoch in careful.history] == [epoch.held_out for epoch in timid.history] == values
    )
    assert bold.best.held_out == max(values)
    assert timid.model is start
    first = held_out.values(start.scores(held_out.features))
    gain = held_out.values(careful.model.scores(held_out.features)) - first
    assert gain.mean() >= gain.std() / np.sqrt(len(gain)) > 0


def test_patience_counts_from_the_last_rise_convincing_or_not(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    start = Linear.initialise(N_FEATURES, _rng())
    settings = Settings(Adam(rate=0.001), epochs=6, patience=2, caution=1e6)
    result = train_network(start, task, held_out=task, settings=settings, rng=_rng())
    assert result.model is start
    values = [epoch.held_out for epoch in result.history]
    assert values == sorted(values)
    assert len(values) == 1 + 6


def test_values_by_query_are_those_of_the_reward(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    scores = Linear.initialise(N_FEATURES, _rng()).scores(task.features)
    np.testing.assert_allclose(task.values(scores), task.reward(scores).values, rtol=1e-9, atol=1e-12)


def test_caution_below_nothing_is_refused() -> None:
    with pytest.raises(RankloopError, match="caution must be at least 0"):
        Settings(caution=-1.0)


def test_trees_that_never_help_are_not_kept(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    spec = LightGBMSpec(rounds=20, patience=3, min_docs=5)
    result = train_trees(task, spec, held_out=opposed(task), rng=_rng())
    assert isinstance(result.model, LightGBMModel)
    assert result.best.number == result.model.n_trees == 0
    np.testing.assert_array_equal(result.model.scores(task.features), np.zeros(len(task.features)))


@pytest.mark.parametrize("make", [lambda: Linear.initialise(N_FEATURES, _rng()), LightGBMSpec])
def test_without_held_out_queries_the_last_epoch_is_kept(easy: Dataset, make: Any) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    if make is LightGBMSpec:
        result = train_trees(task, LightGBMSpec(rounds=7, min_docs=5), held_out=None, rng=_rng())
        assert result.model.n_trees == 7  # type: ignore[attr-defined]
    else:
        result = train_network(make(), task, held_out=None, settings=Settings(epochs=7), rng=_rng())
        longer = train_network(make(), task, held_out=None, settings=Settings(epochs=8), rng=_rng())
        assert result.model.fingerprint != longer.model.fingerprint
    assert result.best is result.history[-1]
    assert result.best.number == 7
    assert all(np.isnan(epoch.held_out) for epoch in result.history)


def test_training_goes_on_from_a_model(easy: Dataset) -> None:
    first = train(easy, "mlp(hidden=4)", settings=Settings(epochs=2))
    fingerprint = first.model.fingerprint
    second = train(easy, first.model, settings=Settings(epochs=2))
    assert second.history[0].held_out == first.best.held_out
    assert second.best.held_out > first.best.held_out
    assert first.model.fingerprint == fingerprint != second.model.fingerprint


def test_watch_sees_every_epoch_as_it_comes(easy: Dataset) -> None:
    for model in ("linear", "lightgbm(rounds=3, min_docs=5)"):
        seen: list[Epoch] = []
        result = train(easy, model, settings=Settings(epochs=3), watch=seen.append)
        assert tuple(seen) == result.history
        assert len(seen) == 1 + 3


@pytest.mark.parametrize("optimiser", [SGD(1e30), Adam(1e30), SGD(1e12)], ids=str)
@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("make", [lambda model: model, Foreign], ids=["compiled", "foreign"])
def test_steps_that_are_too_large_are_an_error_and_no_nan(
    easy: Dataset, optimiser: Optimiser, held_out: bool, make: Any
) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    with pytest.raises(RankloopError, match="lower the optimiser's rate"):
        train_network(
            make(Linear.initialise(N_FEATURES, _rng())),
            task,
            held_out=task if held_out else None,
            settings=Settings(optimiser, epochs=2),
            rng=_rng(),
        )


def test_trees_do_not_go_on_from_trees(easy: Dataset) -> None:
    trees = train(easy, "lightgbm(rounds=2)").model
    with pytest.raises(RankloopError, match="lightgbm model does not learn in steps"):
        train(easy, trees)


@pytest.mark.parametrize("name", ["batch", "epochs", "patience"])
def test_settings_count_from_one(name: str) -> None:
    with pytest.raises(RankloopError, match=f"{name} must be at least 1, got 0"):
        Settings(**{name: 0})  # type: ignore[arg-type]


def test_a_model_of_another_width_is_refused(task: Task) -> None:
    model = Linear.initialise(N_FEATURES + 1, _rng())
    for held_out in (task, None):
        with pytest.raises(DataError, match="takes 5 features, the documents have 4"):
            train_network(model, task, held_out=held_out, rng=_rng())


def test_the_test_split_is_not_looked_at() -> None:
    data = synthetic(queries=40, features=N_FEATURES)
    # Labels that no metric with five grades takes: looking at them would be an error.
    poisoned = Split.build(data.test.features, data.test.labels + 9, data.test.sizes)
    other = Dataset("other", data.train, data.validation, poisoned)
    first, second = (train(d, "linear", metric="rctr@5", settings=Settings(epochs=1)) for d in (data, other))
    assert first.model.fingerprint == second.model.fingerprint
