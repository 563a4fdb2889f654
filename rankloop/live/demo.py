"""The demonstration: a service, a learner, and simulated users who teach it, on this machine.

    python -m rankloop.live.demo

The page shows a policy that is learned, proven, and deployed step by step, and the clicks that rise with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import webbrowser
from pathlib import Path

from rankloop.data import Shape, synthetic
from rankloop.live.drive import DriveOptions, DriveResult, drive
from rankloop.live.learner.process import start_process
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.server import build_server, prepare
from rankloop.live.settings import ServiceSettings
from rankloop.live.store.database import open_store
from rankloop.types import Split

# A small shop: few products per query, so that clicks soon tell much about each.
SHOP = Shape(
    name="shop",
    documents=10,
    spread=0.3,
    max_documents=20,
    features=20,
    zeros=0.3,
    label_shares=(0.5, 0.1, 0.1, 0.1, 0.2),
)
QUERIES = 200
FEATURE_NAMES = tuple(str(number) for number in range(1, SHOP.features + 1))
# These users examine the first ranks more often, and click what is relevant.
USERS = "position@5"
# The order in which the shop lists its products knows something about their relevance, but not much.
ORDER_NOISE = 2.0
PORT = 8017
LEARNING = LearnerSettings(
    deploy="auto",
    model="linear",
    bias=USERS,
    window=3.0,
    every=2.0,
    least=1000,
    canary=0.3,
    canary_impressions=200,
)


def main() -> None:
    """Run until interrupted, or for as long as is said."""
    parser = argparse.ArgumentParser(prog="python -m rankloop.live.demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long to run")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument(
        "--store", type=Path, default=None, help="the folder of the store (default: temporary)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rankloop-live-") as folder:
        run(options.store or Path(folder), options.port, options.seconds)


def run(folder: Path, port: int, seconds: float) -> DriveResult:
    """Run the demonstration in a folder."""
    store = open_store(folder)
    prepare(store)
    server = build_server(store, ServiceSettings(top=5, model_seconds=2.0), port=port, names=FEATURE_NAMES)
    learner = start_process(store, str(folder), LEARNING, sealing_only=False)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    url = f"http://127.0.0.1:{port}"
    say(f"the page: {url}   (Ctrl-C ends the demonstration)")
    webbrowser.open(url)
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    users = DriveOptions(USERS, impressions=10**9, pause=0.005, order_noise=ORDER_NOISE)
    try:
        return drive(url, shop(), users, tell=lambda result: say(result.line()), stop=stop)
    except KeyboardInterrupt:
        stop.set()
        return DriveResult()
    finally:
        server.should_exit = True
        learner.terminate()
        learner.join(10.0)
        store.close()


def shop(seed: int = 0) -> Split:
    """The queries and products of the shop."""
    return synthetic(SHOP, queries=QUERIES, seed=seed).train


def say(line: str) -> None:
    """Print a line at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
