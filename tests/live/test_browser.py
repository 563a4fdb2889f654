"""The page in a real browser: what it shows, what its buttons do, and that it fits on a phone.

`make test-browser` installs what this needs: Debian's chromium, and playwright to drive it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.live import Client, Store
from rankloop.live.learner.monitor import Monitor, Watch
from rankloop.live.learner.notes import MONITOR, SETTINGS, TRIAL, add_entry, load_trial, save_note
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.page import ACT_LABEL
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.sealing import seal
from rankloop.live.store.database import read
from rankloop.live.store.keys import add_key
from rankloop.live.store.policies import deploy, history
from rankloop.statistics import Bets
from rankloop.types import Bias
from tests.live.conftest import linear, put, serving

pytestmark = [pytest.mark.long, pytest.mark.parametrize("location", ["sqlite"], indirect=True)]

NAMES = ("chromium", "chromium-browser", "google-chrome")
SCRIPT = "<img src=x onerror=document.title='broken'>"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no chromium on this system: make test-browser installs it")
    reason = "playwright is not installed: make test-browser installs it"
    api = pytest.importorskip("playwright.sync_api", reason=reason)
    with api.sync_playwright() as playwright:
        # Without a sandbox, chromium runs as root, too, as in containers.
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    """A service with some traffic and two deployments."""
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    put(store, policy_of(linear(2.0, 0.0, 0.0), "second"))
    with serving(store) as where:
        client = Client(where)
        for number in range(40):
            shown = client.rank(SCRIPT, {"x": [1, 0, 0], "y": [0, 0, 0], SCRIPT: [0, 1, 1]})
            if number % 3:
                client.send_events([{"impression": shown["impression"], "document": shown["ranking"][0]}])
            if number % 10 == 9:
                seal(store, np.inf)
        client.close()
        yield where


def open_page(browser: Any, url: str, **options: Any) -> Any:
    """A page that has loaded nothing from elsewhere, and in which nothing failed."""
    page = browser.new_page(**options)
    page.set_default_timeout(60_000)
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    assert {one.rstrip("/").removesuffix("/favicon.ico") for one in requests} == {url}
    assert [one for one in errors if "favicon" not in one and "404" not in one] == []
    return page


def act(page: Any) -> None:
    """Go to the page with buttons."""
    page.get_by_role("button", name=ACT_LABEL).click()
    page.wait_for_url("**/?act=1")


def widest(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


def test_the_page_shows_what_is_live_and_runs_nothing(store: Store, url: str, browser: Any) -> None:
    with store.engine.begin() as connection:
        deploy(connection, [Share("second", 1.0)], who=SCRIPT, why=SCRIPT)
    page = open_page(browser, url)
    page.wait_for_timeout(500)
    assert page.title() == "rankloop: live"
    assert page.locator("h1").inner_text() == "rankloop live"
    assert "second serves 100% of the traffic" in page.content()
    assert page.locator("svg").count() >= 2
    assert SCRIPT in page.locator("body").inner_text()
    assert page.locator("img").count() == 0
    page.close()


def test_the_page_fits_on_a_phone(url: str, browser: Any) -> None:
    page = open_page(browser, url, viewport=PHONE)
    assert widest(page) <= PHONE["width"]
    page.close()


def test_the_button_rolls_back_for_those_who_have_a_key(store: Store, browser: Any) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    put(store, policy_of(linear(2.0, 0.0, 0.0), "second"))
    with store.engine.begin() as connection:
        key = add_key(connection, "Ada", ["admin"])
        add_key(connection, "shop", ["rank"])
    with serving(store) as url:
        page = open_page(browser, url, http_credentials={"username": "", "password": key})
        for typed in ("wrong", key):
            page.goto(url)
            act(page)
            form = page.locator("form[action='page/rollback']")
            form.get_by_placeholder("admin key").fill(typed)
            form.get_by_role("button", name="Roll back").click()
            assert ("the key is not known" in page.content()) == (typed == "wrong")
        page.wait_for_url(url + "/")
        assert "start serves 100% of the traffic" in page.content()
        page.close()
    with read(store) as connection:
        made = history(connection)
    assert [one.kind for one in made] == ["rollback", "deploy", "deploy"]
    assert (made[0].who, made[0].shares[0].policy) == ("Ada (the page)", "start")


def test_the_button_deploys_what_was_proven(store: Store, url: str, browser: Any) -> None:
    """What a learner with `--deploy ask` leaves to a person."""
    with store.engine.begin() as connection:
        settings = LearnerSettings()
        bias = Bias(np.array([0.8, 0.5]), np.array([0.1, 0.05]), np.ones(2))
        trial = LiveTrial.begin(1, "start", "second", bias=bias, mean=0.5, part=4, settings=settings)
        gains = np.random.default_rng(0).normal(0.2, 1.0, 4000)
        trial = replace(trial.after(5, gains, 0), proposed=True)
        save_note(connection, TRIAL, trial.to_dict())
        save_note(connection, SETTINGS, settings.model_dump())
        numbers = {"bias": {"alpha": [0.8, 0.5], "beta": [0.1, 0.05]}, "bias_intervals": None}
        add_entry(connection, "learned", "start was learned", numbers)
    page = open_page(browser, url, viewport=PHONE)
    assert "start is better than second by clicks per page. A person may try it." in page.content()
    assert widest(page) <= PHONE["width"]
    act(page)
    assert widest(page) <= PHONE["width"]
    page.get_by_role("button", name="Try start on 10%").click()
    page.wait_for_url(url + "/")
    with read(store) as connection:
        made, canary = history(connection)[0], load_trial(connection)
    assert {share.policy: share.role for share in made.shares} == {"start": "canary", "second": "live"}
    assert canary is not None
    # Only lists give it more.
    bets = Bets(count=500, highest=5.0)
    watch = replace(Watch.begin("start", "second", settings), better=bets, worse=Bets(count=500))
    with store.engine.begin() as connection:
        save_note(connection, MONITOR, Monitor(watches=(watch,)).to_dict())
    page.close()
    page = open_page(browser, url, viewport=PHONE)
    act(page)
    assert widest(page) <= PHONE["width"]
    page.get_by_role("button", name="Deploy start").click()
    page.wait_for_url(url + "/")
    assert "start serves 88% of the traffic" in page.content()
    page.close()
    with read(store) as connection:
        made = history(connection)[0]
    shares = {share.policy: share.role for share in made.shares}
    assert shares == {"start": "live", "start-explore": "explore", "second": "holdout"}
    assert made.numbers["gain"]["lower"] > 0.0
