"""A server and its learner in a process of their own, to be killed at any moment."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from rankloop.live import ServiceSettings, build_server, open_store, prepare
from rankloop.live.learner.process import run_learner
from rankloop.live.learner.settings import LearnerSettings

WINDOW = 1.0


def main(location: str, log: str, port: str) -> None:
    store = open_store(location, log=Path(log))
    prepare(store)
    server = build_server(store, ServiceSettings(top=3, model_seconds=30.0), port=int(port), names=("a",))
    settings = LearnerSettings(window=WINDOW, every=0.2)
    learner = threading.Thread(
        target=run_learner, args=(store, settings), kwargs={"sealing_only": True}, daemon=True
    )
    learner.start()
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
