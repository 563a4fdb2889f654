"""How often 90 % intervals hold the truth: a table of docs/offline.md.

    python -m examples.interval_coverage [LOGS]

Each setting simulates LOGS logs (200 if not said) of 10,000 impressions, compares a better policy with the
one in production on each, and counts how often the true value and the true difference lie within their
intervals. The deviation of a share of 90 % over 200 logs is 2 %. Logs are kept in memory and summed with
NumPy; the first of each setting is also written to disk and given to `evaluate`, which must say the same.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import Comparison, EvaluationOptions, open_log
from rankloop.offline.comparison import compare
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.impression_sums import ImpressionSums
from rankloop.offline.intervals import ImpressionSample
from rankloop.offline.policy_rankings import PolicyRanking, sorted_rank_weights
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, segment_std, segment_sum
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Float64, Split

USERS = users("paper@5")
BIAS = bias_of(USERS)
THETA = rankloop.rank_weights.dcg(BIAS.ranks)
IMPRESSIONS, QUERIES = 10_000, 150
POLICIES = ("production", "second", "third")
# How far each policy's scores are from the labels.
NOISE = {"production": 2.0, "second": 1.0, "third": 0.7, "new": 0.5}


@dataclass(frozen=True)
class Setting:
    """One line of the table.

    Attributes:
        name: what it is.
        policies: how many policies log, one after the other.
        spread: the standard deviation of all policies' scores within a query; Gumbel noise has 1.28.
        ranking: how the new policy ranks.
        pool: how many queries a log's 150 are drawn from; None: all logs have the same 150.
    """

    name: str
    policies: int = 3
    spread: float = 1.5
    ranking: str = "sorted"
    pool: int | None = None


SETTINGS = (
    Setting("one policy", policies=1),
    Setting("three policies"),
    Setting("three policies, the new one draws", ranking="drawn"),
    Setting("three peaked policies", spread=4.0),
    Setting("other queries each time", pool=1_500),
    Setting("other queries each time, the new one draws", pool=1_500, ranking="drawn"),
)


@dataclass(frozen=True, eq=False)
class World:
    """Queries, how often they come, and policies.

    Attributes:
        split: with the true labels.
        frequencies: queries.
        scores: by policy, items.
        setting: what it is a world of.
    """

    split: Split
    frequencies: Float64
    scores: dict[str, Float64]
    setting: Setting

    @classmethod
    def of(cls, setting: Setting, seed: int = 0) -> World:
        """The world of a setting."""
        rng = np.random.default_rng(seed)
        data = rankloop.synthetic(queries=2_500, features=10, seed=seed).train
        split = data.select(np.arange(setting.pool or QUERIES))
        # A few queries come often, most of them seldom.
        frequencies = 1.0 / np.arange(5, 5 + split.n_queries)
        rng.shuffle(frequencies)
        scores = {}
        for policy, noise in NOISE.items():
            raw = split.labels + noise * rng.normal(size=split.n_docs)
            scores[policy] = setting.spread * raw / segment_std(raw, split.offsets).mean()
        return cls(split, frequencies, scores, setting)

    def of_queries(self, queries: Any) -> World:
        """The same world with some of its queries."""
        starts, sizes = self.split.offsets[queries], self.split.sizes[queries]
        rows = np.repeat(starts - offsets_of(sizes)[:-1], sizes) + np.arange(sizes.sum())
        scores = {policy: values[rows] for policy, values in self.scores.items()}
        return World(self.split.select(queries), self.frequencies[queries], scores, self.setting)

    def earned(self, policy: str, ranking: str) -> Float64:
        """What each item's rank is worth under a policy."""
        earn = sorted_rank_weights if ranking == "sorted" else expected_rank_weights
        return earn(self.scores[policy], self.split.offsets, THETA)

    def truth(self, policy: str, ranking: str) -> float:
        """What a policy is worth on this traffic."""
        values = segment_sum(self.earned(policy, ranking) * self.split.labels / 4, self.split.offsets)
        return float(np.average(values, weights=self.frequencies))

    def gathered(self, rng: np.random.Generator) -> list[PolicyTraffic]:
        """What the policies log one after the other."""
        names = POLICIES[: self.setting.policies]
        return [
            PolicyTraffic(
                name,
                self.scores[name],
                gather_log(
                    self.scores[name],
                    self.split.offsets,
                    self.split.labels / 4,
                    USERS,
                    IMPRESSIONS // len(names),
                    rng,
                    frequencies=self.frequencies,
                ),
            )
            for name in names
        ]

    def ranking_of(self, policy: str, ranking: str) -> PolicyRanking:
        """How a policy ranks, as the offline modules want it."""
        nothing = np.zeros(self.split.n_queries)
        everywhere = np.ones(self.split.n_queries, np.bool_)
        return PolicyRanking(policy, ranking, self.earned(policy, ranking), nothing, nothing, everywhere)


def sums_of(logs: list[PolicyTraffic], offsets: Any, factors: Float64, guess: float) -> ImpressionSums:
    """Sums over impressions, with NumPy."""
    sums = np.zeros((len(offsets) - 1, 9))
    for part in logs:
        log: Impressions = part.interactions  # type: ignore[assignment]
        items = offsets[log.queries][:, None] + log.rankings
        g = np.where((log.rankings >= 0)[..., None], factors[items], 0.0)
        e = np.einsum("tkp,tk->tp", g, log.clicks - (BIAS.alpha * guess + BIAS.beta))
        w = np.einsum("tkp,k->tp", g, BIAS.alpha)
        np.add.at(sums, log.queries, np.column_stack([e, e**2, e[:, 0] * e[:, 1], w, w**2]))
    return ImpressionSums(sums[:, :2], sums[:, 2:4], sums[:, 4], sums[:, 5:7], sums[:, 7:])


def in_memory(world: World, logs: list[PolicyTraffic]) -> Comparison:
    """What `evaluate` says, without files."""
    offsets = world.split.offsets
    statistics = Statistics.empty(offsets, BIAS.ranks)
    for part in logs:
        log: Impressions = part.interactions  # type: ignore[assignment]
        exposure = Exposure.of_scores(part.scores, offsets, BIAS)
        statistics += of_impressions(
            part.policy, offsets, exposure, queries=log.queries, rankings=log.rankings, clicks=log.clicks
        )
    variate = ControlVariate.of(statistics, BIAS, statistics.query_counts > 0)
    rankings = world.ranking_of("new", world.setting.ranking), world.ranking_of("production", "drawn")
    sums = sums_of(logs, offsets, variate.factors(rankings), variate.guess)
    impressions = ImpressionSample(statistics.query_counts, variate.before(rankings), sums)
    return compare(rankings, variate, impressions, measure="dcg@5")


def on_disk(world: World, logs: list[PolicyTraffic]) -> Comparison:
    """What `evaluate` says."""
    with tempfile.TemporaryDirectory() as folder:
        # The new policy as one that could have logged, but never did.
        log = open_log(write_simulated(Path(folder) / "log", world.split, logs, features=False))
        table = Path(folder) / "new.csv"
        query = np.repeat(world.split.query_ids, world.split.sizes)
        place = np.arange(world.split.n_docs) - np.repeat(world.split.offsets[:-1], world.split.sizes)
        rows = zip(query, place, world.scores["new"].tolist(), strict=True)
        lines = "".join(f"{name},{doc},{score!r}\n" for name, doc, score in rows)
        table.write_text("query_id,doc_id,score\n" + lines)
        options = EvaluationOptions(ranking=world.setting.ranking)  # type: ignore[arg-type]
        return log.evaluate(table, "production", bias=BIAS, options=options)


def compare_once(world: World, number: int) -> Comparison:
    """One log, and what it says."""
    rng = np.random.default_rng([number, 1])
    if world.setting.pool is not None:
        world = world.of_queries(np.sort(rng.choice(world.split.n_queries, QUERIES, replace=False)))
    logs = world.gathered(rng)
    found = in_memory(world, logs)
    if number == 0:
        again = on_disk(world, logs)
        # The bootstrap draws queries by their order, which on disk is that of their names.
        for name in ("value", "error"):
            here, there = (getattr(one.difference.estimate, name) for one in (found, again))
            assert np.isclose(here, there, rtol=1e-9), (name, here, there)
    return found


def covered(setting: Setting, logs: int) -> str:
    """A line of the table."""
    world = World.of(setting)
    new, old = world.truth("new", setting.ranking), world.truth("production", "drawn")
    found = [compare_once(world, number) for number in range(logs)]
    cells = []
    for truth, estimates in (
        (new, [one.new.estimate for one in found]),
        (new - old, [one.difference.estimate for one in found]),
    ):
        low, high, same_low, same_high, values, errors = (
            np.array([getattr(estimate, name) for estimate in estimates])
            for name in ("low", "high", "same_low", "same_high", "value", "error")
        )
        cells += [
            f"{truth:.3f}",
            f"{values.mean():.3f}",
            f"{values.std(ddof=1):.3f}",
            f"{np.sqrt((errors**2).mean()):.3f}",
            f"{np.mean((low <= truth) & (truth <= high)):.1%}",
            f"{np.mean((same_low <= truth) & (truth <= same_high)):.1%}",
        ]
    outside = np.mean([one.new.outside for one in found])
    effective = np.mean([one.new.effective for one in found])
    verdicts = [one.verdict.kind for one in found]
    shares = " / ".join(f"{verdicts.count(kind) / logs:.0%}" for kind in ("better", "undecided", "worse"))
    return f"| {' | '.join([setting.name, *cells, f'{outside:.1%}', f'{effective:,.0f}', shares])} |"


def main(logs: int) -> None:
    """Print the table, line by line."""
    parts = ["truth", "mean", "deviation", "error", "held", "held by that of these queries"]
    head = ["log", *(f"new: {part}" for part in parts), *(f"difference: {part}" for part in parts)]
    head += ["outside", "effective", "better / undecided / worse"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for setting in SETTINGS:
        print(covered(setting, logs), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
