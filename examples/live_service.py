"""Tutorial: a live service that ranks, logs, learns from clicks and asks before it deploys.

In production, `rankloop serve STORE --learn` is the service and the learner, and your shop is the client.
"""

from __future__ import annotations

import tempfile
import threading
import time

import numpy as np

from rankloop.live import Client, ServiceSettings, build_server, open_store, prepare
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.settings import LearnerSettings

RNG = np.random.default_rng(0)
SHOP = {f"category {n}": {f"product {n}.{i}": RNG.random(2).tolist() for i in range(8)} for n in range(40)}


def visit(client: Client) -> None:
    """A customer, who looks at the first ranks more often, and clicks what is good and cheap."""
    category = f"category {RNG.integers(len(SHOP))}"
    shown = client.rank(category, SHOP[category], top=3)
    for rank, product in enumerate(shown["ranking"]):
        price, rating = SHOP[category][product]
        if RNG.random() < rating * (1.0 - price / 2) / (rank + 1):
            client.send_events([{"impression": shown["impression"], "document": product}])


def main() -> None:
    """Serve, click, learn, and deploy what is proven."""
    store = open_store(tempfile.mkdtemp())
    prepare(store)  # deploys the incoming order, softened
    server = build_server(store, ServiceSettings(model_seconds=5.0), port=0, names=("price", "rating"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    client = Client(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    settings = LearnerSettings(model="linear", learning="robust", bias="position@3", window=0.0, least=200)
    learner, said = LiveLearner(store, settings), ""
    while "is better than" not in said:
        for _ in range(100):
            visit(client)
        for said in learner.step():
            print(said)
    learned = client.send("GET", "/evidence")["trial"]["candidate"]
    shares = [{"policy": learned, "share": 0.9}, {"policy": "incoming-order", "share": 0.1}]
    client.send("POST", "/deployments", {"shares": shares, "why": "the evidence above"})
    print(f"live by a person's decision: {learned.rpartition('-')[0]}")
    client.close()
    server.should_exit = True
    thread.join()
    store.close()


if __name__ == "__main__":
    main()
