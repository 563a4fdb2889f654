"""The page over HTTP, its two buttons, and the same evidence as JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rankloop.live.http.guards import AnswerError, json_response
from rankloop.live.http.operations import END, PAUSE, RESUME, decide, trial_numbers
from rankloop.live.http.state import ServerState
from rankloop.live.learner.control import deploy_as_person, roll_back_as_person
from rankloop.live.learner.notes import (
    SETTINGS,
    TRIAL,
    load_monitor,
    load_note,
    load_trial,
    load_trust,
    save_note,
)
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.stages import full_shares, with_canary
from rankloop.live.learner.trial import Stage
from rankloop.live.overview import read_diary, read_overview
from rankloop.live.page import ACT, page_document
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.store.database import read
from rankloop.live.store.events import read_tallies
from rankloop.live.store.keys import ADMIN
from rankloop.live.store.policies import current_deployment

# How long a page is shown before it is made again: many readers cost no more than one.
PAGE_SECONDS = 5.0
# How long the page may take: the first one loads matplotlib, and a person can wait.
LONGEST_SECONDS = 60.0
SECURITY = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # With `no-referrer`, browsers would not say on whose page a button was pressed.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
PERSON = "the page"
LARGEST_FORM = 10_000
LONGEST_REASON = 1_000


class PageCache:
    """The last page, for those who watch and for those who act; made again when it is old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[bool, tuple[float, str]] = {}

    def get(self, state: ServerState, *, acting: bool) -> str:
        """The page."""
        with self._lock:
            made_at, text = self._made.get(acting, (-PAGE_SECONDS, ""))
            if time.monotonic() - made_at >= PAGE_SECONDS:
                # Loads matplotlib, which nothing else here needs.
                from rankloop.reports.html import html_page

                found = read_overview(state.service.store)
                document = page_document(
                    found,
                    keys=not state.access.open,
                    acting=acting,
                    name=state.name,
                    surfaces=state.surfaces,
                )
                text = html_page(document)
                self._made[acting] = time.monotonic(), text
            return text

    def forget(self) -> None:
        """Make the page again the next time."""
        with self._lock:
            self._made.clear()


async def page(state: ServerState, request: Request) -> Response:
    """Answer `GET /`; a browser asks its reader for the key as a password."""
    try:
        state.allow(_with_password(request), ADMIN)
    except AnswerError as error:
        if error.status != 401:
            raise
        headers = {"WWW-Authenticate": 'Basic realm="rankloop: an admin key as password"'}
        return HTMLResponse("An admin key is needed.", 401, {**SECURITY, **headers})
    acting = ACT in request.query_params
    text = await asyncio.to_thread(state.pages.get, state, acting=acting)
    # Reloading would empty the fields that a person is filling in.
    return HTMLResponse(text, headers=SECURITY if acting else {**SECURITY, "Refresh": "10"})


async def page_rollback(state: ServerState, request: Request) -> Response:
    """Answer the button that restores an earlier deployment."""
    who, values = await _form(state, request)
    why, to = _why(values), values.get("to", "")
    if to and not (to.isascii() and to.isdigit() and len(to) < 10):
        raise AnswerError(422, f"to: {to[:20]!r} is not the number of a deployment")
    await state.write(
        lambda connection: roll_back_as_person(
            connection, who=who, why=why, hold=True, to=int(to) if to else None
        )
    )
    return _back(state)


async def page_learner(state: ServerState, request: Request) -> Response:
    """Answer the buttons that pause the learner, resume it, and end its trial."""
    who, values = await _form(state, request)
    action, why = values.get("action", ""), _why(values)
    if action not in (PAUSE, RESUME, END):
        raise AnswerError(422, f"action: {PAUSE}, {RESUME} or {END}, not {action[:20]!r}")
    await state.write(lambda connection: decide(connection, action, who, why))
    return _back(state)


def _why(values: Mapping[str, str]) -> str:
    """The reason that a person gave."""
    return values.get("why", "").strip()[:LONGEST_REASON] or "no reason was given"


async def page_deploy(state: ServerState, request: Request) -> Response:
    """Answer the button that deploys what was proven."""
    who, values = await _form(state, request)
    await state.write(lambda connection: deploy_candidate(connection, values.get("candidate", ""), who))
    return _back(state)


def deploy_candidate(
    connection: Connection, candidate: str, who: str, why: str = "proven, and deployed by a person"
) -> LiveDeployment:
    """Deploy the policy that is on trial: as a canary from shadow, and fully from there.

    Raises:
        AnswerError: another policy is on trial by now, or none.
    """
    trial, current = load_trial(connection), current_deployment(connection)
    if trial is None or current is None or trial.candidate != candidate:
        raise AnswerError(409, f"{candidate[:100]!r} is not on trial: load the page again")
    settings = LearnerSettings.model_validate(load_note(connection, SETTINGS) or {})
    stage: Stage = "canary" if trial.stage == "shadow" else "full"
    if stage == "canary":
        shares = with_canary(current, trial, settings.canary)
    else:
        # As it was proposed, with a holdout: the learner watches it as if it had deployed it.
        shares = full_shares(connection, trial, settings)
    numbers = trial_numbers(trial, load_monitor(connection))
    done = deploy_as_person(connection, shares, who=who, why=why, hold=False, numbers=numbers)
    trial = replace(trial, stage=stage, deployment=done.number, proposed=False)
    save_note(connection, TRIAL, trial.to_dict())
    return done


async def evidence(state: ServerState, request: Request) -> Response:
    """Answer `GET /evidence`: the trial, and what the learner did and found."""
    state.allow(request, ADMIN)
    with read(state.service.store) as connection:
        trial, trust, monitor = load_trial(connection), load_trust(connection), load_monitor(connection)
        content = {
            "trial": None if trial is None else trial_numbers(trial, monitor),
            "trust": None if trust is None else trust.to_dict(),
            "diary": read_diary(connection),
            "events": read_tallies(connection),
        }
    return json_response(content)


async def _form(state: ServerState, request: Request) -> tuple[str, dict[str, str]]:
    body = await state.body(request, LARGEST_FORM)
    values = dict(urllib.parse.parse_qsl(body.decode(errors="replace")))
    # The key is part of the form, so that no other page can press the button with a password that the browser
    # remembers.
    return state.allow(_with_key(request, values.get("key", "")), ADMIN) + f" ({PERSON})", values


def _back(state: ServerState) -> Response:
    state.refresh()
    state.pages.forget()
    return RedirectResponse("../", 303)


def _with_password(request: Request) -> Request:
    header = request.headers.get("authorization", "")
    if header[:6].lower() != "basic ":
        return request
    try:
        password = base64.b64decode(header[6:]).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return request
    return _with_key(request, password)


def _with_key(request: Request, key: str) -> Request:
    kept = [(name, value) for name, value in request.scope["headers"] if name != b"authorization"]
    header = (b"authorization", b"Bearer " + key.encode("latin-1", "replace"))
    return Request({**request.scope, "headers": [*kept, header] if key else kept}, request.receive)
