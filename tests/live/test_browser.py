"""The page in a real browser."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rankloop.live import Client, Store
from rankloop.live.ranking.live_policy import policy_of
from tests.live.conftest import linear, put, serving

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = "<img src=x onerror=document.title='broken'>"


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="there is no chromium on this system")
@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_browser_shows_the_page_and_runs_nothing(store: Store) -> None:
    assert BROWSER is not None
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    put(store, policy_of(linear(2.0, 0.0, 0.0), "second"))
    with serving(store) as url:
        client = Client(url)
        for _ in range(20):
            client.rank("q", {"x": [1, 0, 0], "y": [0, 0, 0]})
        shares = [{"policy": "second", "share": 1.0}]
        client.send("POST", "/deployments", {"shares": shares, "why": SCRIPT})
        client.close()
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", url]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    assert "<title>rankloop: live</title>" in shown
    assert "<button" in shown
    assert "<svg" in shown
    assert SCRIPT not in shown
