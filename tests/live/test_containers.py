"""What `Dockerfile` and `compose.yaml` run, run here: there need be no container engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankloop.live import Client, ServiceError, open_store, prepare
from rankloop.live.learner.health import Heartbeat, save_heartbeat
from tests.cli.commands import Run
from tests.live.conftest import serving

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
ENVIRONMENT = dict(
    pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", DOCKERFILE, re.M) for pair in line.split()
)


def instruction(name: str) -> list[str]:
    """The words of the JSON form of an instruction."""
    (found,) = re.findall(rf"^{name}\b.*?(\[.*\])$", DOCKERFILE, re.M)
    words: list[str] = json.loads(found)
    return words


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_files_that_are_copied_exist() -> None:
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M):
        assert all((ROOT / name).exists() for name in line.split()[:-1])


def test_variables_are_settings() -> None:
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    used = {*re.findall(r"\bRANKLOOP_\w+", DOCKERFILE + COMPOSE)}
    assert used > {"RANKLOOP_STORE", "RANKLOOP_FEATURES"}
    assert {name for name in used if f"`{name}`" not in settings} == set()


def test_commands_are_commands(run: Run) -> None:
    commands = [instruction("CMD"), instruction("HEALTHCHECK")[1:]]
    commands += [json.loads(found) for found in re.findall(r"^    command: (\[.*\])$", COMPOSE, re.M)]
    assert commands == [["serve"], ["health"], ["serve"], ["learn"]]
    for words in commands:
        assert run(*words, "--help").code == 0


@pytest.mark.parametrize("alive", [True, False])
def test_the_health_of_a_learner(run: Run, tmp_path: Path, alive: bool) -> None:
    store = open_store(tmp_path / "store")
    prepare(store)
    now = time.time() - (0.0 if alive else 3600.0)
    with store.engine.begin() as connection:
        save_heartbeat(connection, Heartbeat(True, 1.0, 60.0, 0, now, now))
    store.close()
    said = run("health", str(tmp_path / "store"), "--port", str(free_port()))
    assert (said.code, json.loads(said.out)["alive"]) == (0 if alive else 1, alive)


def test_the_health_of_a_server(run: Run, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    with serving(store) as url:
        port = url.rpartition(":")[2]
        refused = run("health", str(tmp_path / "store"), "--host", "0.0.0.0", "--port", port)
        assert (refused.code, "nothing is deployed" in refused.out) == (1, True)
        prepare(store)
        for _ in range(100):
            said = run("health", str(tmp_path / "store"), "--port", port)
            if said.code == 0:
                break
            time.sleep(0.1)
        assert (said.code, json.loads(said.out)["ready"]) == (0, True)
    store.close()


@pytest.mark.long
def test_the_documented_container(tmp_path: Path) -> None:
    """`docker run` as at the top of the file: a key is printed once, features are named, all is well."""
    (documented,) = re.findall(r"docker run (.*)", DOCKERFILE)
    given = [word for word in shlex.split(documented) if word.startswith("RANKLOOP_")]
    port = free_port()
    environment = {
        **os.environ,
        **{name: value for name, value in ENVIRONMENT.items() if name.startswith("RANKLOOP_")},
        **dict(pair.split("=", 1) for pair in given),
        "RANKLOOP_STORE": str(tmp_path / "store"),
        "RANKLOOP_PORT": str(port),
    }
    entry = [sys.executable, "-m", *instruction("ENTRYPOINT")]

    def start() -> tuple[subprocess.Popen[str], list[str]]:
        server = subprocess.Popen(
            [*entry, *instruction("CMD")], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if "rankloop serves" in line:
                break
        return server, said

    def check() -> int:
        return subprocess.run(
            [*entry, *instruction("HEALTHCHECK")[1:]], env=environment, check=False, capture_output=True
        ).returncode

    keys = []
    for _ in range(2):
        server, said = start()
        try:
            keys += [line.split()[-1] for line in said if "first key" in line]
            for _ in range(100):
                if check() == 0:
                    break
                time.sleep(0.1)
            assert check() == 0
            client = Client(f"http://127.0.0.1:{port}", key=keys[0])
            assert client.rank("shoes", {"a": {"price": 1, "age": 2}})["ranking"] == ["a"]
            assert client.send("GET", "/policies")["features"] == ["price", "age"]
            stranger = Client(f"http://127.0.0.1:{port}")
            with pytest.raises(ServiceError, match="401"):
                stranger.rank("shoes", ["a"])
            client.close()
            stranger.close()
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
        assert server.returncode == 0
    assert len(keys) == 1
