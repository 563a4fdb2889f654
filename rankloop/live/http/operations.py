"""What operators see and decide: health, metrics and the learner."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.http.guards import json_response
from rankloop.live.http.messages import LearnerMessage
from rankloop.live.http.state import REFRESH_SECONDS, ServerState
from rankloop.live.learner.control import end_trial_as_person, pause, resume
from rankloop.live.learner.health import read_health
from rankloop.live.learner.monitor import LOG_TEN, Monitor
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.overview import LearnerState, read_learner
from rankloop.live.store.database import StoreLostError, read
from rankloop.live.store.keys import ADMIN
from rankloop.storage.plain import to_plain

PAUSE, RESUME, END = "pause", "resume", "end-trial"
STAGES = ("shadow", "canary", "full")
# A server that did not see the store for this long does not know what is deployed.
STALE_SECONDS = 40 * REFRESH_SECONDS


async def healthz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /healthz`: the process runs."""
    return json_response({"status": "ok"})


async def readyz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /readyz`: something is deployed, and the store can be read and written.

    A learner that died is a warning: rankings are served and stored as before, and a balancer that took the
    server away would turn it into an outage. What is wrong with a surface follows its name.
    """
    problems, warnings = _look(state)
    for name, surface in state.surfaces.items():
        own = _look(surface)
        problems += [f"{name}: {text}" for text in own[0]]
        warnings += [f"{name}: {text}" for text in own[1]]
    return json_response(
        {"ready": not problems, "problems": problems, "warnings": warnings}, 503 if problems else 200
    )


def _look(state: ServerState) -> tuple[list[str], list[str]]:
    """The problems and the warnings of one store."""
    problems, warnings = list[str](), list[str]()
    if state.service.mixture is None:
        problems.append("nothing is deployed")
    if state.service.writer.failing:
        problems.append("the store cannot be written")
    if time.monotonic() - state.refreshed_at > STALE_SECONDS:
        problems.append("the store was not read for a while")
    try:
        state.service.store.check()
        with read(state.service.store) as connection:
            warnings = read_health(connection).problems
    except SQLAlchemyError:
        problems.append("the store cannot be read")
    except StoreLostError as error:
        problems.append(str(error))
    return problems, warnings


async def metrics(state: ServerState, request: Request) -> Response:
    """Answer `GET /metrics`, for Prometheus."""
    state.allow(request, ADMIN)
    state.instruments.waiting.set(state.service.writer.waiting)
    text = state.instruments.text() + metrics_text(_learner(state))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _learner(state: ServerState) -> LearnerState:
    with read(state.service.store) as connection:
        return read_learner(connection)


async def get_learner(state: ServerState, request: Request) -> Response:
    """Answer `GET /learner`."""
    state.allow(request, ADMIN)
    return json_response(state_json(_learner(state)))


async def post_learner(state: ServerState, request: Request) -> Response:
    """Answer `POST /learner`: pause it, resume it, or end its trial."""
    who = state.allow(request, ADMIN)
    message: LearnerMessage = await state.message(request, LearnerMessage)
    await state.write(lambda connection: decide(connection, message.action, who, message.why))
    state.refresh()
    return json_response(state_json(_learner(state)))


def decide(connection: Connection, action: str, who: str, why: str) -> None:
    """Do what a person decided about the learner."""
    if action == PAUSE:
        pause(connection, who=who, why=why)
    elif action == RESUME:
        resume(connection, who=who, why=why)
    else:
        end_trial_as_person(connection, who=who, why=why)


def state_json(state: LearnerState) -> dict[str, Any]:
    """The state of the learner for JSON."""
    beat, control = state.health.heartbeat, state.control
    return {
        "state": control.state,
        "who": control.who,
        "why": control.why,
        "alive": state.health.alive,
        "heartbeat": None if beat is None else beat.__dict__,
        "seal_lag": state.health.seal_lag,
        "unsealed": state.unsealed,
        "trial": None if state.trial is None else trial_numbers(state.trial, state.monitor),
        "watched": [each.numbers(state.monitor.metric) for each in state.monitor.watches],
        "equal_shares": None if state.monitor.equal is None else to_plain(state.monitor.equal),
        "warnings": state.warnings,
    }


def trial_numbers(trial: LiveTrial, monitor: Monitor) -> dict[str, Any]:
    """The evidence of a trial for JSON."""
    return trial.numbers(monitor.watch_of(trial.candidate, trial.baseline))


def metrics_text(state: LearnerState) -> str:
    """The state of the learner in the format of Prometheus."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, value: float) -> None:
        Gauge(f"rankloop_{name}", text, registry=registry).set(value)

    beat, health = state.health.heartbeat, state.health
    gauge("learner_up", "Whether the learner said that it lives, a moment ago.", float(health.alive))
    if beat is not None:
        gauge("learner_last_step_seconds", "When its last step ended, since 1970.", beat.stepped_at)
        gauge("learner_step_seconds", "How long that took.", beat.step_seconds)
        gauge("learner_failed_steps", "Steps that failed since one that did not.", beat.failed)
        gauge("learner_restarts", "How often it died and was started again.", beat.restarts)
    gauge("learner_paused", "Whether a person paused it.", float(state.control.paused))
    gauge("learner_held", "Whether a person decided on what is live.", float(bool(state.control.held)))
    gauge("seal_lag_seconds", "For how long the oldest impression could have been sealed.", health.seal_lag)
    gauge("unsealed_impressions", "Impressions that are not sealed.", state.unsealed)
    gauge("rollbacks", "Rollbacks since the store was made.", state.rollbacks)
    gauge("warnings", "Warnings about what is live, and about the learner.", len(state.warnings))
    stage = Gauge("rankloop_trial", "Whether a trial is in this stage.", ["stage"], registry=registry)
    for each in STAGES:
        stage.labels(each).set(float(state.trial is not None and state.trial.stage == each))
    labels = ["policy", "against"]
    harm = Gauge("rankloop_evidence_of_harm", "Log10 of E that it is worse.", labels, registry=registry)
    gain = Gauge("rankloop_evidence_of_gain", "Log10 of E that it is better.", labels, registry=registry)
    guard = Gauge(
        "rankloop_evidence_of_guard", "Log10 of E that it holds.", [*labels, "guard"], registry=registry
    )
    alarm = Gauge("rankloop_harm_alarms", "How often a policy seemed harmful.", labels, registry=registry)
    gauge("equal_shares", "Whether two policies are compared.", float(state.monitor.equal is not None))
    for watch in state.monitor.watches:
        names = (watch.policy, watch.against)
        harm.labels(*names).set(watch.worse.log_evidence / LOG_TEN)
        gain.labels(*names).set(watch.better.log_evidence / LOG_TEN)
        for bets in watch.guards:
            guard.labels(*names, bets.guard).set(bets.held.log_evidence / LOG_TEN)
        alarm.labels(*names).set(watch.alarms)
    return generate_latest(registry).decode()
