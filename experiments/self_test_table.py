"""How often the self-test of a log alarms, in sound worlds and in broken ones: docs/what-can-go-wrong.md.

    python -m experiments.self_test_table run RESULTS.jsonl --logs 60
    python -m experiments.self_test_table show RESULTS.jsonl

A log has 150 queries with 10 documents each, and shows 5 of them. Two policies draw rankings from scores
(Plackett–Luce); the second one serves from the middle of the log on, or both in parallel. The test for hidden
contexts needs a bias: a quick one by moments, or with --estimate-bias that of `rankloop bias`. `run` appends
a line per log and skips those that are in the file already; a seed is that of the log alone. `show` prints
the table: the share of logs with an alarm, 90 % intervals (Wilson), and the tests that found something in at
least a tenth of the logs.

The simulator is vectorised and independent of `rankloop.clicks`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.command import run as run_command
from experiments.rows import Row, append_row, read_rows
from rankloop.bias import BiasOptions, estimate_bias
from rankloop.errors import DataError
from rankloop.evidence.self_test import SelfTest, self_test
from rankloop.statistics import Counts
from rankloop.statistics.impression_table import ImpressionTable
from rankloop.statistics.intervals import wilson
from rankloop.types import Bias, Float64, Int64

QUERIES, DOCUMENTS, RANKS = 150, 10, 5
SIZES = (10_000, 3_000)
DAYS = 28
DAY = 86_400.0
# The users of the paper, at six tenths of their rate of clicks: demand can then rise by 30 %.
ALPHA = 0.6 * np.array([0.35, 0.53, 0.55, 0.54, 0.52])
BETA = 0.6 * np.array([0.65, 0.26, 0.15, 0.11, 0.08])
EXAMINATION = 1.0 / np.arange(1.0, RANKS + 1.0)
GRADES, SHARES = np.arange(5) / 4.0, (0.4, 0.2, 0.2, 0.1, 0.1)
# The standard deviation of a policy's scores within a query.
SPREAD = 1.0
# A test is named in the table if it found something in this share of the logs.
NAMED = 0.1


@dataclass
class Draft:
    """A log before its clicks.

    Attributes:
        rng: the generator.
        relevance: float64, queries × documents.
        query: impressions.
        late: bool, impressions; the second half of the time.
        policy: impressions.
        lists: impressions × ranks; documents of the query, best first.
        time: seconds, impressions.
    """

    rng: np.random.Generator
    relevance: Float64
    query: Int64
    late: np.ndarray
    policy: Int64
    lists: Int64
    time: Float64

    @property
    def shown(self) -> Float64:
        """The relevance of what is shown: impressions × ranks."""
        return self.relevance[self.query[:, None], self.lists]

    def clicks(self, chance: Float64) -> np.ndarray:
        """Independent clicks."""
        return self.rng.random(chance.shape) < chance

    def table(self, clicked: np.ndarray, lists: Int64 | None = None, **more: object) -> ImpressionTable:
        """The log."""
        lists = self.lists if lists is None else lists
        documents = np.where(lists >= 0, self.query[:, None] * DOCUMENTS + lists, -1)
        return ImpressionTable.of_lists(
            documents, clicked, query=self.query, policy=self.policy, time=self.time, **more
        )


def draft(
    rng: np.random.Generator, impressions: int, *, parallel: bool = False, shift: bool = False
) -> Draft:
    """Draw queries, policies and rankings."""
    relevance = rng.choice(GRADES, (QUERIES, DOCUMENTS), p=SHARES)
    popularity = rng.dirichlet(np.full(QUERIES, 3.0), 2)
    late = np.arange(impressions) >= impressions // 2
    of_time = late * shift
    query = np.where(
        of_time, *(rng.choice(QUERIES, impressions, p=popularity[part]) for part in (1, 0))
    ).astype(np.int64)
    policy = (rng.random(impressions) < 0.5 if parallel else late).astype(np.int64)
    scores = rng.normal(size=(2, QUERIES, DOCUMENTS)) + relevance
    scores *= SPREAD / scores.std(axis=2, keepdims=True)
    race = scores[policy, query] + rng.gumbel(size=(impressions, DOCUMENTS))
    lists = np.argsort(-race, axis=1)[:, :RANKS].astype(np.int64)
    times = np.sort(rng.random(impressions)) * DAYS * DAY
    return Draft(rng, relevance, query, late, policy, lists, times)


def affine(log: Draft) -> Float64:
    """The click probabilities of affine users."""
    return ALPHA * log.shown + BETA


def of_factor(rng: np.random.Generator, impressions: int, factor: float) -> ImpressionTable:
    """Demand changes when the policy does."""
    log = draft(rng, impressions)
    return log.table(log.clicks(affine(log) * np.where(log.late, factor, 1.0)[:, None]))


def plain(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Affine users."""
    return of_factor(rng, impressions, 1.0)


def position(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users who examine by position and click what is relevant."""
    log = draft(rng, impressions)
    return log.table(log.clicks(EXAMINATION * (0.1 + 0.8 * log.shown)))


def traffic(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Other queries come in the second half."""
    log = draft(rng, impressions, shift=True)
    return log.table(log.clicks(affine(log)))


def parallel(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Both policies serve at the same time."""
    log = draft(rng, impressions, parallel=True)
    return log.table(log.clicks(affine(log)))


def robots(rng: np.random.Generator, impressions: int, *, from_middle: bool = False) -> ImpressionTable:
    """One impression in twenty is that of a robot, which clicks nearly everything."""
    log = draft(rng, impressions)
    robot = (rng.random(impressions) < 0.05) & (log.late | (not from_middle))
    return log.table(log.clicks(np.where(robot[:, None], 0.9, affine(log))))


def late_robots(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Robots come in the second half."""
    return robots(rng, impressions, from_middle=True)


def users_differ(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users return, and some click much more than others; their ids are in the log."""
    log = draft(rng, impressions)
    people = impressions // 8
    activity, level = rng.gamma(1.0, size=people), rng.gamma(2.0, 0.5, size=people)
    user = rng.choice(people, impressions, p=activity / activity.sum())
    chance = np.minimum(affine(log) * level[user][:, None], 1.0)
    return log.table(log.clicks(chance), unit=user)


def device_levels(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """One device clicks more than the other, at all positions alike."""
    log = draft(rng, impressions)
    device = (rng.random(impressions) < 0.4).astype(np.int64)
    return log.table(
        log.clicks(affine(log) * np.where(device, 1.3, 0.8)[:, None]), columns={"device": device}
    )


def demand_up(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Demand +15 % from the middle on."""
    return of_factor(rng, impressions, 1.15)


def demand_down(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Demand −15 % from the middle on."""
    return of_factor(rng, impressions, 0.85)


def demand_far_up(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Demand +30 % from the middle on."""
    return of_factor(rng, impressions, 1.3)


def users_change(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """From the middle on, users trust positions less and examine fewer of them."""
    log = draft(rng, impressions)
    later = ALPHA * np.linspace(1.3, 0.6, RANKS) * log.shown + 0.8 * BETA
    return log.table(log.clicks(np.where(log.late[:, None], later, affine(log))))


def lost_clicks(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """From the middle on, 30 % of the clicks at the third rank are lost."""
    log = draft(rng, impressions)
    kept = np.where(log.late[:, None] & (np.arange(RANKS) == 2), 0.7, 1.0)
    return log.table(log.clicks(affine(log) * kept))


def weekends(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users click 25 % more at weekends."""
    log = draft(rng, impressions)
    weekend = (log.time // DAY) % 7 >= 5
    return log.table(log.clicks(affine(log) * np.where(weekend, 1.25, 1.0)[:, None]))


def cascade(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users go from the top to the bottom, and mostly stop after a click."""
    log = draft(rng, impressions)
    clicked = log.clicks(0.1 + 0.6 * log.shown)
    stops = (clicked & (rng.random(clicked.shape) < 0.7)) | (rng.random(clicked.shape) < 0.1)
    reached = np.cumsum(np.pad(stops, ((0, 0), (1, 0)))[:, :-1], axis=1) == 0
    return log.table(clicked & reached)


def slight_cascade(rng: np.random.Generator, impressions: int, stops: float) -> ImpressionTable:
    """Affine users, some of whom stop after a click."""
    log = draft(rng, impressions)
    clicked = log.clicks(affine(log))
    stop = clicked & (rng.random(clicked.shape) < stops)
    reached = np.cumsum(np.pad(stop, ((0, 0), (1, 0)))[:, :-1], axis=1) == 0
    return log.table(clicked & reached)


def lengths(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Lists have 2 to 5 documents, and each is clicked less in a longer one."""
    log = draft(rng, impressions)
    length = rng.integers(2, RANKS + 1, impressions)[:, None]
    lists = np.where(np.arange(RANKS) < length, log.lists, -1)
    return log.table(log.clicks(affine(log) * (3.0 / (length + 1.0)) ** 0.6) & (lists >= 0), lists)


def one_pick(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users pick one document of a list, or none."""
    log = draft(rng, impressions)
    amount = EXAMINATION**0.5 * (0.1 + 2.0 * log.shown)
    chance = np.cumsum(amount / (1.0 + amount.sum(axis=1, keepdims=True)), axis=1)
    pick = (rng.random((impressions, 1)) > chance).sum(axis=1)
    return log.table(np.arange(RANKS) == pick[:, None])


def device_curves(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users of one device examine fewer positions; the device is in the log."""
    log = draft(rng, impressions)
    device = (rng.random(impressions) < 0.4).astype(np.int64)
    power = np.where(device, 1.2, 0.4)[:, None]
    return log.table(log.clicks(EXAMINATION**power * (0.1 + 0.8 * log.shown)), columns={"device": device})


def hidden_contexts(rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """Users examine few positions of one half of the queries and many of the other; the log does not say."""
    log = draft(rng, impressions)
    power = rng.choice([0.3, 1.3], QUERIES)[log.query][:, None]
    return log.table(log.clicks(EXAMINATION**power * (0.1 + 0.8 * log.shown)))


World = Callable[[np.random.Generator, int], ImpressionTable]
SOUND: dict[str, World] = {
    "affine": plain,
    "position": position,
    "traffic shift": traffic,
    "robots throughout": robots,
    "users who differ": users_differ,
    "A/B in parallel": parallel,
    "devices that differ in level": device_levels,
}
BROKEN: dict[str, World] = {
    "demand +15 %": demand_up,
    "demand −15 %": demand_down,
    "demand +30 %": demand_far_up,
    "users change": users_change,
    "clicks lost at one rank": lost_clicks,
    "robots from the middle on": late_robots,
    "weekends": weekends,
    "cascade": cascade,
    "different lengths": lengths,
    "one pick per list": one_pick,
    "curves by device": device_curves,
    "curves by unknown attribute": hidden_contexts,
}
# Effects about as small as the gates, for large logs.
SLIGHT: dict[str, World] = {
    f"demand +{percent} %": partial(of_factor, factor=1.0 + percent / 100.0) for percent in (0.5, 1, 2)
} | {
    f"{percent} % stop after a click": partial(slight_cascade, stops=percent / 100.0)
    for percent in (1, 3, 10)
}
WORLDS = SOUND | BROKEN | SLIGHT


def estimated(table: ImpressionTable) -> Bias | None:
    """The bias as `rankloop bias` estimates it; None if it is refused."""
    rows = table.rows
    query = rows.query[rows.impression_of]
    counted = {}
    for number, name in enumerate(table.policy_ids):
        mine = table.policy[rows.impression_of] == number
        place = rows.document[mine] * RANKS + rows.position[mine]
        displays, clicks = (
            np.bincount(place, weights, QUERIES * DOCUMENTS * RANKS).reshape(-1, RANKS).astype(np.int64)
            for weights in (None, rows.amount[mine])
        )
        came = np.bincount(query[mine & (rows.position == 0)], minlength=QUERIES)
        counted[name] = (came, displays, clicks)
    counts = Counts.of_arrays(np.arange(QUERIES + 1) * DOCUMENTS, counted)
    options = BiasOptions(method="pairs", resamples=0, held_out=False)
    try:
        return estimate_bias(counts, options, rng=np.random.default_rng(0)).bias
    except DataError:
        return None


def by_moments(table: ImpressionTable) -> Bias:
    """A bias in a few milliseconds: at each rank, a line through clicks as relevance rises.

    Relevance is clicks over expected clicks in every other impression; the lines are those of the rest. The
    common scale and shift of relevance that remain free do not matter to the self-test.
    """
    rows = table.rows
    first = rows.impression_of % 2 == 0
    usual = np.bincount(rows.position, rows.amount) / np.bincount(rows.position)
    clicks, expected = (
        np.bincount(rows.document[first], values[first], QUERIES * DOCUMENTS)
        for values in (rows.amount, usual[rows.position])
    )
    relevance = ((clicks + 1.0) / (expected + 1.0))[rows.document[~first]]
    rank, clicked = rows.position[~first], rows.amount[~first]
    times = np.bincount(rank)
    means, products, squares, rates = (
        np.bincount(rank, values) / times
        for values in (relevance, relevance * clicked, relevance**2, clicked)
    )
    alpha = np.maximum((products - means * rates) / (squares - means**2), 1e-3)
    beta = rates - alpha * means
    beta += alpha * np.max(-beta / alpha)
    alpha *= min(1.0, float(np.min((1.0 - beta) / alpha)))
    return Bias(alpha, np.maximum(beta, 0.0), np.ones(len(alpha)))


def tested_world(world: str, impressions: int, seed: int, *, estimate: bool) -> SelfTest:
    """The self-test of one log."""
    table = WORLDS[world](np.random.default_rng([seed, impressions, list(WORLDS).index(world)]), impressions)
    return self_test(table, estimated(table) if estimate else by_moments(table))


def row_of(world: str, impressions: int, seed: int, *, estimate: bool = False) -> Row:
    """What the self-test of one log found."""
    found = tested_world(world, impressions, seed, estimate=estimate)
    return {
        "world": world,
        "impressions": impressions,
        "seed": seed,
        "found": [test.name for test in found.found],
        "negligible": [test.name for test in found.tests if test.negligible],
        "order": round(found.test("order").effect, 4),
    }


def run(path: Path, logs: int, worlds: list[str], sizes: list[int], *, estimate: bool) -> None:
    """Add the rows that are not in the file."""
    done = {(row["world"], row["impressions"], row["seed"]) for row in read_rows(path)}
    for seed in range(logs):
        for impressions in sizes:
            for world in worlds:
                if (world, impressions, seed) not in done:
                    append_row(path, row_of(world, impressions, seed, estimate=estimate))


def show(path: Path) -> None:
    """Print the table."""
    rows = read_rows(path)
    sizes = sorted({row["impressions"] for row in rows}, reverse=True)
    print("| world |", " | ".join(f"{size:,} impressions | found" for size in sizes), "|")
    print("|---" * (1 + 2 * len(sizes)) + "|")
    for world in dict.fromkeys(row["world"] for row in rows):
        cells = []
        for size in sizes:
            mine = [row for row in rows if row["world"] == world and row["impressions"] == size]
            cells += _cells(mine)
        print(f"| {world} |", " | ".join(cells), "|")
    for size in sizes:
        mine = [row for row in rows if row["world"] in SOUND and row["impressions"] == size]
        print(f"\nsound worlds, {size:,} impressions: {' by '.join(_cells(mine))} ({len(mine)} logs)")


def _cells(rows: list[Row]) -> list[str]:
    if not rows:
        return ["–", "–"]
    alarms = sum(bool(row["found"]) for row in rows)
    low, high = wilson(alarms, len(rows))
    names = Counter(name for row in rows for name in row["found"])
    few = NAMED * len(rows)
    # Of the few alarms of sound worlds, each counts.
    common = [
        f"{name} {100 * count / len(rows):.0f} %" if count >= few else f"{name} ({count})"
        for name, count in names.most_common()
        if count >= few or alarms < few
    ]
    share = f"{100 * alarms / len(rows):.1f} %" if 0 < alarms < few else f"{100 * alarms / len(rows):.0f} %"
    return [f"{share} ({100 * low:.0f} to {100 * high:.0f})", ", ".join(common) or "–"]


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(prog="python -m experiments.self_test_table", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("path", type=Path)
    runs.add_argument("--logs", type=int, default=60)
    runs.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(SOUND | BROKEN))
    runs.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    runs.add_argument("--estimate-bias", action="store_true", help="as `rankloop bias`, a second per log")
    commands.add_parser("show").add_argument("path", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(
            arguments.path,
            arguments.logs,
            arguments.worlds,
            arguments.sizes,
            estimate=arguments.estimate_bias,
        )
    else:
        show(arguments.path)


if __name__ == "__main__":
    run_command(main)
