"""How often 90 % intervals hold the truth: a table of docs/results/fit.md.

    python -m experiments.interval_coverage RESULTS [LOGS] [SETTING …]

Each setting simulates LOGS logs (200 by default), compares a better policy with the one in production on
each, and counts how often the true value and the true difference lie within their intervals. The deviation
of a share of 90 % over 200 logs is 2 %. Every log is one line of the file RESULTS: an interrupted run resumes
there. Logs are kept in memory and summed with NumPy; the first of each setting is also written to disk and
given to `evaluate`, which must say the same.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from rankloop.bias import BiasEstimate, BiasOptions, estimate_bias
from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import Comparison, EvaluationOptions, open_log
from rankloop.offline.assumptions import BiasResamples
from rankloop.offline.comparison import assumptions_of, compare
from rankloop.policies import expected_rank_weights, rank_marginals, sorted_rank_weights
from rankloop.ragged import offsets_of, segment_std, segment_sum
from rankloop.statistics import Counts, Exposure, Statistics, of_impressions
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import Bias, Float64, Split
from rankloop.value.uncertainty import BiasSpread, ImpressionTerms, Moments, bias_spread
from rankloop.value.valuation import CLICKS, LoggedMetric, PolicyRanking, Valuation

QUERIES = 150
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
        ranks: how many ranks users look at.
        estimated: whether the bias is estimated from each log.
        impressions: how many a log has.
        metric: what the policies are compared by: ``dcg``, or ``clicks``.
    """

    name: str
    policies: int = 3
    spread: float = 1.5
    ranking: str = "sorted"
    pool: int | None = None
    ranks: int = 5
    estimated: bool = False
    impressions: int = 10_000
    metric: str = "dcg"

    @property
    def users(self) -> Any:
        """Who clicks."""
        return users(f"paper@{self.ranks}")


SETTINGS = (
    Setting("one policy", policies=1),
    Setting("three policies"),
    Setting("three policies, the new one draws", ranking="drawn"),
    Setting("three peaked policies", spread=4.0),
    Setting("other queries each time", pool=1_500),
    Setting("other queries each time, the new one draws", pool=1_500, ranking="drawn"),
    Setting("estimated bias, five ranks", pool=1_500, estimated=True, impressions=30_000),
    Setting("estimated bias, ten ranks", pool=1_500, estimated=True, impressions=30_000, ranks=10),
    Setting("clicks, estimated bias", pool=1_500, estimated=True, impressions=30_000, metric="clicks"),
    Setting("clicks, the same queries", estimated=True, metric="clicks"),
)


@dataclass(frozen=True, eq=False)
class World:
    """Queries, how often they come, and policies.

    Attributes:
        split: with the true labels.
        frequencies: queries.
        scores: by policy, documents.
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
            raw = split.labels + noise * rng.normal(size=split.n_documents)
            scores[policy] = setting.spread * raw / segment_std(raw, split.offsets).mean()
        return cls(split, frequencies, scores, setting)

    def of_queries(self, queries: Any) -> World:
        """The same world with some of its queries."""
        starts, sizes = self.split.offsets[queries], self.split.sizes[queries]
        rows = np.repeat(starts - offsets_of(sizes)[:-1], sizes) + np.arange(sizes.sum())
        scores = {policy: values[rows] for policy, values in self.scores.items()}
        return World(self.split.select(queries), self.frequencies[queries], scores, self.setting)

    @property
    def metric(self) -> LoggedMetric:
        """What the policies are compared by, as the true users define it."""
        name = CLICKS if self.setting.metric == CLICKS else f"dcg@{self.setting.ranks}"
        return LoggedMetric.of(name, bias_of(self.setting.users))

    def placed(self, policy: str, ranking: str, vectors: Float64) -> Float64:
        """The expected weight of each document's rank under a policy: documents × vectors."""
        expected = sorted_rank_weights if ranking == "sorted" else expected_rank_weights
        columns = [expected(self.scores[policy], self.split.offsets, vector) for vector in vectors]
        return np.stack(columns, axis=1)

    def truth(self, policy: str, ranking: str, scale: tuple[float, float] = (0.0, 1.0)) -> float:
        """What a policy is worth on this traffic, with the levels of relevance that count as 0 and as 1."""
        relevance = (self.split.labels / 4 - scale[0]) / (scale[1] - scale[0])
        people, placed = bias_of(self.setting.users), self.placed(policy, ranking, self.metric.vectors)
        amounts = self.metric.gain(placed, people) * relevance + self.metric.always(placed, people)
        values = segment_sum(amounts, self.split.offsets)
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
                    self.setting.users,
                    self.setting.impressions // len(names),
                    rng,
                    frequencies=self.frequencies,
                ),
            )
            for name in names
        ]

    def ranking_of(self, policy: str, ranking: str, vectors: Float64) -> PolicyRanking:
        """How a policy ranks, as the offline modules want it."""
        nothing = np.zeros((self.split.n_queries, len(vectors)))
        everywhere = np.ones(self.split.n_queries, np.bool_)
        return PolicyRanking(policy, ranking, self.placed(policy, ranking, vectors), nothing, everywhere)


def sum_moments(logs: list[PolicyTraffic], valuation: Valuation) -> Moments:
    """Sums over impressions, in memory."""
    offsets = valuation.statistics.offsets
    terms = ImpressionTerms(valuation.contribution, valuation.lambdas, valuation.bias)
    total = np.zeros((valuation.statistics.n_queries, len(Moments.COLUMNS)))
    for part in logs:
        log: Impressions = part.impressions  # type: ignore[assignment]
        impression, position = np.nonzero(log.rankings >= 0)
        rows = ImpressionRows(
            offsets_of((log.rankings >= 0).sum(axis=1)),
            log.queries,
            offsets[log.queries[impression]] + log.rankings[impression, position],
            position,
            log.clicks[impression, position].astype(np.float64),
        )
        queries, sums = terms.by_query(rows)
        total[queries] += sums
    return Moments.of_table(total)


def counts_of(logs: list[PolicyTraffic], offsets: Any) -> Counts:
    """Displays and clicks of all policies."""
    return reduce(add, [part.impressions.counts(offsets, part.policy) for part in logs])  # type: ignore[attr-defined]


def estimate(world: World, logs: list[PolicyTraffic], number: int) -> BiasEstimate:
    """The bias as the log tells it."""
    counts = counts_of(logs, world.split.offsets)
    return estimate_bias(counts, BiasOptions(held_out=False), rng=np.random.default_rng([number, 2]))


def in_memory(world: World, logs: list[PolicyTraffic], found: BiasEstimate | None) -> Comparison:
    """What `evaluate` says, without files."""
    offsets = world.split.offsets
    bias = bias_of(world.setting.users) if found is None else found.bias
    statistics = Statistics.empty(offsets, bias.positions)
    for part in logs:
        log: Impressions = part.impressions  # type: ignore[assignment]
        exposure = Exposure.of_scores(part.scores, offsets, bias)
        ranks = slice(bias.positions)
        statistics += of_impressions(
            part.policy,
            offsets,
            exposure,
            queries=log.queries,
            rankings=log.rankings[:, ranks],
            clicks=log.clicks[:, ranks],
        )
    metric = LoggedMetric.of(world.metric.name, bias)
    rankings = tuple(
        world.ranking_of(name, how, metric.vectors)
        for name, how in (("new", world.setting.ranking), ("production", "drawn"))
    )
    came = statistics.impressions_by_query > 0
    rankings = tuple(ranking.select(came, offsets) for ranking in rankings)  # type: ignore[assignment]
    used = statistics.select(np.flatnonzero(came))
    valuation = Valuation(used, bias, metric, rankings, Valuation.usual_support(used.impressions))
    spread: BiasSpread | None = None
    resamples = None if found is None else BiasResamples.of_estimate(found)
    if resamples is not None:
        shares = np.zeros((world.split.n_documents, bias.positions))
        for part in logs:
            own = statistics.policies[part.policy].impressions_by_query / np.maximum(
                statistics.impressions_by_query, 1
            )
            marginals = rank_marginals(part.scores, offsets, bias.positions)
            shares += np.repeat(own, world.split.sizes)[:, None] * marginals
        draws = resamples.draws(counts_of(logs, offsets).of_ranks(bias.positions))
        shares = shares[np.repeat(came, world.split.sizes)]
        drawn = None if draws is None else draws[:, came]
        spread = bias_spread([valuation], np.ones(1), resamples.biases, [shares], drawn)
    assumptions = assumptions_of(bias_estimated=found is not None, explores=True)
    return compare([valuation], [sum_moments(logs, valuation)], assumptions=assumptions, spread=spread)


def on_disk(world: World, logs: list[PolicyTraffic], bias: Bias | BiasEstimate) -> Comparison:
    """What `evaluate` says."""
    with tempfile.TemporaryDirectory() as folder:
        # The new policy as one that could have logged, but never did.
        log = open_log(write_simulated(Path(folder) / "log", world.split, logs, features=False))
        table = Path(folder) / "new.csv"
        query = np.repeat(world.split.query_ids, world.split.sizes)
        place = np.arange(world.split.n_documents) - np.repeat(world.split.offsets[:-1], world.split.sizes)
        rows = zip(query, place, world.scores["new"].tolist(), strict=True)
        lines = "".join(f"{name},{document},{score!r}\n" for name, document, score in rows)
        table.write_text("query_id,doc_id,score\n" + lines)
        # The sums in memory have no guess of relevance but its mean.
        options = EvaluationOptions(ranking=world.setting.ranking, guess="mean")  # type: ignore[arg-type]
        return log.evaluate(table, "production", bias=bias, options=options)


def compare_once(world: World, number: int) -> dict[str, Any]:
    """One log, and what it says: estimates, intervals and truths."""
    rng = np.random.default_rng([number, 1])
    whole, setting = world, world.setting
    if setting.pool is not None:
        world = world.of_queries(np.sort(rng.choice(world.split.n_queries, QUERIES, replace=False)))
    logs = world.gathered(rng)
    bias = estimate(world, logs, number) if setting.estimated else None
    found = in_memory(world, logs, bias)
    if number == 0 and bias is None:
        again = on_disk(world, logs, bias_of(setting.users))
        # The bootstrap draws queries by their order, which on disk is that of their names.
        for name in ("value", "error"):
            here, there = (getattr(one.difference.estimate, name) for one in (found, again))
            assert np.isclose(here, there, rtol=1e-9), (name, here, there)
    # Clicks have no scale of relevance.
    scale = (0.0, 1.0) if bias is None or setting.metric == CLICKS else _scale(setting, bias)
    new, old = whole.truth("new", setting.ranking, scale), whole.truth("production", "drawn", scale)
    return {
        "setting": setting.name,
        "number": number,
        "ranks": setting.ranks if bias is None else bias.bias.positions,
        "truth": [new, new - old],
        "new": list(found.new.estimate),
        "difference": list(found.difference.estimate),
        "outside": found.new.outside,
        "effective": found.new.effective,
        "decision": found.decision.kind,
    }


def _scale(setting: Setting, found: BiasEstimate) -> tuple[float, float]:
    """The levels of relevance that count as 0 and 1 on the scale of an estimate, by the true users."""
    true = bias_of(setting.users)
    high, low = found.anchor.high - 1, found.anchor.low - 1
    return -true.beta[low] / true.alpha[low], (1.0 - true.beta[high]) / true.alpha[high]


def table_line(name: str, found: list[dict[str, Any]]) -> str:
    """A line of the table."""
    cells = []
    for place, part in enumerate(("new", "difference")):
        truth = np.array([one["truth"][place] for one in found])
        values, low, high, errors, same_low, same_high = np.array([one[part] for one in found]).T
        cells += [
            f"{truth.mean():.3f}",
            f"{values.mean():.3f}",
            f"{values.std(ddof=1):.3f}",
            f"{np.sqrt((errors**2).mean()):.3f}",
            f"{np.mean((low <= truth) & (truth <= high)):.1%}",
            f"{np.mean((same_low <= truth) & (truth <= same_high)):.1%}",
        ]
    outside, effective = (np.mean([one[part] for one in found]) for part in ("outside", "effective"))
    decisions = [one["decision"] for one in found]
    shares = ", ".join(f"{kind} {decisions.count(kind) / len(found):.0%}" for kind in sorted({*decisions}))
    return f"| {' | '.join([name, str(len(found)), *cells, f'{outside:.1%}', f'{effective:,.0f}', shares])} |"


def main(results: Path, logs: int = 200, names: Iterable[str] = ()) -> None:
    """Simulate what is missing, and print the table."""
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    known = {(one["setting"], one["number"]) for one in done}
    chosen = [setting for setting in SETTINGS if not names or setting.name in names]
    worlds = [World.of(setting) for setting in chosen]
    for number in range(logs):
        for world in worlds:
            if (world.setting.name, number) in known:
                continue
            done.append(compare_once(world, number))
            with results.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    parts = ["truth", "mean", "deviation", "error", "held", "held by that of these queries"]
    head = ["log", "logs", *(f"new: {part}" for part in parts), *(f"difference: {part}" for part in parts)]
    head += ["outside", "effective", "decisions"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for setting in chosen:
        print(table_line(setting.name, [one for one in done if one["setting"] == setting.name]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]), names=sys.argv[3:])
