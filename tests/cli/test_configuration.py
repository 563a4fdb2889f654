"""Settings of services: typed, from the environment, from a file, or at their defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from rankloop.cli import app
from rankloop.cli.configuration import PREFIX, parameters
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.settings import ServiceSettings
from tests.cli.commands import Run


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `rankloop serve` would serve with."""
    from rankloop.live import server

    found: dict[str, Any] = {}

    class Stopped:
        def run(self) -> None:
            pass

    def build(store: Any, settings: ServiceSettings, **options: Any) -> Stopped:
        found.update(settings=settings, location=store.location, **options)
        return Stopped()

    monkeypatch.setattr(server, "build_server", build)
    monkeypatch.setattr(server, "check_port", lambda *_: None)
    for name in ("ADD", "STORE", "PORT", "TOP", "FEATURES", "LOG_LEVEL", "CONFIG"):
        monkeypatch.delenv(f"{PREFIX}_{name}", raising=False)
    return found


def test_typed_before_environment_before_file_before_default(
    run: Run, tmp_path: Path, served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "service.toml"
    file.write_text(
        f'store = "{tmp_path / "store"}"\nport = 1\ntop = 1\nrate = 1.5\nfeatures = ["a,b", "c"]\n'
        'upkeep = false\nrequest-seconds = 3.5\norigin = "https://shop.example"\nseal-only = true\n'
    )
    monkeypatch.setenv(f"{PREFIX}_CONFIG", str(file))
    monkeypatch.setenv(f"{PREFIX}_TOP", "2")
    monkeypatch.setenv(f"{PREFIX}_PORT", "2")
    assert run("serve", "--port", "3").code == 0
    settings = served["settings"]
    assert (served["port"], settings.top, settings.rate, settings.max_events) == (3, 2, 1.5, 1000)
    assert (served["names"], settings.request_seconds) == (("a", "b", "c"), 3.5)
    assert (settings.origins, served["location"]) == (("https://shop.example",), str(tmp_path / "store"))


def test_several_values_in_the_environment(
    run: Run, tmp_path: Path, served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}_STORE", str(tmp_path / "store"))
    monkeypatch.setenv(f"{PREFIX}_FEATURES", "price,age popularity")
    assert run("serve", "--no-upkeep").code == 0
    assert served["names"] == ("price", "age", "popularity")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("prot = 1\n", "there is no setting 'prot'; the settings are: .*port"),
        ("[serve]\nport = 1\n", "there is no setting 'serve'"),
        ("port = [1, 2]\n", r"port: expected one value, got \[1, 2\]"),
        ("port = \n", "this is not TOML"),
        ('port = "many"\n', "--port"),
        ('log-format = "xml"\n', "--log-format"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    run: Run, tmp_path: Path, served: dict[str, Any], content: str, reason: str
) -> None:
    import re

    file = tmp_path / "service.toml"
    file.write_text(content)
    refused = run("serve", str(tmp_path / "store"), "--no-upkeep", "--config", str(file))
    assert (refused.code, served) == (2, {})
    assert re.search(reason, refused.err), refused.err


@pytest.mark.parametrize("model", [ServiceSettings, LearnerSettings])
def test_every_setting_can_be_set(model: type[BaseModel]) -> None:
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    assert {*model.model_fields} - {"origins"} <= {*parameters(serve)}
