"""The monitor of the live service: false rollbacks at equal worth, and pages until harm is undone.

    python -m experiments.live_monitor quiet STREAMS FILE     # resumes; a million pages per stream
    python -m experiments.live_monitor turn STREAMS FILE      # resumes
    python -m experiments.live_monitor show FILE

Two queries come equally often, each with six documents, of which three are shown. What is live ranks well and
the holdout not so well, by so much that their clicks differ by a given share; in quiet worlds both are worth
the same, and differ in every list. In `turn`, preferences change after 20,000 pages, such that the holdout is
better by that share from then on. Users click by position and trust (affine), stop after a click (cascade),
or click only one of two documents that replace each other (substitution).

In `turn`, the holdout is the same ranker, softer, or (`far`) one that also prefers other documents.

The monitor has two steps, as in the service: a detector warns, and both policies get equal shares; then bets
on lists roll back, or restore the shares and let the detector begin anew, at the latest after 200,000 pages.
"""

from __future__ import annotations

import itertools
import sys
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from experiments.rows import Row, append_row, read_rows
from rankloop.policies import log_probability
from rankloop.statistics import Bets, Detector
from rankloop.types import Float64
from rankloop.value.lists import list_differences, list_ranges, log_ratio_range

DOCUMENTS, RANKS, PAGES, BATCH, TURN = 6, 3, 1_000_000, 500, 20_000
QUIET_BATCH = 10_000
PAGES_PER_ALARM, COMPARISON, LEVEL = 1e6, 200_000, 0.05
RELEVANCE = np.array([0.6, 0.5, 0.35, 0.25, 0.15, 0.05])
LISTS = np.array(list(itertools.permutations(range(DOCUMENTS), RANKS)))
USERS = ("affine", "cascade", "substitution")
HOLDOUTS = (0.02, 0.05, 0.1)
# By how much the holdout is better after the turn, as a share of the clicks of what is live.
LOSSES = (0.6, 0.12, 0.03)
LONGEST = 1_000_000


@cache
def _chances_of(scores: tuple[float, ...]) -> Float64:
    offsets = np.arange(len(LISTS) + 1) * DOCUMENTS
    result: Float64 = np.exp(log_probability(np.tile(scores, len(LISTS)), offsets, LISTS))
    return result


def list_chances(scores: Float64) -> Float64:
    """The probability of every list under a policy."""
    return _chances_of(tuple(scores.tolist()))


def click_chances(users: str, relevance: Float64) -> Float64:
    """The distribution of the number of clicks on every list: lists × (RANKS + 1)."""
    chances = np.zeros((len(LISTS), RANKS + 1))
    for row, shown in enumerate(LISTS):
        for pattern in itertools.product([0, 1], repeat=RANKS):
            probability, stopped = 1.0, False
            for rank, clicked in enumerate(pattern):
                chance = relevance[shown[rank]] * (0.9, 0.6, 0.45)[rank] + (0.1, 0.05, 0.03)[rank]
                if users == "cascade":
                    chance = 0.0 if stopped else relevance[shown[rank]]
                elif users == "substitution":
                    # Documents 0 and 1 are alike, and so are 2 and 3, and 4 and 5: nobody needs both.
                    twins = {*(shown[:rank] // 2)[np.array(pattern[:rank], bool)]}
                    chance = 0.05 if shown[rank] // 2 in twins else chance
                probability *= chance if clicked else 1.0 - chance
                stopped = stopped or bool(clicked)
            chances[row, sum(pattern)] += probability
    return chances


def worth(scores: Float64, clicks: Float64) -> float:
    """The mean clicks per page of a policy."""
    return float(list_chances(scores) @ clicks @ np.arange(RANKS + 1))


class World:
    """Pages of a mixture of what is live and a holdout.

    Args:
        users: how users click.
        holdout: the share of the holdout.
        loss: by how much the holdout is better after the turn; 0 for equal worth throughout.
        far: whether the holdout prefers other documents, too.
    """

    def __init__(self, users: str, holdout: float, loss: float, *, far: bool = False) -> None:
        self.shares = (1.0 - holdout, holdout)
        good = 6.0 * RELEVANCE
        before = click_chances(users, RELEVANCE)
        if loss == 0.0:
            # The other query is the same with the documents in another order: both policies rank one of the
            # two well, and the other one upside down.
            self.before = [(good, good[::-1], before), (good[::-1], good, before)]
            self.after = self.before
            return
        # What is live ranked well; then users like the opposite, and the holdout is better by the loss.
        after = click_chances(users, RELEVANCE[::-1])
        value = worth(good, after)
        tastes = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]) if far else np.zeros(DOCUMENTS)
        grid = np.linspace(-2.0, 3.0, 51)
        worths = np.array([worth(good * x + tastes, after) for x in grid])
        aim = value / (1.0 - min(loss, 1.0 - value / worths.max() - 1e-6))
        # Between what is worth least and what is worth most.
        ends = grid[[worths.argmin(), worths.argmax()]]
        softness = brentq(lambda x: worth(good * x + tastes, after) - aim, *ends)
        other = good * softness + tastes
        self.before, self.after = [(good, other, before)], [(good, other, after)]
        self.loss = 1.0 - value / worth(other, after)

    @property
    def turns(self) -> bool:
        """Whether what is live is as good as the holdout, or better, until it turns."""
        return all(worth(live, clicks) >= worth(other, clicks) for live, other, clicks in self.before)

    def pages(
        self, rng: np.random.Generator, count: int, shares: tuple[float, float], *, turned: bool
    ) -> tuple[Float64, Float64, Float64]:
        """What each page says about what is live minus the holdout, and its largest loss and gain."""
        queries = self.after if turned else self.before
        query = rng.integers(len(queries), size=count)
        result, losses, gains = np.zeros(count), np.zeros(count), np.zeros(count)
        for number, (live, other, clicks) in enumerate(queries):
            rows = np.flatnonzero(query == number)
            by_live, by_other = list_chances(live), list_chances(other)
            mixture = shares[0] * by_live + shares[1] * by_other
            shown = rng.choice(len(LISTS), size=len(rows), p=mixture / mixture.sum())
            amounts = (rng.random(len(rows))[:, None] > np.cumsum(clicks[shown], axis=1)).sum(axis=1)
            logs = [np.log(each[shown]) for each in (by_live, by_other, mixture)]
            # What pages had before the turn: a guess that is made before each page.
            usual = float(np.mean([list_chances(a) @ c @ np.arange(RANKS + 1) for a, _, c in self.before]))
            result[rows] = list_differences(np.minimum(amounts, RANKS).astype(float), *logs, guessed=usual)
            ratios = log_ratio_range(live, other, RANKS)
            losses[rows], gains[rows] = list_ranges(*shares, RANKS, guessed=usual, log_ratios=ratios)
        return result, losses, gains


def stream(users: str, holdout: float, loss: float, seed: int, *, far: bool) -> Row:
    """One stream: when it first warned after the turn, when it rolled back, and how often it warned."""
    rng = np.random.default_rng([seed, USERS.index(users), int(1e4 * holdout)])
    world, detector, bets = World(users, holdout, loss, far=far), Detector(PAGES_PER_ALARM), None
    most = PAGES if loss == 0.0 else TURN + LONGEST
    count, early, warned, warnings, rolled_back = 0, 0, None, 0, None
    while count < most and rolled_back is None:
        turned = count >= TURN
        shares = world.shares if bets is None else (0.5, 0.5)
        batch = QUIET_BATCH if loss == 0.0 else BATCH
        values, losses, gains = world.pages(rng, batch, shares, turned=turned)
        count += batch
        if bets is None:
            detector = detector.add(-values, gains)
            if detector.alarms:
                warnings, bets = warnings + 1, (Bets(), Bets())
                early += not turned
                warned = count if turned and warned is None else warned
            continue
        bets = bets[0].add(values, losses), bets[1].add(-values, gains)
        if bets[1].decides(LEVEL):
            rolled_back = count
        elif bets[0].decides(LEVEL) or bets[0].count >= COMPARISON:
            detector, bets = Detector(PAGES_PER_ALARM), None
    return {
        "users": users,
        "holdout": holdout,
        "loss": loss,
        "far": far,
        "seed": seed,
        "early": early,
        "warned": warned,
        "warnings": warnings,
        "rolled_back": rolled_back,
    }


def main(action: str, *arguments: str) -> None:
    """Run streams, or show what they gave."""
    path = Path(arguments[-1])
    known = read_rows(path)
    if action == "show":
        show(known)
        return
    done = {(row["users"], row["holdout"], row["loss"], row["far"], row["seed"]) for row in known}
    losses = (0.0,) if action == "quiet" else LOSSES
    far = (False,) if action == "quiet" else (False, True)
    for seed in range(int(arguments[0])):
        for world in itertools.product(USERS, HOLDOUTS, losses, far):
            if (*world, seed) not in done and World(*world[:3], far=world[3]).turns:
                append_row(path, stream(*world[:3], seed, far=world[3]))


def show(rows: list[Row]) -> None:
    """Print one line per world."""
    names = ("far", "loss", "users", "holdout")
    for world in sorted({tuple(row[name] for name in names) for row in rows}, key=str):
        own = [row for row in rows if tuple(row[name] for name in names) == world]
        far, loss, users, holdout = world
        undone = [row for row in own if row["rolled_back"] is not None]
        if loss == 0.0:
            warnings = sum(row["warnings"] for row in own)
            print(
                f"| {users} | {holdout:.0%} | {warnings} warnings and {len(undone)} rollbacks in {len(own)} "
                f"streams of 10⁶ pages |"
            )
            continue
        cells = []
        for name in ("warned", "rolled_back"):
            waits = np.sort([np.inf if row[name] is None else row[name] - TURN for row in own])
            low, middle, high = (waits[int(q * (len(waits) - 1))] for q in (0.1, 0.5, 0.9))
            cells.append(f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]")
        early = sum(row["early"] for row in own)
        kind = "far" if far else "near"
        print(
            f"| {users} | {kind} | {holdout:.0%} | {loss:.0%} | {cells[0]} | {cells[1]} | {early} | "
            f"{len(own)} |"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
