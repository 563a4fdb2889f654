"""What a service says on standard error: with time, level and request, on one line each."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from rankloop.live import Client, Store, prepare
from rankloop.live.diagnostics import LOGGER, REQUEST_ID, configure_logging
from rankloop.live.settings import OutputSettings
from tests.live.conftest import serving

Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    """The lines on standard error so far."""
    root = logging.getLogger()
    before, level = root.handlers[:], LOGGER.level
    yield lambda: capsys.readouterr().err.splitlines()
    root.handlers[:] = before
    LOGGER.setLevel(level)


def test_lines_of_text(lines: Lines) -> None:
    configure_logging(OutputSettings())
    token = REQUEST_ID.set("checkout-7")
    LOGGER.warning("policy %r failed: %s", "new", "one\nINFO two")
    REQUEST_ID.reset(token)
    LOGGER.debug("not said")
    (line,) = lines()
    moment, rest = line.split(" ", 1)
    assert moment.endswith("Z")
    assert rest == r"WARNING [checkout-7] policy 'new' failed: one\nINFO two"


def test_lines_of_json(lines: Lines) -> None:
    configure_logging(OutputSettings(log_format="json"))
    try:
        raise ValueError("wrong")
    except ValueError:
        LOGGER.exception("it failed")
    (line,) = lines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("ERROR", "rankloop.live", "it failed")
    assert "ValueError: wrong" in found["exception"]


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_request_has_an_id_in_the_answer_and_in_every_line(
    store: Store, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(store)
    configure_logging(OutputSettings(log_format="json", log_level="debug"))
    with serving(store) as url:
        for given, expected in (("a-1", "a-1"), ("two words", None), (None, None)):
            headers = {} if given is None else {"X-Request-ID": given}
            with urllib.request.urlopen(urllib.request.Request(url + "/healthz", None, headers)) as answer:
                name = answer.headers["X-Request-ID"]
            assert name == expected or (expected is None and len(name) == 16)
        monkeypatch.setattr("rankloop.live.service.Service.draft", lambda *_: 1 / 0)
        client = Client(url, retries=0)
        with pytest.raises(Exception, match="500"):
            client.rank("cat", ["a"])
        client.close()
    said = [json.loads(line) for line in lines()]
    debug = [one for one in said if one["level"] == "DEBUG" and one.get("path") == "/healthz"]
    assert (len(debug), debug[0]["request"], debug[0]["status"]) == (3, "a-1", 200)
    failed = [one for one in said if one["level"] == "ERROR"]
    assert "ZeroDivisionError" in failed[0]["exception"]
    assert failed[0]["request"]
