"""The whole service in its own processes, over HTTP, where every page is new: what goes wrong is put right.

Candidates and their features never repeat, and queries come from a long tail. A document is relevant if its
first feature is 1.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from rankloop.bias import save_bias
from rankloop.live import Client, ServiceError
from rankloop.models.storage import model_to_bytes
from rankloop.types import Bias
from tests.live.conftest import linear

pytestmark = pytest.mark.long

DOCUMENTS, TOP = 4, 2
BIAS = Bias(np.array([0.8, 0.5]), np.array([0.1, 0.05]), np.ones(TOP))
# Small steps and short waits, so that the tests take seconds.
SETTINGS = {
    "features": "a,b,c", "top": TOP, "window": 2, "every": 0.2, "deploy": "auto", "model": "linear",
    "learning": "robust", "least": 200, "canary": 0.2, "canary-impressions": 50, "pages-per-alarm": 1000,
    "log-format": "json",
}  # fmt: skip
# A learner that should learn nothing.
WATCHING = {**SETTINGS, "least": 10**6}


class Running:
    """Processes of one service, and users who visit it.

    Args:
        folder: where the store and the files of the processes are.
        settings: the settings of both processes.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self.store = folder, folder / "store"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        save_bias(BIAS, folder / "bias.json")
        known = {**settings, "bias": str(folder / "bias.json"), "store": str(self.store), "port": self.port}
        lines = [f"{name} = {json.dumps(value)}" for name, value in known.items()]
        (folder / "settings.toml").write_text("\n".join(lines), encoding="utf-8")
        self.server: subprocess.Popen[bytes] | None = None
        self.client = Client(f"http://127.0.0.1:{self.port}", retries=10)
        self.rng, self.pages, self.inverted = np.random.default_rng(0), 0, False
        # What a click on a document is worth whose second feature is 1; others are worth a click.
        self.worth = 1.0

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `serve` or `learn`."""
        command = [sys.executable, "-m", "rankloop", *words, "--config", str(self.folder / "settings.toml")]
        with (self.folder / f"{words[0]}.log").open("ab") as said:
            return subprocess.Popen(command, stderr=said, stdout=said)

    def visit(self, pages: int) -> None:
        """Let users look at so many pages, and click."""
        for _ in range(pages):
            self.pages += 1
            features = (self.rng.random((DOCUMENTS, 3)) < 0.5).astype(float)
            names = [f"d{self.pages}-{number}" for number in range(DOCUMENTS)]
            query = f"query {self.rng.zipf(1.5)}"
            shown = self.client.rank(query, dict(zip(names, features.tolist(), strict=True)))
            events = []
            for rank, name in enumerate(shown["ranking"]):
                relevance = features[names.index(name)][0]
                chance = BIAS.alpha[rank] * (1 - relevance if self.inverted else relevance) + BIAS.beta[rank]
                if self.rng.random() < chance:
                    event = {"impression": shown["impression"], "document": name}
                    if self.worth != 1.0:
                        event["value"] = self.worth if features[names.index(name)][1] else 1.0
                    events.append(event)
            if events:
                self.client.send_events(events)

    def visit_until(self, done: Callable[[], Any], pages: int = 6_000) -> Any:
        """Let users visit until something is so; the learner gets as much time as they do."""
        for _ in range(pages // 100):
            self.visit(100)
            result = self.wait_until(done, seconds=1.0)
            if result:
                return result
        raise AssertionError(f"it did not happen within {pages} pages: {self.said()}")

    def wait_until(self, done: Callable[[], Any], seconds: float = 60.0) -> Any:
        """What becomes true, or what it is in the end."""
        for _ in range(int(seconds / 0.1)):
            result = done()
            if result:
                return result
            time.sleep(0.1)
        return done()

    def register(self, name: str, *weights: float) -> None:
        """Register a linear model."""
        self.client.send("POST", f"/policies?name={name}", model_to_bytes(linear(*weights)))

    def deploy(self, why: str, role: str, **shares: float) -> None:
        """Deploy policies as a person does who lets the learner decide later; the others have this role."""
        named = [
            {"policy": name, "share": share, "role": "live" if share >= 0.5 else role}
            for name, share in shares.items()
        ]
        self.client.send("POST", "/deployments", {"why": why, "shares": named, "hold": False})

    def live(self) -> dict[str, float]:
        """What is live, and with which share."""
        last = self.client.send("GET", "/deployments")["deployments"][0]
        return {share["policy"]: share["share"] for share in last["shares"]}

    def diary(self) -> list[str]:
        """What the learner did and found, newest first."""
        return [entry["text"] for entry in self.client.send("GET", "/evidence")["diary"]]

    def metrics(self) -> str:
        """The metrics of the server."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=120) as answer:
            text: str = answer.read().decode()
            return text

    def said(self) -> str:
        """The last lines of all processes."""
        return "\n".join(path.read_text()[-2_000:] for path in self.folder.glob("*.log"))


@contextmanager
def running(folder: Path, settings: Mapping[str, Any], *words: str) -> Iterator[Running]:
    """A service that serves until the end, whatever happens."""
    service = Running(folder, settings)
    server = service.server = service.start("serve", *words)
    try:
        assert service.client.send("GET", "/readyz")["ready"]
        yield service
        server.terminate()
        assert server.wait(600) == 0, service.said()
    finally:
        service.client.close()
        server.kill()
        server.wait()


def learner_of(service: Running) -> int:
    """The process of the learner, a child of the server."""
    assert service.server is not None
    listed = Path(f"/proc/{service.server.pid}/task/{service.server.pid}/children").read_text()
    (found,) = [
        int(pid) for pid in listed.split() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")
def test_a_learner_that_dies_is_started_again(tmp_path: Path) -> None:
    with running(tmp_path, WATCHING) as service:
        service.visit(20)
        assert service.wait_until(lambda: "rankloop_unsealed_impressions 0.0" in service.metrics())
        os.kill(learner_of(service), signal.SIGKILL)
        restarted = service.wait_until(lambda: "rankloop_learner_restarts 1.0" in service.metrics())
        assert restarted, service.said()
        service.visit(20)
        assert service.wait_until(lambda: "rankloop_unsealed_impressions 0.0" in service.metrics())
        assert "rankloop_learner_up 1.0" in service.metrics()
        ready = service.client.send("GET", "/readyz")
        assert (ready["ready"], ready["warnings"]) == (True, [])


def test_a_bad_canary_of_a_person_is_stopped(tmp_path: Path) -> None:
    with running(tmp_path, WATCHING, "--learn") as service:
        service.register("good", 3.0, 0.0, 0.0)
        service.register("bad", -3.0, 0.0, 0.0)
        service.deploy("a test of something new", "canary", good=0.8, bad=0.2)
        service.visit_until(lambda: "bad" not in service.live())
        assert service.live() == {"good": 1.0}
        assert any("bad does harm" in text for text in service.diary())


def test_a_canary_that_answers_too_late_is_stopped(tmp_path: Path) -> None:
    """It ranks as the other policy does: nothing but the clock is against it."""
    features = np.random.default_rng(0).normal(size=(2_000, 3))
    table = lightgbm.Dataset(features, 3.0 * features[:, 0], feature_name=["a", "b", "c"])
    trees = lightgbm.train({"verbosity": -1, "num_threads": 1}, table, num_boost_round=60)
    # No evidence from clicks is enough.
    settings = {**WATCHING, "model-seconds": 1e-6, "level": 1e-300, "pages-per-alarm": 1e300}
    with running(tmp_path, settings, "--learn") as service:
        service.register("good", 3.0, 0.0, 0.0)
        service.client.send("POST", "/policies?name=slow", trees.model_to_string().encode())
        service.deploy("a larger model", "canary", good=0.8, slow=0.2)
        service.visit_until(lambda: "slow" not in service.live(), 20_000)
        assert service.live() == {"good": 1.0}
        assert any("slow failed or was too slow" in text for text in service.diary()), service.diary()


def test_a_canary_that_earns_more_and_breaks_a_guard_is_stopped(tmp_path: Path) -> None:
    """Dearer documents earn a third more per page, and get a third fewer clicks."""
    with running(tmp_path, {**WATCHING, "guard": "clicks>=-5%"}, "--learn") as service:
        service.worth = 20.0
        service.register("good", 3.0, 0.0, 0.0)
        service.register("rich", 0.0, 3.0, 0.0)
        service.deploy("a test of dearer documents", "canary", good=0.6, rich=0.4)
        service.visit_until(lambda: "rich" not in service.live())
        (text,) = [text for text in service.diary() if text.startswith("rolled back")]
        assert "rich does harm: clicks>=-5% does not hold compared with good" in text
        (last, *_) = service.client.send("GET", "/deployments")["deployments"]
        # By then, few orders may have come: nothing is said about how much it earned.
        assert last["numbers"]["metric"] == "amount"


def test_a_world_that_changes_brings_the_holdout_back(tmp_path: Path) -> None:
    with running(tmp_path, WATCHING, "--learn") as service:
        service.register("good", 3.0, 0.0, 0.0)
        service.register("before", -3.0, 0.0, 0.0)
        service.deploy("what is live, and what was before", "holdout", good=0.7, before=0.3)
        service.visit(300)
        service.inverted = True
        service.visit_until(lambda: "good" not in service.live())
        assert service.live() == {"before": 1.0}
        assert any("good does harm" in text for text in service.diary())


def test_a_rollback_while_the_learner_is_down_binds_it(tmp_path: Path) -> None:
    """The learner is killed while its canary is live, a person rolls back, and the learner comes back."""
    with running(tmp_path, SETTINGS, "--no-upkeep") as service:
        service.register("start", -1.0, 0.5, 0.0)
        service.deploy("the beginning", "live", start=1.0)
        learner = service.start("learn")
        try:
            service.visit_until(lambda: any(name.startswith("learned") for name in service.live()))
            learner.kill()
            learner.wait()
            service.client.send("POST", "/rollback", {"why": "customers complain"})
            restored = service.live()
            assert restored == {"start": 1.0}
            learner = service.start("learn")
            assert service.wait_until(lambda: any("changed what is live" in text for text in service.diary()))
            service.visit(300)
            assert service.wait_until(lambda: "rankloop_unsealed_impressions 0.0" in service.metrics())
            time.sleep(1.0)
            assert service.live() == restored, service.said()
        finally:
            learner.kill()
            learner.wait()


def test_a_store_that_vanishes_is_noticed_at_once(tmp_path: Path) -> None:
    with running(tmp_path, WATCHING) as service:
        service.visit(5)
        shutil.rmtree(service.store)
        hasty = Client(f"http://127.0.0.1:{service.port}", retries=0)
        for path, message in (
            ("/rank", {"query": "q", "candidates": [{"id": "x"}]}),
            ("/events", {"events": [{"impression": "i", "document": "x"}]}),
        ):
            with pytest.raises(ServiceError, match=r"503.*deleted or replaced"):
                hasty.send("POST", path, message)
        with pytest.raises(ServiceError, match="503"):
            hasty.send("GET", "/readyz")
        hasty.close()
