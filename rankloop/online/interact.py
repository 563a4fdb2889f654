"""Learn from impressions one at a time, simulated on the fly or read from a log."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.clicks import Impressions
from rankloop.clicks.simulation import check_impressions
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.online._checks import check_log, check_logging
from rankloop.online.base import Method, MethodState
from rankloop.online.traffic import Queries, Traffic
from rankloop.statistics import Counts
from rankloop.types import Float64

# Impressions are simulated in blocks of this size, so that memory does not grow with their number.
BLOCK = 2**16
# Ctrl-C is noticed between calls of compiled code. COLTR takes about a second for so many.
IMPRESSIONS_PER_CALL = 2**11


def interact(
    method: Method,
    state: MethodState,
    traffic: Traffic,
    impressions: int,
    *,
    logging: ArrayLike | None = None,
) -> tuple[MethodState, Counts]:
    """Simulate impressions one at a time, and learn from each before the next.

        q ~ uniform,   y ~ π(· | q),   c ~ users(y, R),   parameters ← method(q, y, c, parameters)

    The result is the same to the bit if the impressions are divided over several calls. Independent runs may
    share the traffic and run in several threads.

    Args:
        method: the learning method.
        state: the state to start from; it is not modified.
        traffic: the queries, and the users who click.
        impressions: number of impressions.
        logging: scores of all documents under a fixed logging policy π, for counterfactual learning. None
            means that the current learned policy logs, for online learning.

    Returns:
        The state after the impressions, and the counts of their displays and clicks.

    Example:
        >>> from rankloop.models import Linear
        >>> from rankloop import online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> pdgd, start = online.method("pdgd"), Linear.initialise(10, np.random.default_rng(0))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(1))
        >>> whole, counts = online.interact(pdgd, state, traffic, 1000)
        >>> counts.impressions, whole.impressions
        (1000, 1000)
        >>> half, _ = online.interact(pdgd, state, traffic, 500)
        >>> rest, _ = online.interact(pdgd, half, traffic, 500)
        >>> rest.learned.fingerprint == whole.learned.fingerprint
        True
    """
    check_impressions(impressions)
    current, blocks = state, []
    offsets = traffic.queries.offsets
    for first in range(0, max(impressions, 1), BLOCK):
        size = min(BLOCK, impressions - first)
        current, log = interact_log(method, current, traffic, size, logging=logging)
        blocks.append(log.counts(offsets, str(method)))
    return current, reduce(add, blocks)


def interact_log(
    method: Method,
    state: MethodState,
    traffic: Traffic,
    impressions: int,
    *,
    logging: ArrayLike | None = None,
) -> tuple[MethodState, Impressions]:
    """Simulate the same impressions as `interact`, and return them as a log instead of counts.

    Example:
        >>> from rankloop.models import Linear
        >>> from rankloop import online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> pdgd, start = online.method("pdgd"), Linear.initialise(10, np.random.default_rng(0))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(1))
        >>> after, log = online.interact_log(pdgd, state, traffic, 1000)
        >>> again = online.replay(pdgd, state, traffic.queries, log)
        >>> log.clicks.shape, again.learned.fingerprint == after.learned.fingerprint
        ((1000, 5), True)
    """
    check_impressions(impressions)
    shape = (impressions, traffic.users.behaviour.positions)
    log = Impressions(
        np.zeros(impressions, np.int64), np.full(shape, -1, np.int32), np.zeros(shape, np.bool_)
    )
    scores = check_logging(logging, traffic.queries.offsets)
    return _run(method, state, traffic.queries, log, scores, traffic), log


def replay(
    method: Method,
    state: MethodState,
    queries: Queries,
    log: Impressions,
    *,
    logging: ArrayLike | None = None,
) -> MethodState:
    """Learn from logged impressions, once each, in their order.

    With the log of a fixed policy, this is counterfactual learning. With one impression per call and without
    ``logging``, it is how a live system with real users learns online.

    Args:
        method: the learning method.
        state: the state to start from; it is not modified.
        queries: the queries of the log.
        log: the impressions.
        logging: scores of all documents under the policy that logged. None means that the learned policy
            itself logged, as it was at each impression.

    Example:
        >>> from rankloop.models import Linear
        >>> from rankloop import clicks, online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> queries, pdgd = traffic.queries, online.method("pdgd")
        >>> start = Linear.initialise(10, np.random.default_rng(0))
        >>> scores = queries.scores(start)
        >>> log = clicks.gather_log(scores, queries.offsets, traffic.relevance, traffic.users,
        ...                         1000, np.random.default_rng(1))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(2))
        >>> replay(pdgd, state, queries, log, logging=scores).impressions
        1000
    """
    checked = check_log(log, queries.offsets)
    return _run(method, state, queries, checked, check_logging(logging, queries.offsets), None)


def _run(
    method: Method,
    state: MethodState,
    queries: Queries,
    log: Impressions,
    logging: Float64,
    traffic: Traffic | None,
) -> MethodState:
    model = state.learned
    if model.n_features != queries.n_features:
        raise DataError(
            f"the model expects {model.n_features} features, but the documents have {queries.n_features}"
        )
    if state.memory.shape != method.memory(model).shape:
        raise DataError(
            f"the state is not one of {method}: its memory has {len(state.memory)} numbers, not "
            f"{len(method.memory(model))}"
        )
    arrays: tuple[Any, ...] = (queries.features, queries.starts, queries.offsets)
    if traffic is None:
        arrays += (np.empty(0), np.empty((0, 0)), False)
    else:
        behaviour = traffic.users.behaviour
        arrays += (traffic.relevance, behaviour.table, behaviour.stops)
    parameters, memory, stream = model.parameters.copy(), state.memory.copy(), state.stream.copy()
    done = 0
    for first in range(0, max(len(log), 1), IMPRESSIONS_PER_CALL):
        part = slice(first, first + IMPRESSIONS_PER_CALL)
        done += method.run(
            traffic is not None,
            (log.queries[part], log.rankings[part], log.clicks[part]),
            arrays,
            logging,
            (model.widths, model.activation_code),
            method.options,
            parameters,
            memory,
            stream,
        )
        if done < min(part.stop, len(log)):
            break
    if done < len(log):
        raise RankloopError(
            f"{method} diverged after {state.impressions + done} impressions: scores exceeded "
            f"{LARGEST_SCORE:g}; lower its rate, or scale the features"
        )
    return MethodState(model.with_parameters(parameters), state.impressions + done, memory, stream)
