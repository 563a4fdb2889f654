"""What the live service deploys, from clicks that mean what they seem to, and from clicks that do not.

    python -m experiments.live_loops run honest 5 RESULTS.jsonl      # five loops; resumes
    python -m experiments.live_loops run inverted 5 RESULTS.jsonl
    python -m experiments.live_loops show RESULTS.jsonl

Each loop is the demonstration of `make live` without HTTP and without waiting: the service, the learner, and
users who click, all in one process. The start is the incoming order, which is noisy but knows something.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.live import RankRequest, Service, ServiceSettings, Store, open_store, prepare
from rankloop.live.demo import FEATURE_NAMES, LEARNING, ORDER_NOISE, USERS, shop
from rankloop.live.drive import Crowd, DriveOptions
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.store.database import read
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.policies import history

PAGES, BATCH, TOP = 10_000, 250, 5


class Caller:
    """A client without HTTP: impressions and events are written when the next batch begins."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.service = Service(
            store, ServiceSettings(top=TOP), rng=np.random.default_rng([seed, 1]), names=FEATURE_NAMES
        )
        self.events: list[UserEvent] = []

    def rank(self, query: str, candidates: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """Rank at once, and store it later."""
        asked = RankRequest(query, tuple(candidates), tuple(candidates.values()))
        served = self.service.serve(self.service.draft(asked), self.service.choose())
        self.stored = self.service.keep(served)
        return {
            "impression": served.id,
            "ranking": list(served.shown.values()),
            "policy": served.policy.name,
        }

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Remember clicks."""
        self.events += [UserEvent(one["impression"], one["document"]) for one in events]

    def flush(self) -> None:
        """Store everything, and serve what is deployed by now."""
        self.stored.result()
        with self.store.engine.begin() as connection:
            record_events(connection, self.events, time.time())
        self.events = []
        self.service.refresh()


def loop(world: str, seed: int) -> dict[str, Any]:
    """Run one loop, and say what was deployed after how many pages."""
    users = DriveOptions(USERS, inverted=world == "inverted", seed=seed, order_noise=ORDER_NOISE)
    crowd = Crowd(shop(seed), users)
    rng = np.random.default_rng([seed, 0])
    settings = LEARNING.model_copy(update={"window": 0.0})
    qualities, steps = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        prepare(store)
        caller, learner, known = Caller(store, seed), LiveLearner(store, settings), 1
        for pages in range(BATCH, PAGES + 1, BATCH):
            for _ in range(BATCH):
                crowd.visit(caller, rng)
            qualities.append(float(np.mean(list(crowd.result.quality)[-BATCH:])))
            caller.flush()
            learner.step()
            with read(store) as connection:
                made = history(connection, None)[::-1]
            for one in made[known:]:
                share = sum(each.share for each in one.shares if each.policy.startswith("learned"))
                steps.append({"pages": pages, "kind": one.kind, "learned": round(share, 4)})
            known = len(made)
            caller.service.refresh()
        caller.service.close()
        store.close()
    tenth = len(qualities) // 10
    return {
        "world": world,
        "seed": seed,
        "steps": steps,
        "first": np.mean(qualities[:tenth]),
        "last": np.mean(qualities[-tenth:]),
        "lowest": min(np.convolve(qualities, np.ones(tenth) / tenth, "valid")),
        "share": max([step["learned"] for step in steps], default=0.0),
    }


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per world."""
    for world in dict.fromkeys(row["world"] for row in rows):
        own = [row for row in rows if row["world"] == world]
        full = [
            min(s["pages"] for s in row["steps"] if s["kind"] == "full") for row in own if "full" in str(row)
        ]
        print(
            f"{world}: {len(own)} loops; NDCG@{TOP} {np.mean([row['first'] for row in own]):.4f} at first, "
            f"{np.mean([row['last'] for row in own]):.4f} at last; "
            f"largest share of learned policies {max(row['share'] for row in own):.2f}; "
            f"{len(full)} fully deployed, after {sorted(full)} pages"
        )


def main() -> None:
    """Run loops, or show what they gave."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.live_loops", description=__doc__.split("\n")[0]
    )
    commands = parser.add_subparsers(dest="action", required=True)
    run = commands.add_parser("run", help="run loops and append a row for each")
    run.add_argument("world", choices=("honest", "inverted"))
    run.add_argument("loops", type=int)
    run.add_argument("file", type=Path)
    commands.add_parser("show", help="sum up a file of rows").add_argument("file", type=Path)
    options = parser.parse_args()
    known = (
        [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    )
    if options.action == "show":
        show(known)
        return
    done = {(one["world"], one["seed"]) for one in known}
    with options.file.open("a") as file:
        for seed in range(options.loops):
            if (options.world, seed) not in done:
                file.write(json.dumps(loop(options.world, seed)) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
