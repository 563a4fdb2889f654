"""Servers and learners in processes of their own, to be killed at any moment.

One process imports everything and forks whatever the tests ask for, so that a start costs milliseconds:

    server PORT     a server
    learner         a learner that seals, learns, and deploys by itself, from clicks of hardly any evidence

It answers each line with the id of the new process, and kills all of them when its input ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from rankloop.live import ServiceSettings, build_server, open_store, prepare
from rankloop.live.learner import learning
from rankloop.live.learner.process import run_learner
from rankloop.live.learner.settings import LearnerSettings
from rankloop.policies import draw_ranking

WINDOW = 1.0
LEARNING = LearnerSettings(
    deploy="auto",
    model="linear",
    learning="robust",
    bias="paper@3",
    window=WINDOW,
    every=0.1,
    least=10,
    growth=1.1,
    level=0.9,
    canary=0.3,
    canary_impressions=10,
)
# As long as a step takes, about: the next learner need not wait for the lease of one that was killed.
LEASE_SECONDS = 0.4


def serve(location: str, log: Path, port: int) -> None:
    """Serve until killed."""
    store = open_store(location, log=log)
    prepare(store)
    settings = ServiceSettings(top=3, model_seconds=30.0, request_seconds=30.0)
    build_server(store, settings, port=port, names=("a",)).run()


def learn(location: str, log: Path) -> None:
    """Learn until killed."""
    store = open_store(location, log=log)
    run_learner(store, LEARNING, lease_seconds=LEASE_SECONDS, tell=lambda _: None)


def start(kind: str, location: str, log: Path, arguments: Sequence[str]) -> int:
    """Fork a process, and return its id."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if kind == "server":
            serve(location, log, int(arguments[0]))
        else:
            learn(location, log)
    finally:
        os._exit(1)


def main(location: str, log: str) -> None:
    """Do what the input says until it ends."""
    assert threading.active_count() == 1, "a fork copies one thread only"
    assert learning, "what a learner loads late is loaded before any fork"
    draw_ranking(np.zeros(2), 1, 0)  # so that no server has to load the kernels
    # Children that ended are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    for line in sys.stdin:
        kind, *arguments = line.split()
        children.append(start(kind, location, Path(log), arguments))
        sys.stdout.write(f"{children[-1]}\n")
        sys.stdout.flush()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
