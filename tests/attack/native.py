"""Public functions whose arguments reach compiled loops: the library's own error, or the right value.

Inputs are tried in another process, so that a crash of the interpreter is seen: `tests.attack.separate`.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from rankloop import clicks, objectives, online
from rankloop.models.lightgbm import LightGBMModel, boost
from rankloop.models.optimisers import SGD, Adam
from rankloop.policies import log_probability, rank_marginals, sample_rankings
from tests.attack.campaign import Attack, campaign
from tests.attack.mutations import TEXT, mutate

SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e300, 1e15, -700.0, 710.0, np.nan, np.inf, -np.inf)
DTYPES = (np.float64, np.float32, np.float16, np.int64, np.int8, np.uint64, np.uint8, np.bool_, object, "U4")
BIGGEST = 10**6


def _scores(chosen: random.Random, n: int) -> Any:
    spread = chosen.choice([0.0, 1.0, 30.0, 800.0])
    values: Any = np.array([chosen.gauss(0, 1) * spread for _ in range(n)])
    if chosen.random() < 0.3 and n:
        values[chosen.randrange(n)] = chosen.choice(SPECIAL)
    if chosen.random() < 0.2:
        with np.errstate(all="ignore"):
            values = np.nan_to_num(values).astype(chosen.choice(DTYPES))
    return _laid_out(values, chosen)


def _laid_out(values: Any, chosen: random.Random) -> Any:
    """The same values, in another layout or shape now and then."""
    kind = chosen.randrange(12)
    if kind == 0:
        return np.repeat(values, 2)[::2]
    if kind == 1:
        return values[::-1]
    if kind == 2:
        return values.tolist()
    if kind == 3:
        return values[None]
    if kind == 4 and len(values):
        return values[:-1]
    if kind == 5 and values.dtype == np.float64:
        return values.astype(">f8")
    return values


def _offsets(chosen: random.Random, sizes: list[int]) -> Any:
    good = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    kind = chosen.randrange(10)
    if kind == 0:
        good[chosen.randrange(len(good))] += chosen.choice([1, -1, 10**6, 2**62, -(2**62) - 1])
    elif kind == 1:
        return good.astype(chosen.choice([np.int16, np.uint64, np.int32, np.float64, np.bool_]))
    elif kind == 2:
        return chosen.choice(
            [good.tolist(), good[:-1], good[1:], good[None], good[:0], np.repeat(good, 2)[::2]]
        )
    return good


def _good(value: Any, dtype: Any = np.float64) -> Any:
    """What the library must have read, once it has accepted it."""
    return np.asarray(value, dtype=dtype)


def brute_marginals(scores: Any, ranks: int) -> Any:
    """The probability of every document at every rank, over all rankings."""
    n = len(scores)
    result = np.zeros((n, ranks))
    shown = [d for d in range(n) if scores[d] > -np.inf]
    for order in itertools.permutations(shown):
        left, log_p = list(order), 0.0
        for d in order:
            top = max(scores[j] for j in left)
            log_p += scores[d] - top - np.log(sum(np.exp(scores[j] - top) for j in left))
            left.remove(d)
        for rank, d in enumerate(order[:ranks]):
            result[d, rank] += np.exp(log_p)
    return result


@campaign("native policies", inputs=150, separate=True)
def attack_policies(folder: Path) -> Attack:
    """Marginals, probabilities, samples and gradients of up to five documents, against enumeration."""
    del folder

    def attack(chosen: random.Random) -> str | None:
        sizes = [chosen.randrange(1, 6) for _ in range(chosen.randrange(1, 4))]
        scores, offsets = _scores(chosen, sum(sizes)), _offsets(chosen, sizes)
        ranks = chosen.choice([1, 2, 5, 9])
        kind = chosen.randrange(4)
        if kind == 0:
            found = rank_marginals(scores, offsets, chosen.choice([ranks, 0, -1]) or ranks)
            return _compare_marginals(found, _good(scores), offsets)
        if kind == 1:
            rng = np.random.default_rng(0)
            drawn = sample_rankings(scores, offsets, ranks, rng, samples=2)
            chances = log_probability(scores, offsets, drawn)
            return None if (chances <= 1e-9).all() else "a ranking is more than certain"
        weights = _scores(chosen, sum(sizes))
        theta = np.array([1.0 / (k + 1) for k in range(ranks)])
        if kind == 2:
            metric = rankloop.objectives.expected_metric(scores, offsets, weights, theta)
            expected = sum(
                float(_good(weights)[a:b] @ brute_marginals(_good(scores)[a:b], ranks) @ theta)
                for a, b in itertools.pairwise(offsets)
            )
            scale = 1.0 + np.abs(_good(weights)).sum()
            if not np.isfinite(metric.gradient).all() or not abs(metric.value - expected) <= 1e-5 * scale:
                return f"metric {metric.value}, not {expected}"
            return None
        drawn = sample_rankings(scores, offsets, ranks, np.random.default_rng(1), samples=2)
        for estimate in (objectives.pl_rank_gradient, objectives.reinforce_gradient):
            if not np.isfinite(estimate(scores, offsets, weights, theta, drawn)).all():
                return f"{estimate.__name__} is not finite"
        return None

    return attack


def _compare_marginals(found: Any, scores: Any, offsets: Any) -> str | None:
    for a, b in itertools.pairwise(offsets):
        expected = brute_marginals(scores[a:b], found.shape[1])
        if not np.allclose(found[a:b], expected, rtol=1e-5, atol=1e-7):
            return f"marginals {found[a:b].tolist()}, not {expected.tolist()}"
    return None


@campaign("native learning", inputs=60, separate=True)
def attack_learning(folder: Path) -> Attack:
    """Networks, optimisers, online methods and simulated clicks with arguments of wrong sizes and types."""
    del folder
    data = rankloop.synthetic(queries=12, features=3)
    traffic = online.Traffic.of(data, "paper@3")
    model = rankloop.models.Linear.initialise(3, np.random.default_rng(0))
    pdgd = online.method("pdgd")

    def attack(chosen: random.Random) -> str | None:
        kind = chosen.randrange(4)
        if kind == 0:
            shape = (chosen.randrange(0, 6), chosen.choice([3, 3, 1]))
            matrix = np.array([chosen.gauss(0, 3) for _ in range(shape[0] * shape[1])]).reshape(shape)
            learner = model.learner(chosen.choice([SGD(0.1), Adam(0.1)]))
            learner.update(_laid_out(matrix, chosen), _scores(chosen, len(matrix)))
            return None if np.isfinite(learner.model().parameters).all() else "parameters are not finite"
        if kind == 1:
            state = online.MethodState.start(pdgd, model, np.random.default_rng(1))
            log = clicks.Impressions(
                _integers(chosen, 2, traffic.queries.n_queries),
                _integers(chosen, 6, 8).reshape(2, 3),
                np.array([[True, False, True]] * 2),
            )
            after = online.replay(pdgd, state, traffic.queries, log)
            return None if np.isfinite(after.learned.parameters).all() else "parameters are not finite"
        scores, offsets = _scores(chosen, 6), _offsets(chosen, [2, 3, 1])
        relevance = _scores(chosen, 6)
        counts = clicks.gather(
            scores,
            offsets,
            relevance,
            clicks.users("paper@3"),
            chosen.choice([0, 1, 50]),
            np.random.default_rng(2),
        )
        if (counts.clicks_by_position > counts.displays_by_position).any():
            return "more clicks than displays"
        return None

    return attack


def _integers(chosen: random.Random, n: int, below: int) -> Any:
    values: Any = np.array(chosen.sample(range(below), n) if n <= below else [0] * n)
    if chosen.random() < 0.3:
        values = values.astype(object)
        values[chosen.randrange(n)] = chosen.choice([-1, -2, below, 2**31, 2**32, 2**63 - 1, 0.5])
        values = np.array(values.tolist())
    return values


@campaign("lightgbm text", inputs=150, separate=True)
def attack_lightgbm(folder: Path) -> Attack:
    """LightGBM's own text, which has no checksum: refused, or trees with finite scores."""
    del folder
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3)).astype(np.float32)
    good = boost(features, lambda scores: (features[:, 0] - scores, np.ones(200)), rounds=3).text.encode()

    def attack(chosen: random.Random) -> str | None:
        model = LightGBMModel.from_bytes(mutate(good, chosen, TEXT))
        rows = rng.normal(size=(5, model.n_features)).astype(np.float32)
        return None if np.isfinite(model.scores(rows)).all() else "scores are not finite"

    return attack
