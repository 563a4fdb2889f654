"""The monitor of the live service: false alarms at equal worth, and pages until harm is noticed.

    python -m experiments.live_monitor quiet STREAMS FILE     # resumes; a million pages per stream
    python -m experiments.live_monitor turn STREAMS FILE      # resumes
    python -m experiments.live_monitor show FILE

Two queries come equally often, each with six documents, of which three are shown. What is live ranks well and
the holdout not so well, by so much that their clicks differ by a given share; in quiet worlds both are worth
the same, and differ in every list. In `turn`, preferences change after 20,000 pages, such that the holdout is
better by that share from then on. Users click by position and trust (affine), stop after a click (cascade),
or click only one of two documents that replace each other (substitution).
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from rankloop.policies import log_probability
from rankloop.statistics import Detector
from rankloop.types import Float64
from rankloop.value.lists import list_differences

DOCUMENTS, RANKS, PAGES, BATCH, TURN = 6, 3, 1_000_000, 20_000, 20_000
PAGES_PER_ALARM = 1e6
RELEVANCE = np.array([0.6, 0.5, 0.35, 0.25, 0.15, 0.05])
LISTS = np.array(list(itertools.permutations(range(DOCUMENTS), RANKS)))
USERS = ("affine", "cascade", "substitution")
HOLDOUTS = (0.02, 0.05, 0.1)
# By how much the holdout is better after the turn, as a share of the clicks of what is live.
LOSSES = (0.6, 0.12, 0.03)
LONGEST = 1_000_000


def list_chances(scores: Float64) -> Float64:
    """The probability of every list under a policy."""
    offsets = np.arange(len(LISTS) + 1) * DOCUMENTS
    result: Float64 = np.exp(log_probability(np.tile(scores, len(LISTS)), offsets, LISTS))
    return result


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
    """

    def __init__(self, users: str, holdout: float, loss: float) -> None:
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
        best = worth(-good, after)

        aim = min(loss, 1.0 - value / best - 1e-6)
        softness = brentq(lambda x: worth(good * x, after) * (1.0 - aim) - value, -1.0, 1.0)
        other = good * softness
        self.before, self.after = [(good, other, before)], [(good, other, after)]
        self.loss = 1.0 - value / worth(other, after)

    def pages(self, rng: np.random.Generator, count: int, *, turned: bool) -> Float64:
        """What each of as many pages says about what is live minus the holdout."""
        queries = self.after if turned else self.before
        result = np.zeros(count)
        query = rng.integers(len(queries), size=count)
        for number, (live, other, clicks) in enumerate(queries):
            rows = np.flatnonzero(query == number)
            by_live, by_other = list_chances(live), list_chances(other)
            mixture = self.shares[0] * by_live + self.shares[1] * by_other
            shown = rng.choice(len(LISTS), size=len(rows), p=mixture / mixture.sum())
            amounts = (rng.random(len(rows))[:, None] > np.cumsum(clicks[shown], axis=1)).sum(axis=1)
            logs = [np.log(each[shown]) for each in (by_live, by_other, mixture)]
            result[rows] = list_differences(np.minimum(amounts, RANKS).astype(float), *logs)
        return result


def stream(users: str, holdout: float, loss: float, seed: int) -> dict[str, object]:
    """One stream: when it alarmed, if ever."""
    rng, world = (
        np.random.default_rng([seed, USERS.index(users), int(1e4 * holdout)]),
        World(users, holdout, loss),
    )
    detector, most = Detector(PAGES_PER_ALARM), PAGES if loss == 0.0 else TURN + LONGEST
    batch = BATCH if loss == 0.0 else 2_000
    alarm = None
    for begun in range(0, most, batch):
        values = world.pages(rng, batch, turned=begun >= TURN)
        detector = detector.add(-values, np.full(batch, RANKS / world.shares[0]))
        if detector.alarms:
            alarm = begun + batch
            break
    return {"users": users, "holdout": holdout, "loss": loss, "seed": seed, "alarm": alarm}


def main(action: str, *arguments: str) -> None:
    """Run streams, or show what they gave."""
    path = Path(arguments[-1])
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if action == "show":
        show(known)
        return
    done = {(one["users"], one["holdout"], one["loss"], one["seed"]) for one in known}
    losses = (0.0,) if action == "quiet" else LOSSES
    with path.open("a") as file:
        for seed in range(int(arguments[0])):
            for users, holdout, loss in itertools.product(USERS, HOLDOUTS, losses):
                if (users, holdout, loss, seed) not in done:
                    file.write(json.dumps(stream(users, holdout, loss, seed)) + "\n")
                    file.flush()


def show(rows: list[dict[str, object]]) -> None:
    """Print one line per world."""
    keys = sorted({(one["loss"], one["users"], one["holdout"]) for one in rows}, key=str)
    for loss, users, holdout in keys:
        own = [
            one["alarm"]
            for one in rows
            if (one["loss"], one["users"], one["holdout"]) == (loss, users, holdout)
        ]
        alarms = [each for each in own if each is not None]
        if loss == 0.0:
            print(f"{users:13} holdout {holdout:4.0%}: {len(alarms)} of {len(own)} streams alarmed")
            continue
        early = sum(each <= TURN for each in alarms)
        waits = np.sort([each - TURN if each is not None else np.inf for each in own])
        low, middle, high = (waits[int(q * (len(waits) - 1))] for q in (0.1, 0.5, 0.9))
        print(
            f"{users:13} holdout {holdout:4.0%}, {loss:.0%} worse: noticed after {middle:,.0f} pages "
            f"[{low:,.0f} to {high:,.0f}], {early} of {len(own)} before the turn"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
