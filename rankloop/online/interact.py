"""Learning from interactions one at a time: simulated as it goes, or logged before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.clicks import Counts, Impressions
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.online._checks import check_log, check_logging
from rankloop.online.base import Method, MethodState
from rankloop.online.traffic import Queries, Traffic
from rankloop.types import Float64

# Interactions are written down in blocks of this many, so that memory does not grow with their number.
BLOCK = 2**16


def interact(
    method: Method,
    state: MethodState,
    traffic: Traffic,
    interactions: int,
    *,
    logging: ArrayLike | None = None,
) -> tuple[MethodState, Counts]:
    """Let users come one after the other, and learn from each before the next.

        q ~ uniform,   y ~ π(· | q),   c ~ users(y, R),   parameters ← method(q, y, c, parameters)

    In how many calls the interactions are done does not matter: the state goes on where it stopped, to the
    bit. Runs that are independent of each other may share the traffic and run in several threads.

    Args:
        method: how an interaction moves the parameters.
        state: where to go on from; it stays as it is.
        traffic: what queries come, and who clicks.
        interactions: how many.
        logging: scores of all documents under the policy π that logs, which stays the same throughout: the
            counterfactual way. None: the learned policy logs itself, always as it is: the online way.

    Returns:
        The state afterwards, and what was shown and clicked in these interactions.

    Example:
        >>> from rankloop import Linear, online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> pdgd, start = online.method("pdgd"), Linear.initialise(10, np.random.default_rng(0))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(1))
        >>> whole, counts = online.interact(pdgd, state, traffic, 1000)
        >>> counts.interactions, whole.interactions
        (1000, 1000)
        >>> half, _ = online.interact(pdgd, state, traffic, 500)
        >>> rest, _ = online.interact(pdgd, half, traffic, 500)
        >>> rest.learned.fingerprint == whole.learned.fingerprint
        True
    """
    _check_number(interactions)
    now, counts = state, None
    for first in range(0, max(interactions, 1), BLOCK):
        now, log = interact_log(method, now, traffic, min(BLOCK, interactions - first), logging=logging)
        more = log.counts(traffic.queries.offsets)
        counts = more if counts is None else _sum(counts, more)
    assert counts is not None  # there is at least one block, if an empty one
    return now, counts


def interact_log(
    method: Method,
    state: MethodState,
    traffic: Traffic,
    interactions: int,
    *,
    logging: ArrayLike | None = None,
) -> tuple[MethodState, Impressions]:
    """The same interactions as those of `interact`, written down instead of counted.

    Example:
        >>> from rankloop import Linear, online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> pdgd, start = online.method("pdgd"), Linear.initialise(10, np.random.default_rng(0))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(1))
        >>> after, log = online.interact_log(pdgd, state, traffic, 1000)
        >>> again = online.replay(pdgd, state, traffic.queries, log)
        >>> log.clicks.shape, again.learned.fingerprint == after.learned.fingerprint
        ((1000, 5), True)
    """
    _check_number(interactions)
    shape = (interactions, traffic.users.behaviour.ranks)
    log = Impressions(
        np.zeros(interactions, np.int64), np.full(shape, -1, np.int32), np.zeros(shape, np.bool_)
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
    """Learn from interactions that have happened, in their order, each once.

    With the log of a policy that stayed the same, this is the counterfactual way; with one interaction after
    each update, and no ``logging``, it is how a system that shows rankings to real users learns online.

    Args:
        method: how an interaction moves the parameters.
        state: where to go on from; it stays as it is.
        queries: that the log is about.
        log: the interactions.
        logging: scores of all documents under the policy that logged. None: the learned policy itself, as it
            was at each of the interactions.

    Example:
        >>> from rankloop import Linear, clicks, online, synthetic
        >>> traffic = online.Traffic.of(synthetic(queries=60, features=10), "paper@5")
        >>> queries, pdgd = traffic.queries, online.method("pdgd")
        >>> start = Linear.initialise(10, np.random.default_rng(0))
        >>> scores = queries.scores(start)
        >>> log = clicks.gather_log(scores, queries.offsets, traffic.relevance, traffic.users,
        ...                         1000, np.random.default_rng(1))
        >>> state = online.MethodState.start(pdgd, start, np.random.default_rng(2))
        >>> replay(pdgd, state, queries, log, logging=scores).interactions
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
            f"the model takes {model.n_features} features, the documents have {queries.n_features}"
        )
    world: tuple[Any, ...] = (queries.features, queries.starts, queries.offsets)
    if traffic is None:
        world += (np.empty(0), np.empty((0, 0)), False)
    else:
        behaviour = traffic.users.behaviour
        world += (traffic.relevance, behaviour.table, behaviour.stops)
    parameters, memory, stream = model.parameters.copy(), state.memory.copy(), state.stream.copy()
    done = method.run(
        traffic is not None,
        (log.queries, log.rankings, log.clicks),
        world,
        logging,
        (model.widths, model.activation_code),
        method.options,
        parameters,
        memory,
        stream,
    )
    if done < len(log):
        raise RankloopError(
            f"{method} diverged after {state.interactions + done} interactions: scores grew beyond "
            f"{LARGEST_SCORE:g}; lower its rate, or scale the features"
        )
    return MethodState(model.with_parameters(parameters), state.interactions + done, memory, stream)


def _check_number(interactions: int) -> None:
    if not isinstance(interactions, int | np.integer) or interactions < 0:
        raise DataError(f"interactions must be a whole number, not negative, got {interactions!r}")


def _sum(a: Counts, b: Counts) -> Counts:
    return Counts(
        a.query_counts + b.query_counts,
        a.displays_by_rank + b.displays_by_rank,
        a.clicks_by_rank + b.clicks_by_rank,
    )
