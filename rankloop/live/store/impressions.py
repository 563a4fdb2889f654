"""Impressions in a store: everything from which the propensity of what was shown follows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select

from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.rules import place
from rankloop.live.store.database import insert_new
from rankloop.live.store.policies import load_numbered, load_stored_policy
from rankloop.live.store.tables import deployments, impressions, problems, scorings
from rankloop.policies import draw_ranking, log_probability
from rankloop.types import Float64, Int64

# How long a process remembers which problems are stored. Rows of impressions, and with them their problems,
# are kept for much longer than this.
REMEMBERED_SECONDS = 300.0
REMEMBERED = 100_000
# The rules of a request, as they are stored with its impression.
PINS, EXCLUDE, FILTERS = RULES = "pins", "exclude", "filters"


@dataclass(frozen=True, eq=False)
class Served:
    """What was shown to a user.

    Attributes:
        id: identifies the impression.
        time: when, in seconds since 1970.
        problem: what was to be ranked, after the rules were applied.
        policy: the policy that ranked.
        deployment: the number of the deployment that it was part of.
        seed: what the ranking was drawn with.
        drawn: int64; numbers of the problem's documents in the order in which they were drawn.
        scores: float64, candidates; what the ranking was drawn from. None if it was not drawn.
        top: the number of positions.
        pins: documents with a fixed position, by position.
        rules: the rules of the request, for the record.
        context: what the request said about the user or the page.
    """

    id: str
    time: float
    problem: RankingProblem
    policy: LivePolicy
    deployment: int
    seed: int
    drawn: Int64
    scores: Float64 | None
    top: int
    pins: Mapping[int, str]
    rules: Mapping[str, Any]
    context: Mapping[str, Any]

    @cached_property
    def shown(self) -> dict[int, str]:
        """Documents by position."""
        documents = self.problem.documents
        return place([documents[number] for number in self.drawn], self.pins, self.top)

    @property
    def log_probability(self) -> float:
        """The log of the probability that its policy draws this ranking: 0 if it is not drawn."""
        if self.scores is None or not len(self.drawn):
            return 0.0
        offsets = np.array([0, len(self.scores)])
        return float(log_probability(self.scores, offsets, self.drawn[None])[0])

    def answers(self, other: Served) -> bool:
        """Whether it answers the request of another one, too: the same query, candidates and rules.

        The policy, and with it the order of the candidates, may have changed between the two.
        """
        return self._asked == other._asked

    @property
    def _asked(self) -> tuple[str, list[str], int, dict[str, Any]]:
        rules = {name: value for name, value in self.rules.items() if name in RULES}
        return self.problem.query, sorted(self.problem.documents), self.top, rules

    def draw_again(self) -> Int64:
        """The ranking that follows from scores and seed: always the one that was shown."""
        if self.scores is None:
            return np.arange(len(self.drawn))
        return draw_ranking(self.scores, self.top - len(self.pins), self.seed)


class StoredProblems:
    """Remembers for a while which problems and scorings are in the store; used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: set[tuple[bytes, int]] = set()
        self._since = time.monotonic()

    def __contains__(self, key: tuple[bytes, int]) -> bool:
        with self._lock:
            if time.monotonic() - self._since > REMEMBERED_SECONDS or len(self._stored) > REMEMBERED:
                self._stored.clear()
                self._since = time.monotonic()
            return key in self._stored

    def add(self, key: tuple[bytes, int]) -> None:
        """Remember a problem and the policy that scored it, once both are committed."""
        with self._lock:
            self._stored.add(key)


def store_impression(
    connection: Connection, served: Served, *, stored: StoredProblems, repeatable: bool
) -> Served:
    """Store an impression; one whose id was stored before is returned as it was.

    Args:
        connection: within a transaction.
        served: the impression.
        stored: problems that need not be stored again.
        repeatable: whether the client chose the id, so that a request may be sent twice.
    """
    if repeatable:
        earlier = find_impression(connection, served.id)
        if earlier is not None:
            return earlier
    if (served.problem.id, served.policy.number) not in stored:
        insert_new(connection, problems, [served.problem.to_row()])
        # It stays until this transaction ends: retention deletes problems that no impression needs.
        connection.execute(
            select(problems.c.id)
            .where(problems.c.id == served.problem.id)
            .with_for_update(read=True, key_share=True)
        )
        if served.scores is not None:
            values = {
                "problem": served.problem.id,
                "policy": served.policy.number,
                "scores": served.scores.tobytes(),
            }
            insert_new(connection, scorings, [values])
    rules = {"top": served.top, **served.rules}
    connection.execute(
        _INSERT,
        {
            "id": served.id,
            "time": served.time,
            "problem": served.problem.id,
            "policy": served.policy.number,
            "deployment": served.deployment,
            "seed": served.seed,
            "drawn": served.drawn.astype(np.uint16).tobytes(),
            "rules": json.dumps(rules, ensure_ascii=False),
            "context": json.dumps(dict(served.context), ensure_ascii=False) if served.context else None,
        },
    )
    return served


_INSERT = insert(impressions)


def find_impression(connection: Connection, impression: str) -> Served | None:
    """The impression with an id; None if there is none."""
    row = (
        connection.execute(select(impressions).where(impressions.c.id == impression)).mappings().one_or_none()
    )
    if row is None:
        return None
    problem = connection.execute(select(problems).where(problems.c.id == row["problem"])).mappings().one()
    scores = connection.scalar(
        select(scorings.c.scores).where(
            scorings.c.problem == row["problem"], scorings.c.policy == row["policy"]
        )
    )
    rules = json.loads(row["rules"])
    return Served(
        row["id"],
        row["time"],
        RankingProblem.from_row(problem),
        load_numbered(connection, row["policy"]),
        row["deployment"],
        row["seed"],
        read_drawn(row["drawn"]),
        None if scores is None else np.frombuffer(scores),
        rules["top"],
        read_pins(rules),
        rules,
        json.loads(row["context"] or "{}"),
    )


def read_drawn(stored: bytes) -> Int64:
    """The numbers of the documents that were drawn, from their bytes."""
    return np.frombuffer(stored, np.uint16).astype(np.int64)


def read_pins(rules: Mapping[str, Any]) -> dict[int, str]:
    """Documents by position, from the rules of an impression."""
    return {int(position): document for position, document in rules.get(PINS, {}).items()}


def mixture_probability(connection: Connection, served: Served) -> float:
    """The probability of what was shown over all policies that were live with it.

    π(y) = Σ_p share_p · π_p(y)
    """
    if served.scores is None:
        return 1.0
    row = connection.execute(
        select(deployments.c.shares).where(deployments.c.number == served.deployment)
    ).scalar_one()
    total = 0.0
    for share in json.loads(row):
        policy = load_stored_policy(connection, share["policy"])
        scores = policy.scores(served.problem)
        offsets = np.array([0, len(scores)])
        total += share["share"] * float(np.exp(log_probability(scores, offsets, served.drawn[None])[0]))
    return total
