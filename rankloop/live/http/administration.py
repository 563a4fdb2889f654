"""Policies and deployments over HTTP, for administrators."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from rankloop.errors import RankloopError
from rankloop.live.http.guards import AnswerError, json_response
from rankloop.live.http.messages import DeployMessage, RollbackMessage, decode
from rankloop.live.http.state import ServerState
from rankloop.live.learner.control import deploy_as_person, roll_back_as_person
from rankloop.live.ranking.deployment import LiveDeployment, Share
from rankloop.live.ranking.live_policy import (
    INCOMING,
    LONGEST_NAME,
    SCORES,
    UNIFORM,
    LivePolicy,
    policy_of,
    score_policy,
)
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.store.database import read
from rankloop.live.store.keys import ADMIN
from rankloop.live.store.policies import history, list_policies, register_policy
from rankloop.models.storage import model_from_bytes

NAME = re.compile(r"[\w.@+-]{1,100}")
# Candidates that a new model is tried on before it is accepted.
TRIALS = 3


def _caller(state: ServerState, request: Request) -> str:
    """The name of an administrator, marked: a key may have the name of the learner."""
    return f"{state.allow(request, ADMIN)} (the API)"


async def get_policies(state: ServerState, request: Request) -> Response:
    """Answer `GET /policies`: what can be deployed, and which features requests may give."""
    state.allow(request, ADMIN)
    with read(state.service.store) as connection:
        found = list_policies(connection)
    return json_response({"policies": found, "features": state.service.schema.names})


async def post_policy(state: ServerState, request: Request) -> Response:
    """Answer `POST /policies?name=…`: the body is a model file; other kinds than `model` need no body."""
    who = _caller(state, request)
    options = request.query_params
    name = options.get("name", "")
    if not NAME.fullmatch(name):
        raise AnswerError(422, "name: give 1 to 100 letters, digits or ._@+- as `?name=…`")
    try:
        scale = float(options.get("scale", "1"))
    except ValueError:
        raise AnswerError(422, f"scale: {options['scale']!r} is not a number") from None
    kind = options.get("kind", "model")
    if kind in (UNIFORM, INCOMING):
        policy = LivePolicy(name, kind, scale)
    elif kind == SCORES:
        feature = options.get("feature", "")
        if not 0 < len(feature) <= LONGEST_NAME or not feature.isprintable():
            raise AnswerError(422, "feature: say in which feature the scores come, as `&feature=…`")
        policy = score_policy(name, feature, scale=scale)
    elif kind == "model":
        body = await state.body(request, state.settings.max_model)
        policy = await asyncio.to_thread(_model_policy, body, name, scale)
    else:
        raise AnswerError(422, f"kind: model, {SCORES}, {UNIFORM} or {INCOMING}, not {kind[:50]!r}")
    stored = await state.write(lambda connection: register_policy(connection, policy, who))
    state.refresh()
    return json_response(
        {"name": stored.name, "number": stored.number, "fingerprint": stored.fingerprint}, 201
    )


def _model_policy(body: bytes, name: str, scale: float) -> LivePolicy:
    """The policy of a model file, tried on a few candidates."""
    try:
        policy = policy_of(model_from_bytes(body), name, scale=scale)
        zeros = np.zeros((TRIALS, len(policy.feature_names)), np.float32)
        policy.scores(RankingProblem("", tuple("abc"), policy.feature_names, zeros))
    except RankloopError as error:
        raise AnswerError(422, f"the model cannot be used: {error}") from error
    except Exception as error:
        raise AnswerError(422, f"the model cannot be used: {type(error).__name__}") from error
    return policy


async def get_deployments(state: ServerState, request: Request) -> Response:
    """Answer `GET /deployments`: the history, newest first."""
    state.allow(request, ADMIN)
    with read(state.service.store) as connection:
        return json_response({"deployments": [deployment_json(each) for each in history(connection)]})


async def post_deployment(state: ServerState, request: Request) -> Response:
    """Answer `POST /deployments`: new shares, effective at once."""
    who = _caller(state, request)
    message: DeployMessage = await state.message(request, DeployMessage)
    shares = [Share(each.policy, each.share, each.role) for each in message.shares]
    done = await state.write(
        lambda connection: deploy_as_person(connection, shares, who=who, why=message.why, hold=message.hold)
    )
    state.refresh()
    return json_response(deployment_json(done), 201)


async def post_rollback(state: ServerState, request: Request) -> Response:
    """Answer `POST /rollback`: the deployment before the current one, or an earlier one, is live again."""
    who = _caller(state, request)
    body = await state.body(request, state.settings.max_body)
    message = decode(body, RollbackMessage) if body.strip() else RollbackMessage()
    done = await state.write(
        lambda connection: roll_back_as_person(
            connection, who=who, why=message.why, hold=message.hold, to=message.to
        )
    )
    state.refresh()
    return json_response(deployment_json(done), 201)


def deployment_json(deployment: LiveDeployment) -> dict[str, Any]:
    """A deployment for JSON."""
    return {**deployment.__dict__, "shares": [share.__dict__ for share in deployment.shares]}
