"""Steps of ascent against the equations and against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop.errors import ModelFileError, RankloopError
from rankloop.kernels.optimiser_steps import adam_step, sgd_step
from rankloop.models import SGD, Adam, Linear, OptimiserState
from rankloop.names import number, parse

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sgd_by_hand(dtype: type) -> None:
    parameters, gradient = np.array([1.0, -2.0], dtype), np.array([4.0, 0.5], dtype)
    sgd_step(parameters, gradient, 0.25)
    np.testing.assert_array_equal(parameters, [1.0 + 0.25 * 4.0, -2.0 + 0.25 * 0.5])
    np.testing.assert_array_equal(gradient, [4.0, 0.5])


def test_adam_by_hand() -> None:
    """Two steps with β₁ = 0.5, β₂ = 0.75, ε = 0.1, rate 1 on a gradient of 2, then −1."""
    p, m, v = np.array([3.0]), np.zeros(1), np.zeros(1)
    adam_step(p, np.array([2.0]), m, v, 1, 1.0, 0.5, 0.75, 0.1)
    m1, v1 = 0.5 * 2, 0.25 * 4
    p1 = 3 + (m1 / 0.5) / (np.sqrt(v1 / 0.25) + 0.1)
    np.testing.assert_allclose([p[0], m[0], v[0]], [p1, m1, v1], rtol=1e-13)
    adam_step(p, np.array([-1.0]), m, v, 2, 1.0, 0.5, 0.75, 0.1)
    m2, v2 = 0.5 * m1 + 0.5 * -1, 0.75 * v1 + 0.25 * 1
    p2 = p1 + (m2 / (1 - 0.25)) / (np.sqrt(v2 / (1 - 0.5625)) + 0.1)
    np.testing.assert_allclose([p[0], m[0], v[0]], [p2, m2, v2], rtol=1e-13)


@pytest.mark.extras
@pytest.mark.parametrize("optimiser", [SGD(0.3), Adam(), Adam(0.1, 0.8, 0.95, 1e-3)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_steps_against_torch(torch: Any, optimiser: SGD | Adam, dtype: type, tolerance: float) -> None:
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=50).astype(dtype)
    tensor = torch.tensor(parameters, requires_grad=True)
    if isinstance(optimiser, SGD):
        theirs = torch.optim.SGD([tensor], lr=optimiser.rate, maximize=True)
    else:
        betas = (optimiser.beta1, optimiser.beta2)
        theirs = torch.optim.Adam(
            [tensor], lr=optimiser.rate, betas=betas, eps=optimiser.epsilon, maximize=True
        )
    state = optimiser.state(parameters)
    for scale in 10.0 ** np.arange(-6, 4):
        gradient = (scale * rng.normal(size=50)).astype(dtype)
        optimiser.step(parameters, gradient, state)
        tensor.grad = torch.tensor(gradient)
        theirs.step()
    np.testing.assert_allclose(parameters, tensor.detach().numpy(), rtol=tolerance, atol=10 * tolerance)


def test_a_saved_state_resumes(rng: np.random.Generator) -> None:
    """Training that was stored halfway ends at the same parameters, to the bit."""
    batches = [(rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3)) for _ in range(6)]
    straight = Linear.initialise(4, np.random.default_rng(1)).learner(Adam(0.1))
    for batch in batches:
        straight.update(*batch)
    first = Linear.initialise(4, np.random.default_rng(1)).learner(Adam(0.1))
    for batch in batches[:3]:
        first.update(*batch)
    second = first.model().learner(Adam(0.1))
    second.state = OptimiserState.from_bytes(first.state.to_bytes())
    for batch in batches[3:]:
        second.update(*batch)
    np.testing.assert_array_equal(second.parameters, straight.parameters)
    assert second.state.step == 6


def test_a_copied_state_is_independent() -> None:
    state = Adam().state(np.zeros(2))
    other = state.copy()
    Adam().step(np.zeros(2), np.ones(2), state)
    assert (other.step, other.first_moment.tolist(), other.second_moment.tolist()) == (0, [0, 0], [0, 0])
    assert (state.step, state.first_moment.tolist()) == (1, [1 - 0.9] * 2)


def test_sgd_remembers_the_number_of_steps_alone() -> None:
    state = SGD().state(np.zeros(2, np.float32))
    SGD().step(np.zeros(2, np.float32), np.ones(2, np.float32), state)
    again = OptimiserState.from_bytes(state.to_bytes())
    assert (again.step, again.first_moment.size, again.second_moment.size) == (1, 0, 0)


def test_a_model_is_not_a_state() -> None:
    with pytest.raises(ModelFileError, match=r"expected a file of kind 'optimiser-state'.*'linear'"):
        OptimiserState.from_bytes(Linear(1, np.zeros(2)).to_bytes())


@pytest.mark.parametrize(
    ("optimiser", "name"),
    [
        (SGD(), "sgd(rate=0.01)"),
        (Adam(), "adam(rate=0.001)"),
        (Adam(rate=0.5, epsilon=1e-6), "adam(epsilon=1e-06, rate=0.5)"),
    ],
)
def test_names_read_back(optimiser: SGD | Adam, name: str) -> None:
    assert str(optimiser) == name
    read = parse(name)
    assert str(read) == name
    assert type(optimiser)(**{option: number(value) for option, value in read.options}) == optimiser


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(rate=0), "sgd: rate must be positive and finite, got 0"),
        (lambda: SGD(rate=float("nan")), "rate must be positive and finite, got nan"),
        (lambda: Adam(rate=float("inf")), "adam: rate must be positive and finite, got inf"),
        (lambda: Adam(beta1=1.0), "beta1 must be at least 0 and below 1, got 1.0"),
        (lambda: Adam(beta2=-0.1), "beta2 must be at least 0 and below 1, got -0.1"),
        (lambda: Adam(epsilon=0), "epsilon must be positive and finite, got 0"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        make()
