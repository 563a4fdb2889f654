"""How estimates change if policies are learned from the clicks that evaluate them: docs/dependence.md.

    python -m experiments.dependence FIRST LAST

Each seed is one loop. Its log is *own*: every policy was learned from the clicks before it. Then the same
policies, in the same order and for as many impressions, gather a second log: *fresh* clicks that no policy
has seen, to which the unbiasedness theorem applies. The tables have means over the seeds with their standard
errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import rankloop
from rankloop.estimators import Estimator, estimator
from rankloop.loop import Gathered, Loop, LoopState, exponential_times
from rankloop.loop.exploration import AsLearned, Exploration, Spread
from rankloop.statistics import Exposure, Statistics
from rankloop.training import ROBUST, LearningProblem, Task, learn

HORIZON, FIRST_INTERVENTION, INTERVENTIONS = 20_000, 100, 20
ESTIMATOR = "intervention-aware(clip=off)"
EXPLORATIONS: tuple[Exploration, ...] = (Spread(), AsLearned())


def fresh_log(loop: Loop, phases: list[Gathered], rng: np.random.Generator) -> Statistics:
    """Gather a second log with the policies of a loop, which are now all known in advance."""
    both = (loop.dataset.train.features, loop.dataset.validation.features)
    log = Statistics.empty(loop.offsets, loop.source.bias.positions)
    for phase in phases:
        model, scale = phase.state.logging, phase.state.scale
        scores = scale * np.concatenate([model.scores(features) for features in both])
        exposure = Exposure.of_scores(scores, loop.offsets, loop.source.bias)
        log += loop.source.gather(phase.policy, scores, exposure, phase.new_impressions, rng)
    return log


def measured(
    loop: Loop, log: Statistics, how: Estimator, last: LoopState, seed: int
) -> Iterator[tuple[str, float]]:
    """Compute the errors of one log's estimates, and the value of a policy that is learned from it."""
    data, users = loop.dataset, loop.source
    theta = ROBUST.rank_weights(users.bias)
    n = data.train.n_queries
    parts = {"train": (data.train, np.arange(n)), "held out": (data.validation, np.arange(n, log.n_queries))}
    tasks = {}
    for name, (split, queries) in parts.items():
        chosen = log.select(queries)
        relevance = split.labels / 4
        weights = how.weights(chosen, users.bias)
        tasks[name] = Task(split.features, split.offsets, weights, theta)
        truth = Task(split.features, split.offsets, relevance, theta)
        yield f"{name}: weights of documents", float(np.mean(weights - relevance))
        for policy, model in (("starting", loop.start), ("learned", last.learned)):
            scores = model.scores(split.features)
            yield f"{name}: metric of the {policy} policy", tasks[name].value(scores) - truth.value(scores)
    problem = LearningProblem(tasks["train"], tasks["held out"])
    learned = learn(loop.start, problem, settings=ROBUST.settings, rng=np.random.default_rng(seed)).model
    ndcg = rankloop.policy_metrics(learned.scores(data.test.features), data.test, ["ndcg@5"])["ndcg@5"]
    yield "ndcg@5 of a policy learned from the log", ndcg


def run(exploration: Exploration, seed: int) -> Iterator[tuple[str, float, float]]:
    """Run one loop, and compare its own log with a fresh one."""
    data = rankloop.synthetic(queries=300, features=20, seed=seed)
    how = estimator(ESTIMATOR)
    loop = Loop(
        data,
        rankloop.SimulatedUsers.of(data, "paper@5"),
        rankloop.models.MLP.initialise(20, np.random.default_rng(seed)),
        HORIZON,
        exponential_times(FIRST_INTERVENTION, HORIZON, INTERVENTIONS),
        estimator=how,
        exploration=exploration,
        seed=seed,
    )
    events = list(loop.run())
    end = events[-1].state
    phases = [event for event in events if isinstance(event, Gathered)]
    fresh = fresh_log(loop, phases, np.random.default_rng([seed, 1]))
    logs = (end.statistics, fresh)
    for (name, own), (_, other) in zip(*(measured(loop, log, how, end, seed) for log in logs), strict=True):
        yield name, own, other


def main(first: int, last: int) -> None:
    """Print one table per exploration, over all seeds from the first to the last."""
    for exploration in EXPLORATIONS:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(first, last + 1):
            for name, own, other in run(exploration, seed):
                found.setdefault(name, []).append((own, other))
        print(f"\n{exploration}, seeds {first} to {last}: own log, fresh log, difference")
        for name, values in found.items():
            table = np.array(values)
            columns = np.column_stack([table, table[:, 0] - table[:, 1]])
            error = columns.std(axis=0, ddof=1) / np.sqrt(len(columns))
            cells = (f"{m:+.4f} ± {e:.4f}" for m, e in zip(columns.mean(axis=0), error, strict=True))
            print(f"{name:45}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.dependence", description=main.__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, help="the last seed")
    main(**vars(parser.parse_args()))
