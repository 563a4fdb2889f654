"""The contract of every model, and of every spec of a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.checks.contract import VALUE_CLAUSES, Clause, check_all, require, require_refused, require_same
from rankloop.errors import DataError, ModelFileError
from rankloop.models import SGD, model_from_bytes
from rankloop.models.specs import NetworkSpec
from rankloop.types import Float32, Float64, Model

N_DOCUMENTS = 11
# Steps so small that scores change linearly with them, up to the tolerance below.
RATE = 1e-3
LINEAR, SINGLE_PRECISION = 0.05, 1e-5


@dataclass(frozen=True)
class ModelCase:
    """A model and the function that reads it back from its bytes."""

    model: Any
    read: Callable[[bytes], Model] = model_from_bytes

    def __str__(self) -> str:
        return f"the {self.model.kind} model {type(self.model).__name__}"

    @property
    def features(self) -> Float32:
        """Features of a few documents, the same at each call."""
        rng = np.random.default_rng(0)
        return rng.normal(size=(N_DOCUMENTS, self.model.n_features)).astype(np.float32)

    @property
    def learns(self) -> bool:
        """Whether the model learns in steps; trees do not."""
        return hasattr(self.model, "learner")


@Clause
def says_what_it_is(case: ModelCase) -> None:
    """A model has a kind, a number of features, and a fingerprint of 16 hexadecimal digits."""
    model = case.model
    require(isinstance(model, Model), "it lacks an attribute or a method of rankloop.types.Model")
    require(isinstance(model.kind, str) and model.kind, f"its kind is {model.kind!r}")
    require(
        isinstance(model.n_features, int) and model.n_features >= 1, f"n_features is {model.n_features!r}"
    )
    mark = model.fingerprint
    require(len(mark) == 16 and set(mark) <= set("0123456789abcdef"), f"its fingerprint is {mark!r}")


@Clause
def scores_every_document(case: ModelCase) -> None:
    """Scores are finite float64 numbers, one per document, and features are not changed."""
    features, before = case.features, case.features
    scores = case.model.scores(features)
    require_same(features, before, "the call changes its input features")
    require(scores.dtype == np.float64, f"the scores are {scores.dtype}")
    require(scores.shape == (N_DOCUMENTS,), f"{N_DOCUMENTS} documents have scores of shape {scores.shape}")
    require(np.isfinite(scores).all(), f"the scores are {scores}")


@Clause
def scores_each_document_alone(case: ModelCase) -> None:
    """The score of a document does not depend on the others, and no documents have no scores."""
    features, model = case.features, case.model
    alone = np.concatenate([model.scores(features[i : i + 1]) for i in range(N_DOCUMENTS)])
    require_same(model.scores(features), alone, "documents together and alone", rtol=1e-5, atol=1e-6)
    require(model.scores(features[:0]).shape == (0,), "no documents have scores")


@Clause
def takes_any_array(case: ModelCase) -> None:
    """Features may be float64, and may be stored by column."""
    features, scores = case.features, case.model.scores(case.features)
    require_same(case.model.scores(np.asfortranarray(features)), scores, "features stored by column")
    require_same(case.model.scores(features.astype(np.float64)), scores, "features of float64")


@Clause
def refuses_other_features(case: ModelCase) -> None:
    """Features of another shape are refused with DataError."""
    n = case.model.n_features
    for shape in ((3, n + 1), (3, n - 1), (n,), ()):
        require_refused(
            DataError, f"features of shape {shape}", case.model.scores, np.zeros(shape, np.float32)
        )


@Clause
def survives_storage(case: ModelCase) -> None:
    """The model that is read from the bytes of a model has the same class, fingerprint, bytes and scores."""
    data = case.model.to_bytes()
    again = case.read(data)
    require(type(again) is type(case.model), f"a {type(again).__name__} is read back")
    require(again.fingerprint == case.model.fingerprint, "another fingerprint is read back")
    require(again.to_bytes() == data, "what is read back has other bytes")
    require_same(again.scores(case.features), case.model.scores(case.features), "scores after storage")


@Clause
def notices_damage(case: ModelCase) -> None:
    """Bytes with a changed bit or a missing end are refused with ModelFileError."""
    data = case.model.to_bytes()
    for at in (0, len(data) // 2, len(data) - 1):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        require_refused(ModelFileError, f"a changed bit in byte {at}", case.read, changed)
        require_refused(ModelFileError, f"the first {at} bytes", case.read, data[:at])


@Clause
def learns_uphill(case: ModelCase) -> None:
    """A step moves the scores along their gradient, and leaves the model that it started from as it was."""
    if not case.learns:
        return
    features, before, data = case.features, case.model.scores(case.features), case.model.to_bytes()
    learner, gradient = case.model.learner(SGD(rate=RATE)), _probes()[0]
    require_same(learner.scores(features), before, "scores of the learner before its first step")
    learner.update(features, gradient)
    gain = gradient @ (learner.scores(features) - before)
    require(gain > 0.0, f"a step of ascent changes the objective by {gain}")
    require_same(case.model.scores(features), before, "scores of the model after the learner's step")
    require(case.model.to_bytes() == data, "the learner's step changes the bytes of the model")


@Clause
def learns_by_the_gradient(case: ModelCase) -> None:
    """Steps on the score gradients g and h move the scores s so that ``h · Δs(g) = g · Δs(h)``.

    To first order Δs(g) = rate · J Jᵀ g with the Jacobian J of the scores, and J Jᵀ is symmetric.
    """
    if not case.learns:
        return
    g, h = _probes()
    forth, back = h @ _move(case, g), g @ _move(case, h)
    scale = np.linalg.norm(g) * np.linalg.norm(_move(case, h))
    require(abs(forth - back) <= LINEAR * scale, f"h · Δs(g) = {forth} and g · Δs(h) = {back}")


@Clause
def agrees_with_finite_differences(case: ModelCase) -> None:
    """The gradient on the parameters, of models that offer it, is that of finite differences."""
    model = case.model
    if not (hasattr(model, "gradient") and hasattr(model, "with_parameters")):
        return
    # In double precision, where a difference of 1e-6 has six digits.
    exact = model.with_parameters(model.parameters.astype(np.float64))
    features, g = case.features, _probes()[0]
    gradient = exact.gradient(features, g)
    rng, step = np.random.default_rng(1), 1e-6
    for _ in range(5):
        direction = rng.normal(size=gradient.shape)
        up, down = (exact.with_parameters(exact.parameters + sign * step * direction) for sign in (1, -1))
        difference = g @ (up.scores(features) - down.scores(features)) / (2 * step)
        require_same(gradient @ direction, difference, "the slope along a direction", rtol=1e-4, atol=1e-6)


@Clause
def sums_over_documents(case: ModelCase) -> None:
    """A step on all documents is, to first order, the sum of the steps on each."""
    if not case.learns:
        return
    g = _probes()[0]
    moves = np.zeros(N_DOCUMENTS)
    for i in range(N_DOCUMENTS):
        moves += _move(case, g[i : i + 1], slice(i, i + 1))
    require_same(_move(case, g), moves, "the step and the sum", rtol=LINEAR, atol=SINGLE_PRECISION)


@Clause
def learns_into_new_models(case: ModelCase) -> None:
    """The model of a learner has its scores, and stays as it is when the learner moves on."""
    if not case.learns:
        return
    features, (g, h) = case.features, _probes()
    learner = case.model.learner(SGD(rate=100 * RATE))
    learner.update(features, g)
    model, scores = learner.model(), learner.scores(features)
    require(model.kind == case.model.kind, f"the learner's model is of kind {model.kind!r}")
    require(
        model.fingerprint != case.model.fingerprint, "the learner's model has the fingerprint of its start"
    )
    require_same(model.scores(features), scores, "scores of the learner and of its model")
    learner.update(features, h)
    require(not np.array_equal(learner.scores(features), scores), "a second step moves nothing")
    require_same(model.scores(features), scores, "scores of the model after the learner's next step")


@Clause
def refuses_other_gradients(case: ModelCase) -> None:
    """Score gradients of another shape are refused with DataError."""
    if not case.learns:
        return
    learner = case.model.learner(SGD())
    for shape in ((N_DOCUMENTS - 1,), (N_DOCUMENTS, 1), ()):
        what, bad = f"gradients of shape {shape}", np.zeros(shape)
        require_refused(DataError, what, learner.update, case.features, bad)


MODEL_CLAUSES: tuple[Clause[ModelCase], ...] = (
    says_what_it_is,
    scores_every_document,
    scores_each_document_alone,
    takes_any_array,
    refuses_other_features,
    survives_storage,
    notices_damage,
    learns_uphill,
    learns_by_the_gradient,
    agrees_with_finite_differences,
    sums_over_documents,
    learns_into_new_models,
    refuses_other_gradients,
)


def check_model(model: Model, *, read: Callable[[bytes], Model] = model_from_bytes) -> None:
    """Check that a model keeps the contract of `rankloop.types.Model`, and of `Learner` if it has one.

    Args:
        model: with parameters that score different documents differently.
        read: reads a model from its bytes, if `rankloop.models.model_from_bytes` does not know the kind.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.models import Linear
        >>> check_model(Linear.initialise(4, np.random.default_rng(0)))
    """
    check_all(ModelCase(model, read), MODEL_CLAUSES)


@Clause
def starts_from_the_generator(spec: NetworkSpec) -> None:
    """The first parameters come from the generator that is passed, and fit the number of features."""
    first, second, other = (spec.initialise(7, np.random.default_rng(seed)) for seed in (0, 0, 1))
    require(first.n_features == 7, f"a model for 7 features takes {first.n_features}")
    require(first.fingerprint == second.fingerprint, "the same seed gives two different models")
    require(first.fingerprint != other.fingerprint, "two seeds give the same model")


MODEL_SPEC_CLAUSES: tuple[Clause[Any], ...] = (*VALUE_CLAUSES, starts_from_the_generator)


def check_model_spec(spec: NetworkSpec) -> None:
    """Check that a spec of a network keeps the contract of `NetworkSpec`, and that of what it makes.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.models.specs import MLPSpec
        >>> check_model_spec(MLPSpec(hidden=(4,)))
    """
    check_all(spec, MODEL_SPEC_CLAUSES)
    check_model(spec.initialise(7, np.random.default_rng(0)))


def _probes() -> tuple[Float64, Float64]:
    """Two gradients on the scores."""
    rng = np.random.default_rng(2)
    return rng.normal(size=N_DOCUMENTS), rng.normal(size=N_DOCUMENTS)


def _move(case: ModelCase, gradient: Float64, rows: slice = slice(None)) -> Float64:
    """Compute the change of all scores after one step on some rows."""
    learner = case.model.learner(SGD(rate=RATE))
    learner.update(case.features[rows], gradient)
    moved: Float64 = learner.scores(case.features) - case.model.scores(case.features)
    return moved
