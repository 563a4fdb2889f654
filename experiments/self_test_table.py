"""How often the self-test of a log alarms, in sound worlds and in broken ones: docs/what-can-go-wrong.md.

    python -m experiments.self_test_table run RESULTS.jsonl --logs 60
    python -m experiments.self_test_table show RESULTS.jsonl

The worlds are those of `experiments.simulator`, with two policies that are about equally good. The test for
hidden contexts needs a bias: a quick one by moments, or with --estimate-bias that of `rankloop bias`. `run`
appends a line per log and skips those that are in the file already; a seed is that of the log alone. `show`
prints the table: the share of logs with an alarm, 90 % intervals (Wilson), and the tests that found something
in at least a tenth of the logs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from experiments.command import run as run_command
from experiments.rows import Row, append_row, read_rows
from experiments.simulator import BROKEN, DOCUMENTS, QUERIES, RANKS, SLIGHT, SOUND, unlike
from rankloop.bias import BiasOptions, estimate_bias
from rankloop.errors import DataError
from rankloop.evidence.self_test import SelfTest, self_test
from rankloop.statistics import Counts
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.intervals import wilson
from rankloop.types import Bias

SIZES = (10_000, 3_000)
# A test is named in the table if it found something in this share of the logs.
NAMED = 0.1
WORLDS = SOUND | BROKEN | SLIGHT


def table_of(world: str, rng: np.random.Generator, impressions: int) -> ImpressionTable:
    """A log of a world."""
    return WORLDS[world].log(rng, policies=unlike, impressions=impressions).table


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
    table = table_of(
        world, np.random.default_rng([seed, impressions, list(WORLDS).index(world)]), impressions
    )
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
