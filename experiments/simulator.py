"""Worlds in which users click, in sound and in broken ways, and logs of them.

A log has 150 queries with 10 documents each, and shows 5 of them. Two policies draw rankings from scores
(Plackett–Luce); the second one serves from the middle of the log on, or both in parallel. What a policy is
worth is counted: it serves all the traffic of a large log of the same world. Nothing here asks
`rankloop` for a formula; it is vectorised and independent of `rankloop.clicks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from experiments.simulated_users import (
    BEGINNING,
    DAY,
    Demand,
    Flags,
    SlightCascade,
    affine,
    cascade,
    curves_by_query,
    delayed,
    demand_and_lengths,
    dependent_clicks,
    device_curves,
    device_levels,
    fatigue,
    flat_attention,
    hidden_curves,
    late_robots,
    lost_clicks,
    one_pick,
    personal,
    position,
    reloads,
    robots,
    seasons,
    shared_attention,
    substitution,
    tastes_differ,
    trend,
    two_defects,
    users_change,
    users_differ,
    weekends,
)
from rankloop.statistics.counts import ImpressionTable
from rankloop.types import Float64, Int64

QUERIES, DOCUMENTS, RANKS, IMPRESSIONS = 150, 10, 5, 10_000
DAYS = 28
GRADES, SHARES = np.arange(5) / 4.0, (0.4, 0.2, 0.2, 0.1, 0.1)
# The standard deviation of a policy's scores within a query.
SPREAD = 1.0
# Scores times this are no longer drawn, but sorted.
SORTED = 1e6


@dataclass(frozen=True)
class Queries:
    """Queries and what users think of their documents.

    Attributes:
        relevance: float64, queries × documents.
        popularity: float64, 2 × queries; in the first and in the second half of the time.
        trait: float64, queries; an attribute from 0 to 1 that no log has.
    """

    relevance: Float64
    popularity: Float64
    trait: Float64


@dataclass(frozen=True)
class Traffic:
    """Impressions before their clicks.

    Attributes:
        rng: the generator.
        queries: the queries.
        query: int64, impressions.
        late: bool, impressions; the second half of the time.
        policy: int64, impressions.
        lists: int64, impressions × ranks; documents of the query, best first, -1 where there is none.
        time: float64, impressions; seconds since 1970.
        user: int64, impressions.
        level: float64, impressions; how much the user clicks, with a mean of 1.
        device: int64, impressions; 0 or 1.
    """

    rng: np.random.Generator
    queries: Queries
    query: Int64
    late: Flags
    policy: Int64
    lists: Int64
    time: Float64
    user: Int64
    level: Float64
    device: Int64

    @property
    def shown(self) -> Float64:
        """The relevance of what is shown: impressions × ranks."""
        return np.where(self.lists >= 0, self.queries.relevance[self.query[:, None], self.lists], 0.0)

    @property
    def ranks(self) -> int:
        """How many ranks lists have at most."""
        return int(self.lists.shape[1])

    def drawn(self, chance: Float64) -> Flags:
        """Independent clicks."""
        clicked: Flags = (self.rng.random(chance.shape) < chance) & (self.lists >= 0)
        return clicked


class ExpectedTraffic(Traffic):
    """The same impressions, on which every click is its probability."""

    def drawn(self, chance: Float64) -> Float64:  # type: ignore[override]
        """The expected clicks."""
        return np.where(self.lists >= 0, chance, 0.0)


Users = Callable[[Traffic], Flags]
Ranker = Callable[[np.random.Generator, Float64], Float64]


@dataclass(frozen=True)
class World:
    """A world: its users, its queries, and what is logged.

    Attributes:
        users: what they click.
        queries: how many there are.
        documents: per query.
        ranks: how many documents are shown.
        impressions: of a log.
        serving: ``after``, policies serve one after the other; ``parallel``, all of them all the time;
            ``overlap``, the second one gets half of the impressions in the middle third, and all after it;
            ``ramp``, a share of them that rises from a tenth to nine tenths; ``weekends``, those of
            Saturdays and Sundays; ``device``, those of one device.
        policies: how many there are.
        apart: whether the policies show different documents.
        shift: whether other queries come in the second half.
        even: how evenly queries come: the parameter of their Dirichlet distribution.
        tail: the exponent of the popularity of queries; 0 if it is that of a Dirichlet distribution.
        shortest: the length of the shortest list, if lengths are random; 0 if all have all ranks.
        deterministic: whether policies sort, and do not draw.
        per_user: impressions per user, on average; 0 if the log has no users.
        largest: the share of the impressions that the first user has.
        devices: whether the log has the column ``device``.
        clicked_only: whether impressions without a click are missing.
        times: ``known``, ``none`` or ``constant``.
    """

    users: Users
    queries: int = QUERIES
    documents: int = DOCUMENTS
    ranks: int = RANKS
    impressions: int = IMPRESSIONS
    serving: Literal["after", "parallel", "overlap", "ramp", "weekends", "device"] = "after"
    policies: int = 2
    apart: bool = False
    shift: bool = False
    even: float = 3.0
    tail: float = 0.0
    shortest: int = 0
    deterministic: bool = False
    per_user: int = 0
    largest: float = 0.0
    devices: bool = False
    clicked_only: bool = False
    times: Literal["known", "none", "constant"] = "known"

    def draw_queries(self, rng: np.random.Generator) -> Queries:
        """The queries of a log."""
        relevance = rng.choice(GRADES, (self.queries, self.documents), p=SHARES)
        popularity = rng.dirichlet(np.full(self.queries, self.even), 2)
        if self.tail:
            often = np.arange(1.0, self.queries + 1.0) ** -self.tail
            popularity[:] = often / often.sum()
        return Queries(relevance, popularity, rng.random(self.queries))

    def traffic(
        self, queries: Queries, policies: Sequence[Float64], rng: np.random.Generator, impressions: int
    ) -> Traffic:
        """Impressions of policies, each by its scores of all documents."""
        late = np.arange(impressions) >= impressions // 2
        count = len(queries.relevance)
        early, other = (rng.choice(count, impressions, p=queries.popularity[part]) for part in (0, 1))
        query = np.where(late & self.shift, other, early).astype(np.int64)
        moment = np.arange(impressions) / impressions
        if self.serving == "parallel":
            moment = rng.random(impressions)
        elif self.serving == "overlap":
            between = (moment > 1 / 3) & (moment < 2 / 3)
            moment = np.where(between, rng.random(impressions), moment)
        elif self.serving == "ramp":
            moment = (rng.random(impressions) < 0.1 + 0.8 * moment) / 2.0
        policy = (moment * len(policies)).astype(np.int64)
        time = device = None
        if self.serving in ("weekends", "device"):
            time, device = self._draw_times(rng, impressions), self._draw_devices(rng, impressions)
            weekend = ((time - BEGINNING) // DAY) % 7 >= 5
            policy = np.where(weekend if self.serving == "weekends" else device == 1, 1, 0) % len(policies)
        scores = np.stack(list(policies))
        race = (scores * (SORTED if self.deterministic else 1.0))[policy, query]
        race += rng.gumbel(size=race.shape)
        lists = np.argsort(-race, axis=1)[:, : self.ranks].astype(np.int64)
        if self.shortest:
            length = rng.integers(self.shortest, self.ranks + 1, impressions)
            lists[np.arange(self.ranks) >= length[:, None]] = -1
        time = self._draw_times(rng, impressions) if time is None else time
        people = max(impressions // (self.per_user or 8), 1)
        activity, level = rng.gamma(1.0, size=people), rng.gamma(2.0, 0.5, size=people)
        user = rng.choice(people, impressions, p=activity / activity.sum()).astype(np.int64)
        user[rng.random(impressions) < self.largest] = 0
        device = self._draw_devices(rng, impressions) if device is None else device
        return Traffic(
            rng,
            queries,
            query,
            late,
            policy,
            lists,
            time,
            user,
            level[user],
            device,
        )

    def _draw_times(self, rng: np.random.Generator, impressions: int) -> Float64:
        return BEGINNING + np.sort(rng.random(impressions)) * DAYS * DAY

    def _draw_devices(self, rng: np.random.Generator, impressions: int) -> Int64:
        return (rng.random(impressions) < 0.4).astype(np.int64)

    def log(
        self, rng: np.random.Generator, *, policies: Callable[..., list[Float64]], impressions: int = 0
    ) -> SimulatedLog:
        """A log of two policies.

        Args:
            rng: the generator.
            policies: makes the scores of both from the generator and the relevances.
            impressions: how many; 0 for as many as the world has.
        """
        queries = self.draw_queries(rng)
        scores = policies(rng, queries.relevance, self.policies)
        scores = [self.masked(own, number) for number, own in enumerate(scores)]
        traffic = self.traffic(queries, scores, rng, impressions or self.impressions)
        return SimulatedLog(self, traffic, self.users(traffic), tuple(scores))

    def masked(self, scores: Float64, policy: int) -> Float64:
        """Scores of a policy that never shows the documents of others, if policies are apart."""
        others = self.apart & (np.arange(self.documents) % self.policies != policy)
        return np.where(others, -np.inf, scores)

    def counted(
        self, policy: Ranker, impressions: int, *, reranks: Ranker | None = None
    ) -> tuple[float, Float64]:
        """What a policy earns on all the traffic: clicks, and the mean relevance at each rank.

        Args:
            policy: makes its scores from a generator and relevances.
            impressions: how many are counted, over 3,000 other queries.
            reranks: the policy that chooses what is shown, if this one only orders it.
        """
        larger = replace(self, queries=3_000, largest=0.0, tail=0.0)
        queries = larger.draw_queries(np.random.default_rng(11))
        scores = policy(np.random.default_rng(13), queries.relevance)
        scores = self.masked(scores, 0)
        chooses = scores if reranks is None else reranks(np.random.default_rng(19), queries.relevance)
        traffic = larger.traffic(queries, [chooses], np.random.default_rng(17), impressions)
        if reranks is not None:
            order = np.argsort(-scores[traffic.query[:, None], traffic.lists], axis=1)
            traffic = replace(traffic, lists=np.take_along_axis(traffic.lists, order, axis=1))
        clicked = self.users(traffic)
        kept = clicked.any(axis=1) | (not self.clicked_only)
        return float(clicked[kept].sum(axis=1).mean()), traffic.shown[kept].mean(axis=0)

    def lines(self, impressions: int) -> tuple[Float64, Float64]:
        """α and β of the average user, by least squares at each rank of lists in random order.

        Of users who click on each document for itself, by the probabilities of their clicks: no noise.
        """
        rng = np.random.default_rng(11)
        larger = replace(self, queries=3_000, tail=0.0, deterministic=False)
        queries = larger.draw_queries(rng)
        alphas, betas = [], []
        traffic = larger.traffic(queries, [np.zeros_like(queries.relevance)], rng, impressions)
        try:
            clicked = self.users(ExpectedTraffic(**vars(traffic)))
        except TypeError:
            # What these users click depends on what they clicked before.
            clicked = self.users(traffic)
        shown = traffic.shown
        for rank in range(self.ranks):
            there = traffic.lists[:, rank] >= 0
            slope, level = np.polyfit(shown[there, rank], clicked[there, rank].astype(float), 1)
            alphas.append(slope)
            betas.append(level)
        return np.array(alphas), np.array(betas)


@dataclass(frozen=True)
class SimulatedLog:
    """A log: impressions, and what was clicked.

    Attributes:
        world: the world.
        traffic: the impressions.
        clicked: bool, impressions × ranks.
        scores: of each policy, queries × documents.
    """

    world: World
    traffic: Traffic
    clicked: Flags
    scores: tuple[Float64, ...]

    @property
    def table(self) -> ImpressionTable:
        """The log in memory, for the self-test."""
        traffic = self.traffic
        documents = np.where(
            traffic.lists >= 0, traffic.query[:, None] * self.world.documents + traffic.lists, -1
        )
        return ImpressionTable.of_lists(
            documents,
            self.clicked,
            query=traffic.query,
            policy=traffic.policy,
            time=traffic.time,
            unit=traffic.user if self.world.per_user else None,
            columns={"device": traffic.device} if self.world.devices else None,
        )

    def write(self, folder: Path, features: Float64 | None = None) -> Path:
        """The log as a folder of files, as `rankloop.open_log` opens it.

        Args:
            folder: a folder that is made.
            features: queries × documents × features; None for none.
        """
        folder.mkdir(parents=True)
        traffic, lists = self.traffic, self.traffic.lists
        logged = self.clicked.any(axis=1) | (not self.world.clicked_only)
        impression, rank = np.nonzero((lists >= 0) & logged[:, None])
        times = np.round(traffic.time * 1e6).astype("datetime64[us]")
        if self.world.times == "constant":
            times[:] = times[0]
        elif self.world.times == "none":
            times[:] = np.datetime64("NaT")
        columns = {
            "impression_id": impression.astype(np.str_),
            "timestamp": pa.array(times[impression], pa.timestamp("us", tz="UTC")),
            "query_id": names("q", traffic.query[impression]),
            "policy_id": np.array(policy_names(len(self.scores)))[traffic.policy[impression]],
            "position": rank + 1,
            "doc_id": names("d", lists[impression, rank]),
            "clicked": self.clicked[impression, rank],
        }
        if self.world.per_user:
            columns["user_id"] = names("u", traffic.user[impression])
        if self.world.devices:
            columns["device"] = np.array(["desktop", "phone"])[traffic.device[impression]]
        pq.write_table(pa.table(columns), folder / "impressions.parquet")
        if not self.world.deterministic:
            candidates = []
            for name, own in zip(policy_names(len(self.scores)), self.scores, strict=True):
                candidates.append(pa.table({"policy_id": [name] * own.size, **score_table(own)}))
            pq.write_table(pa.concat_tables(candidates), folder / "candidates.parquet")
        if features is not None:
            table = score_table(features[:, :, 0])
            del table["score"]
            for number in range(features.shape[2]):
                table[f"feature_{number}"] = features[:, :, number].ravel()
            pq.write_table(pa.table(table), folder / "features.parquet")
        return folder


def policy_names(count: int) -> list[str]:
    """The names of policies: production, the variant, and others."""
    return ["production", "variant", *(f"policy-{number}" for number in range(2, count))][:count]


def names(letter: str, numbers: Int64) -> NDArray[np.str_]:
    """Ids."""
    return np.char.add(letter, numbers.astype(np.str_))


def score_table(scores: Float64) -> dict[str, object]:
    """A table of scores of all documents of all queries."""
    query, document = np.indices(scores.shape)
    return {
        "query_id": names("q", query.ravel()),
        "doc_id": names("d", document.ravel()),
        "score": scores.ravel(),
    }


def scores_of(rng: np.random.Generator, relevance: Float64, follows: float = 1.0) -> Float64:
    """The scores of a policy: noise, and relevance as many times as it follows it."""
    scores = rng.normal(size=relevance.shape) + follows * relevance
    return scores * SPREAD / scores.std(axis=1, keepdims=True)


def unlike(rng: np.random.Generator, relevance: Float64, count: int = 2) -> list[Float64]:
    """Policies that are about equally good."""
    return [scores_of(rng, relevance) for _ in range(count)]


def equals(rng: np.random.Generator, relevance: Float64, count: int = 2) -> list[Float64]:
    """Policies that are equally good for every query, whatever users click.

    They have the scores of the first one, permuted among documents that are equally relevant.
    """
    first = scores_of(rng, relevance)
    return [first, *(permuted(rng, relevance, first) for _ in range(count - 1))]


def ignorant(rng: np.random.Generator, relevance: Float64, count: int = 2) -> list[Float64]:
    """Policies that know nothing."""
    return [scores_of(rng, relevance, 0.0) for _ in range(count)]


def permuted(rng: np.random.Generator, relevance: Float64, scores: Float64) -> Float64:
    """Scores, permuted among documents that are equally relevant."""
    before = np.argsort(relevance, axis=1, kind="stable")
    after = np.argsort(relevance + 1e-6 * rng.random(relevance.shape), axis=1)
    result = np.empty_like(scores)
    np.put_along_axis(result, after, np.take_along_axis(scores, before, axis=1), axis=1)
    return result


# Users whose clicks on a document depend on its position and its relevance, and on nothing else.
SOUND: dict[str, World] = {
    "affine": World(affine),
    "position": World(position),
    "traffic shift": World(affine, shift=True),
    "robots throughout": World(robots, per_user=8),
    "users who differ": World(users_differ, per_user=8),
    "A/B in parallel": World(affine, serving="parallel"),
    "devices that differ in level": World(device_levels, devices=True),
}
BROKEN: dict[str, World] = {
    "demand +15 %": World(Demand(1.15)),
    "demand −15 %": World(Demand(0.85)),
    "demand +30 %": World(Demand(1.3)),
    "users change": World(users_change),
    "clicks lost at one rank": World(lost_clicks),
    "robots from the middle on": World(late_robots, per_user=8),
    "weekends": World(weekends),
    "cascade": World(cascade),
    "different lengths": World(shared_attention, shortest=2),
    "one pick per list": World(one_pick),
    "curves by device": World(device_curves, devices=True),
    "curves by unknown attribute": World(hidden_curves),
}
# Effects about as small as the gates, for large logs.
SLIGHT: dict[str, World] = {
    f"demand +{percent} %": World(Demand(1.0 + percent / 100.0)) for percent in (0.5, 1, 2)
} | {f"{percent} % stop after a click": World(SlightCascade(percent / 100.0)) for percent in (1, 3, 10)}
# Other sizes and shapes of sound logs.
SHAPES: dict[str, World] = {
    "returning users with tastes": World(tastes_differ, per_user=40),
    "sparse: 3,000 queries": World(affine, queries=3_000),
    "tail": World(affine, queries=1_000, tail=1.0),
    "small: 60 queries, 3,000 impressions": World(affine, queries=60, impressions=3_000),
    "ten ranks": World(affine, documents=14, ranks=10),
    "two deterministic rankers": World(affine, deterministic=True),
}
# More ways in which a log can break what evaluations assume.
WORSE: dict[str, World] = {
    "demand −30 %": World(Demand(0.7)),
    "dependent clicks (DCM)": World(dependent_clicks),
    "substitution": World(substitution),
    "lengths 2 to 10, no position bias": World(flat_attention, documents=14, ranks=10, shortest=2),
    "impressions without clicks missing": World(affine, clicked_only=True),
}
# What an adversary would try: combinations, and logs that lack something.
HOSTILE: dict[str, World] = {
    "demand +30 %, policies overlap in time": World(Demand(1.3), serving="overlap"),
    "demand +30 %, no times": World(Demand(1.3), times="none"),
    "demand +30 %, one time for all": World(Demand(1.3), times="constant"),
    "demand +30 %, lists of 2 to 5": World(demand_and_lengths, shortest=2),
    "demand +30 %, other queries": World(Demand(1.3), shift=True, even=0.2),
    "demand +30 %, policies share no documents": World(Demand(1.3), apart=True),
    "demand rises, 12 policies": World(trend, policies=12),
    "12 policies in parallel": World(affine, policies=12, serving="parallel"),
    "8 queries": World(affine, queries=8),
    "one user has half of the impressions": World(tastes_differ, per_user=8, largest=0.5),
}
# Worlds that nobody had listed when the self-test was designed.
UNLISTED: dict[str, World] = {
    "fatigue": World(fatigue, per_user=12),
    "seasonal documents": World(seasons),
    "curves by the kind of query": World(curves_by_query),
    "clicks after the cut": World(delayed),
    "two defects at once": World(two_defects),
    "reloads": World(reloads),
    "personalised lists": World(personal, per_user=40),
    "demand rises while the variant ramps up": World(trend, serving="ramp"),
    "variant at weekends only, demand +25 %": World(weekends, serving="weekends"),
    "variant on one device only": World(device_curves, serving="device", devices=True),
    "variant on one device only, not logged": World(device_curves, serving="device"),
}
