"""How often decisions are right, in sound worlds and in broken ones: the table of docs/results/decisions.md.

    python -m experiments.decision_table run RESULTS.jsonl --logs 200
    python -m experiments.decision_table run RESULTS.jsonl --logs 60 --worlds "fit on noise"
    python -m experiments.decision_table show RESULTS.jsonl

Each log is written to disk, opened, and asked what a user asks: the self-test, the bias, and comparisons with
the policy in production, by DCG and by clicks. The truth is that of the simulator (`experiments.simulator`):
clicks are counted while a policy serves all the traffic of a large log of other queries.

| policy | what it is | true difference |
|---|---|---|
| equal | the variant that served: production's scores, permuted among equally relevant documents | 0 |
| balanced | a table of scores that never served: better documents, the best of them last | 0 |
| better | a table of scores that never served: better documents, the best of them first | more clicks |

How much better the documents are is found by bisection, for each world and metric. "equal" and "balanced" are
called better or worse falsely; "better" gives the power; intervals of all three should hold the truth. DCG is
that of relevance on the scale of the estimated bias; where users do not click on each document for itself
(cascades and the like) there is no such scale, and coverage is of clicks alone. A log of deterministic
policies has no candidates: there, tables reorder what was shown.

A fit on noise has features that know nothing, as production does, so that it is as good as production; a fit
on features that tell something is compared with what it earns on 3,000 other queries.

`run` appends a line per log and skips those that are in the file already. `show` prints the table, with 90 %
intervals of shares (Wilson); the answers about one log depend on each other, and count as one there. An aim
is surely missed if the whole interval is beyond it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.command import run as run_command
from experiments.rows import Row, append_row, read_rows
from experiments.simulated_users import affine
from experiments.simulator import (
    BROKEN,
    HOSTILE,
    SHAPES,
    SOUND,
    UNLISTED,
    WORSE,
    Ranker,
    World,
    equals,
    ignorant,
    score_table,
    scores_of,
)
from rankloop import RankloopError, open_log
from rankloop.bias import BiasEstimate, BiasOptions
from rankloop.logs.engines import Engine, engine
from rankloop.offline import Comparison, Log
from rankloop.offline.assumptions import assume_bias, self_test_of
from rankloop.statistics.intervals import wilson
from rankloop.types import Float64

FITS: dict[str, World] = {"fit on noise": World(affine), "fit on telling features": World(affine)}
WORLDS = SOUND | SHAPES | BROKEN | WORSE | HOSTILE | UNLISTED | FITS
# Where an alarm is false.
CLEAN = (*SOUND, *SHAPES, *FITS, "12 policies in parallel", "8 queries")
# Users who do not click on each document for itself: they have no curve, and relevance has no scale.
CURVELESS = ("cascade", "dependent clicks (DCM)", "substitution", "one pick per list")
METRICS = ("dcg", "clicks")
# What is asked about each log: a policy, and a metric.
ASKED = ("equal dcg", "balanced dcg", "balanced clicks", "better dcg")
# By what share the better policy earns more clicks.
GAIN, REORDERING_GAIN = 0.03, 0.06
COUNTED = 100_000
STEPS = 10
FEATURES = 5
# The aims: the shares of false firm words and of alarms on clean logs, and the least coverage of intervals.
MOST_FALSE, MOST_ALARMS, COVERAGE = 0.06, 0.02, 0.86
# A truth that was counted has an error of about this size.
ROUNDING = 0.003


def mirrored(follows: float, ranks: int) -> Ranker:
    """A policy that chooses documents by how much it follows relevance, and shows the best of them last."""

    def rank(rng: np.random.Generator, relevance: Float64) -> Float64:
        place = np.argsort(np.argsort(-scores_of(rng, relevance, follows), axis=1), axis=1)
        return 1e3 * np.where(place < ranks, place, -place).astype(np.float64)

    return rank


def following(follows: float, _ranks: int) -> Ranker:
    """A policy that follows relevance."""
    return lambda rng, relevance: 1e6 * scores_of(rng, relevance, follows)


FAMILIES = {"balanced": mirrored, "better": following}


def dcg(relevance: Float64) -> float:
    """The sum of relevances by rank, each over log₂(rank + 1)."""
    return float(relevance @ (1.0 / np.log2(np.arange(2.0, len(relevance) + 2.0))))


def earned(world: World, policy: Ranker) -> Float64:
    """The dcg and the clicks of a table of scores, as an evaluation understands it."""
    reranks = scores_of if world.deterministic else None
    clicks, relevance = world.counted(policy, COUNTED, reranks=reranks)
    return np.array([dcg(relevance), clicks])


def truths(world: World) -> Row:
    """How much policies follow relevance so that they have the differences that they should have."""
    clicks, relevance = world.counted(scores_of, COUNTED)
    usual = np.array([dcg(relevance), clicks])
    row: Row = {"production": usual.tolist()}
    # A table that only reorders what was shown hardly changes clicks: it earns more relevance instead.
    reorders = world.deterministic or world.apart
    of_better = METRICS.index("dcg" if reorders else "clicks")
    gain = (REORDERING_GAIN if reorders else GAIN) * float(usual[of_better])
    for family, metric, place, goal in (
        ("balanced", "dcg", 0, 0.0),
        ("balanced", "clicks", 1, 0.0),
        ("better", "clicks", of_better, gain),
    ):
        low, high = -1.0, 4.0
        difference = np.zeros(2)
        for _ in range(STEPS):
            middle = (low + high) / 2.0
            difference = earned(world, FAMILIES[family](middle, world.ranks)) - usual
            low, high = (middle, high) if difference[place] < goal else (low, middle)
        row[f"{family} {metric}"] = [middle, *difference.tolist()]
    alpha, beta = world.lines(2 * COUNTED)
    return {**row, "alpha": alpha.tolist(), "beta": beta.tolist()}


def tuned_by(family: str, metric: str) -> str:
    """What makes a policy of a family have the difference that it should have."""
    return f"{family} {metric if family == 'balanced' else 'clicks'}"


def generator(world: str, seed: int) -> np.random.Generator:
    """That of one log, whatever other worlds there are."""
    return np.random.default_rng([seed, *world.encode()])


def said(compare: Callable[[], Comparison]) -> list[object]:
    """What an evaluation says: the word, the difference, its interval, and why it is not firm."""
    try:
        found = compare()
    except RankloopError as error:
        return ["refused", 0.0, 0.0, 0.0, [str(error)]]
    gain = found.difference.estimate
    numbers = [round(value, 5) for value in (gain.value, gain.low, gain.high)]
    return [str(found.decision.kind), *numbers, list(found.decision.reasons)]


def scale_of(estimate: BiasEstimate, known: Row) -> tuple[float, float]:
    """The relevances that count as 0 and 1 on the scale of an estimate, by the average user's curve."""
    alpha, beta = np.array(known["alpha"]), np.array(known["beta"])
    high, low = estimate.anchor.high - 1, estimate.anchor.low - 1
    return -beta[low] / alpha[low], (1.0 - beta[high]) / alpha[high]


def bias_row(estimate: BiasEstimate, known: Row) -> Row:
    """Whether the intervals of α hold the average user's, and the scale of relevance."""
    zero, one = scale_of(estimate, known)
    row: Row = {"scale": round(float(one - zero), 5)}
    if estimate.alpha is not None:
        real = (np.array(known["alpha"]) * (one - zero))[: estimate.bias.positions]
        held = (estimate.alpha.low - ROUNDING <= real) & (real <= estimate.alpha.high + ROUNDING)
        row["held"] = held.tolist()
    return row


class WarmLog(Log):
    """A log whose engine runs on: starting one takes a third of the time of a small log."""

    def open_engine(self) -> AbstractContextManager[Engine]:
        """The engine of all logs of this process."""
        return nullcontext(warm_engine())


RUNNING = ExitStack()


@cache
def warm_engine() -> Engine:
    """An engine that runs until the process ends."""
    return RUNNING.enter_context(engine())


def open_warm(folder: Path) -> WarmLog:
    """Open a log."""
    opened = open_log(folder)
    return WarmLog(opened.folder, opened.tables, opened.starts, opened.randomised, opened.pinned)


def found_by_self_test(log: Log, estimate: BiasEstimate | None) -> list[str]:
    """The alarms of the self-test."""
    found = self_test_of(log, None if estimate is None else assume_bias(log, estimate))
    return [] if found is None else [test.name for test in found.found]


def row_of(world: str, seed: int, known: Row, impressions: int = 0) -> Row:
    """What is said about one log."""
    place, rng = WORLDS[world], generator(world, seed)
    simulated = place.log(rng, policies=equals, impressions=impressions)
    row: Row = {"world": world, "seed": seed}
    with tempfile.TemporaryDirectory() as scratch:
        log = open_warm(simulated.write(Path(scratch) / "log"))
        try:
            estimate: BiasEstimate | None = log.estimate_bias(BiasOptions(held_out=False), seed=seed)
        except RankloopError as error:
            estimate, row["refused"] = None, str(error)
        row["alarms"] = found_by_self_test(log, estimate)
        if estimate is None:
            return row
        row |= bias_row(estimate, known)
        evaluate = partial(log.evaluate, against="production", bias=estimate)
        for column in ASKED:
            family, metric = column.split()
            policy: str | Path = "variant"
            if family in FAMILIES:
                follows = known[tuned_by(family, metric)][0]
                policy = Path(scratch) / f"{family}-{metric}.parquet"
                scores = FAMILIES[family](follows, place.ranks)(
                    np.random.default_rng([seed, 23]), simulated.traffic.queries.relevance
                )
                pq.write_table(pa.table(score_table(place.masked(scores, 0))), policy)
            row[column] = said(partial(evaluate, policy, metric=metric))
    return row


def features_of(rng: np.random.Generator, relevance: Float64, *, informed: bool) -> Float64:
    """Features of documents, of noise or of relevance with noise."""
    noise = rng.normal(size=(*relevance.shape, FEATURES))
    return noise + (2.0 * relevance[:, :, None] * (np.arange(FEATURES) < 2) if informed else 0.0)


def fit_row(world: str, seed: int) -> Row:
    """What is said about a ranker that was fitted to a log."""
    place, rng, informed = WORLDS[world], generator(world, seed), world == "fit on telling features"
    simulated = place.log(rng, policies=equals if informed else ignorant)
    features = features_of(rng, simulated.traffic.queries.relevance, informed=informed)
    row: Row = {"world": world, "seed": seed}
    with tempfile.TemporaryDirectory() as scratch:
        log = open_warm(simulated.write(Path(scratch) / "log", features))
        estimate = log.estimate_bias(BiasOptions(held_out=False), seed=seed)
        row["alarms"] = found_by_self_test(log, estimate)
        fit = log.fit("lightgbm", bias=estimate, seed=seed)
        row |= bias_row(estimate, curve(world))
        assert fit.comparison is not None
        compared = fit.comparison
        row["fit dcg"] = said(lambda: compared)
    if informed:

        def rank(_rng: np.random.Generator, relevance: Float64) -> Float64:
            other = features_of(np.random.default_rng([seed, 29]), relevance, informed=True)
            scores = fit.model.scores(other.reshape(-1, FEATURES).astype(np.float32))
            return 1e6 * np.asarray(scores).reshape(relevance.shape)

        clicks, relevance = place.counted(rank, COUNTED)
        usual, shown = place.counted(scores_of, COUNTED)
        row["fit truth"] = [dcg(relevance) - dcg(shown), clicks - usual]
    return row


@cache
def curve(world: str) -> Row:
    """α and β of the average user."""
    alpha, beta = WORLDS[world].lines(2 * COUNTED)
    return {"alpha": alpha.tolist(), "beta": beta.tolist()}


def run(path: Path, logs: int, worlds: Iterable[str], first: int = 0) -> None:
    """Add the rows that are not in the file."""
    rows = read_rows(path)
    done = {(row["world"], row["seed"]) for row in rows}
    known = {row["world"]: row for row in rows if row["seed"] is None}
    for seed in range(first, first + logs):
        for world in worlds:
            if (world, seed) in done:
                continue
            if world in FITS:
                append_row(path, fit_row(world, seed))
                continue
            if world not in known:
                known[world] = {"world": world, "seed": None, **truths(WORLDS[world])}
                append_row(path, known[world])
            append_row(path, row_of(world, seed, known[world]))


# --- the table ---------------------------------------------------------------------------------------------


def share(count: int, of: int, logs: int) -> str:
    """A share with its interval."""
    if not of:
        return "–"
    low, high = interval(count, of, logs)
    return f"{100 * count / of:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def interval(count: int, of: int, logs: int) -> tuple[float, float]:
    """The 90 % interval of a share, as if all answers about a log were one: they depend on each other."""
    few = min(of, logs)
    return wilson(round(few * count / of), few)


def answers(rows: list[Row], *columns: str) -> list[list]:
    """What was said in these columns."""
    return [row[column] for row in rows for column in columns if column in row]


def truth_of(row: Row, column: str, known: Row) -> float | None:
    """The true difference, on the scale of the answer; None if there is none."""
    family, metric = column.split()
    if metric == "dcg" and row["world"] in CURVELESS:
        return None
    scale = 1.0 / row["scale"] if metric == "dcg" else 1.0
    if family == "equal" or (family == "fit" and "fit truth" not in row):
        return 0.0
    if family == "fit":
        return float(row["fit truth"][METRICS.index(metric)] * scale)
    tuned = known[tuned_by(family, metric)]
    return float(tuned[1 + METRICS.index(metric)] * scale)


class Tally(NamedTuple):
    """What was said about the logs of one world, or of several.

    Attributes:
        logs: how many logs.
        words: comparisons of policies that are equal.
        better: how many of them were falsely called better.
        worse: how many were falsely called worse.
        covered: comparisons with a known truth, and how many intervals held it.
        found: comparisons of better policies, and how many were called better.
        alarms: logs with an alarm.
        ranks: ranks with a known α, and how many intervals held it.
    """

    logs: int = 0
    words: int = 0
    better: int = 0
    worse: int = 0
    covered: tuple[int, int] = (0, 0)
    found: tuple[int, int] = (0, 0)
    alarms: int = 0
    ranks: tuple[int, int] = (0, 0)

    def cells(self) -> list[str]:
        """The cells of a line of the table: shares in percent."""
        return [
            str(self.logs),
            *(
                share(count, of, self.logs)
                for count, of in (
                    (self.better, self.words),
                    (self.worse, self.words),
                    self.covered[::-1],
                    self.found[::-1],
                    (self.alarms, self.logs),
                    self.ranks[::-1],
                )
            ),
        ]


def tally(world: str, rows: list[Row], known: Row) -> Tally:
    """What was said about the logs of a world."""
    zeros = ["fit dcg"] if world == "fit on noise" else [name for name in ASKED if "better" not in name]
    # Where no such policy is equal to production, one of both words is true.
    right = {name: true_word(name, known) for name in zeros}
    better, worse = (
        sum(row[name][0] == word != right[name] for row in rows for name in zeros if name in row)
        for word in ("better", "worse")
    )
    held = total = 0
    for row in rows:
        for column in row:
            if column.split()[0] not in ("equal", "balanced", "better", "fit") or column == "fit truth":
                continue
            real = truth_of(row, column, known)
            if real is not None and row[column][0] != "refused":
                held += row[column][2] - ROUNDING <= real <= row[column][3] + ROUNDING
                total += 1
    improved = answers(rows, "better dcg", *(["fit dcg"] if world == "fit on telling features" else []))
    # The curve of an average list is not that of the lists that are long enough to have a rank.
    curved = world not in CURVELESS and not WORLDS[world].shortest
    ranks = [value for row in rows for value in row.get("held", [])[1:]] if curved else []
    return Tally(
        len(rows),
        len(answers(rows, *zeros)),
        better,
        worse,
        (total, held),
        (len(improved), sum(answer[0] == "better" for answer in improved)),
        sum(bool(row["alarms"]) for row in rows),
        (len(ranks), sum(ranks)),
    )


def together(tallies: Iterable[Tally]) -> Tally:
    """The sum over worlds."""
    parts = list(tallies)
    pairs = {
        name: (sum(getattr(one, name)[0] for one in parts), sum(getattr(one, name)[1] for one in parts))
        for name in ("covered", "found", "ranks")
    }
    numbers = {
        name: sum(getattr(one, name) for one in parts)
        for name in ("logs", "words", "better", "worse", "alarms")
    }
    return Tally(**numbers, **pairs)


def missed_by(world: str, found: Tally) -> str:
    """The aims that a world misses surely: the whole 90 % interval of the share is beyond the aim."""
    misses = []
    for count, text in ((found.better, "false better"), (found.worse, "false worse")):
        if found.words and interval(count, found.words, found.logs)[0] > MOST_FALSE:
            misses.append(text)
    if world in CLEAN and interval(found.alarms, found.logs, found.logs)[0] > MOST_ALARMS:
        misses.append("alarms")
    for (total, held), text in ((found.covered, "coverage"), (found.ranks, "α")):
        if total and interval(held, total, found.logs)[1] < COVERAGE:
            misses.append(text)
    return ", ".join(misses) or "–"


def true_word(column: str, known: Row) -> str:
    """What is true of a policy that should be equal."""
    family, metric = column.split()
    if family not in FAMILIES or not known:
        return ""
    difference = known[tuned_by(family, metric)][1 + METRICS.index(metric)]
    return "" if abs(difference) <= 2 * ROUNDING else "better" if difference > 0.0 else "worse"


HEAD = (
    "world", "logs", "false better", "false worse", "coverage", "power", "alarms", "α held", "surely missed",
)  # fmt: skip
GROUPS: dict[str, tuple[str, ...]] = {
    "sound worlds": CLEAN,
    "users or demand change": tuple(
        name for name in WORLDS if name.startswith(("demand", "users change", "robots from", "clicks lost"))
    ),
    "clicks depend on other documents": CURVELESS,
    "all worlds": tuple(WORLDS),
}


def show(path: Path, *, details: bool) -> None:
    """Print the table."""
    rows = read_rows(path)
    known = {row["world"]: row for row in rows if row["seed"] is None}
    logs = {
        world: mine
        for world in WORLDS
        if (mine := [row for row in rows if row["world"] == world and row["seed"] is not None])
    }
    tallies = {world: tally(world, mine, known.get(world, {})) for world, mine in logs.items()}
    print("|", " | ".join(HEAD), "|")
    print("|---" * len(HEAD) + "|")
    for world, found in tallies.items():
        print("|", " | ".join([world, *found.cells(), missed_by(world, found)]), "|")
    for group, worlds in GROUPS.items():
        cells = together(found for world, found in tallies.items() if world in worlds).cells()
        print("|", " | ".join([f"**{group}**", *cells, "–"]), "|")
    if details:
        for world, mine in logs.items():
            print_details(world, mine, known.get(world, {}))


def print_details(world: str, rows: list[Row], known: Row) -> None:
    """Print every column of a world: words, reasons, mean error, and coverage."""
    print(f"\n{world}: {json.dumps(known.get('production'))}")
    refused = Counter(row["refused"][:150] for row in rows if "refused" in row)
    for text, count in refused.items():
        print(f"  bias refused {count}: {text}")
    print("  alarms:", dict(Counter(name for row in rows for name in row["alarms"])))
    columns = [f"{family} {metric}" for family in ("equal", *FAMILIES, "fit") for metric in METRICS]
    for column in columns:
        said_of = [(row, row[column]) for row in rows if column in row]
        if not said_of:
            continue
        kinds = dict(Counter(answer[0] for _, answer in said_of))
        reasons = dict(Counter(reason[:60] for _, answer in said_of for reason in answer[4]))
        pairs = [(truth_of(row, column, known), answer) for row, answer in said_of if answer[0] != "refused"]
        pairs = [pair for pair in pairs if pair[0] is not None]
        numbers = ""
        if pairs:
            errors = np.array([answer[1] - real for real, answer in pairs])
            width = np.mean([answer[3] - answer[2] for _, answer in pairs]) / 2.0
            held = np.mean([answer[2] <= real <= answer[3] for real, answer in pairs])
            numbers = (
                f"truth {np.mean([real for real, _ in pairs]):+.4f} error {errors.mean():+.4f} "
                f"sd {errors.std():.4f} half width {width:.4f} held {held:.0%}"
            )
        false_seeds = [row["seed"] for row, answer in said_of if answer[0] in ("better", "worse")][:5]
        print(f"  {column}: {kinds} {reasons} {numbers} firm in seeds {false_seeds}")


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.decision_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("path", type=Path)
    runs.add_argument("--logs", type=int, default=200)
    runs.add_argument("--first", type=int, default=0, help="the first seed")
    runs.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS), metavar="WORLD")
    shows = commands.add_parser("show")
    shows.add_argument("path", type=Path)
    shows.add_argument("--details", action="store_true", help="every comparison of every world")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.path, arguments.logs, arguments.worlds, arguments.first)
    else:
        show(arguments.path, details=arguments.details)


if __name__ == "__main__":
    run_command(main)
