"""The service without HTTP: what is live, and how a request becomes an impression."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection

from rankloop.errors import RankloopError
from rankloop.live.ranking.deployment import Mixture
from rankloop.live.ranking.feature_schema import FeatureSchema, Values
from rankloop.live.ranking.live_policy import FALLBACK, LivePolicy
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.rules import FeatureFilter, RequestError, allowed
from rankloop.live.ranking.user_cap import UNCOUNTED, USER, UserCap
from rankloop.live.settings import ServiceSettings
from rankloop.live.store.database import Store, read
from rankloop.live.store.group_commit import GroupCommit
from rankloop.live.store.impressions import (
    EXCLUDE,
    FILTERS,
    PINS,
    Served,
    StoredProblems,
    store_impression,
)
from rankloop.live.store.policies import (
    current_deployment,
    current_version,
    load_mixture,
    read_feature_names,
    register_policy,
    remember_features,
)
from rankloop.policies import draw_ranking
from rankloop.types import Float32, Float64

SEEDS = 2**63


@dataclass(frozen=True, eq=False)
class RankRequest:
    """A request to rank, as any front end gives it.

    Attributes:
        query: the query.
        documents: ids of the candidates, best first by the caller's own order.
        features: one entry per candidate.
        id: the id of the impression, if the client chose it; such a request can be repeated.
        top: the number of positions; None for the default.
        pins: documents by position.
        exclude: documents that must not be shown.
        filters: limits of features.
        context: anything worth keeping with the impression.
    """

    query: str
    documents: tuple[str, ...]
    features: tuple[Values, ...]
    id: str | None = None
    top: int | None = None
    pins: Mapping[int, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    filters: tuple[FeatureFilter, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Draft:
    """A checked request: what is left to rank after its rules, in the incoming order."""

    request: RankRequest
    problem: RankingProblem
    top: int
    rules: Mapping[str, Any]


class Choice(NamedTuple):
    """What a request is served with.

    Attributes:
        policy: the policy.
        deployment: the number of the deployment that it is part of.
        ordered: whether the order of the candidates matters to any policy of the deployment.
        seed: what the ranking is drawn with.
        failed: the policy that failed before, and why, if this is the fallback.
    """

    policy: LivePolicy
    deployment: int
    ordered: bool
    seed: int
    failed: tuple[str, str] | None = None


class Service:
    """Serves rankings from what is deployed, and stores what was shown.

    Args:
        store: the store.
        settings: limits and defaults.
        rng: chooses policies and seeds; by default from the system's entropy.
        table: features by document id.
        names: names of the features, besides those of policies that were deployed.
    """

    def __init__(
        self,
        store: Store,
        settings: ServiceSettings | None = None,
        *,
        rng: np.random.Generator | None = None,
        table: tuple[tuple[str, ...], Mapping[str, Float32]] | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        self.store, self.settings = store, settings or ServiceSettings()
        self.writer = GroupCommit(store.engine, check=partial(store.check, written=True))
        self._rng = np.random.default_rng() if rng is None else rng
        self._stored = StoredProblems()
        self._users = UserCap(self.settings.user_share, self.settings.user_pages)
        self._table_names, self._table = ((), {}) if table is None else table
        with store.engine.begin() as connection:
            self.fallback = register_policy(connection, LivePolicy(FALLBACK, FALLBACK), "rankloop")
            remember_features(connection, (*names, *self._table_names))
        self.mixture: Mixture | None = None
        self.schema = FeatureSchema(())
        self._policies: dict[str, LivePolicy] = {}
        self._version = (-1, -1)
        self.refresh()

    def refresh(self) -> bool:
        """Serve what is deployed now; whether that has changed."""
        with read(self.store) as connection:
            version = current_version(connection)
            if version == self._version:
                return False
            names = read_feature_names(connection)
            deployment = current_deployment(connection)
            if deployment is None:
                mixture = None
            else:
                mixture = load_mixture(connection, deployment, self._policies)
                for policy in mixture.policies:
                    if policy.name not in self._policies:
                        _warm_up(policy)
                self._policies = {policy.name: policy for policy in mixture.policies}
        if names != self.schema.names:
            self.schema = FeatureSchema(names, self._table_in(names))
        self.mixture, self._version = mixture, version
        return True

    def close(self) -> None:
        """Finish what is being written."""
        self.writer.close()

    def draft(self, request: RankRequest) -> Draft:
        """Check a request and apply its rules.

        Raises:
            RequestError: the request cannot be answered; the message says why.
        """
        n = len(request.documents)
        if n > self.settings.max_candidates:
            raise RequestError(f"{n} candidates; at most {self.settings.max_candidates} are ranked at once")
        if len({*request.documents}) < n:
            twice = next(one for one in request.documents if request.documents.count(one) > 1)
            raise RequestError(f"candidate {twice!r} is given twice")
        top = min(request.top or self.settings.top, n)
        pinned = {*request.pins.values()}
        if len(pinned) < len(request.pins) or any(place > top for place in request.pins):
            raise RequestError(f"pins: positions are 1 to {top}, and a document has one position")
        if pinned & {*request.exclude}:
            raise RequestError(f"pins: {min(pinned & {*request.exclude})!r} is both pinned and excluded")
        schema = self.schema
        matrix = schema.matrix(request.documents, request.features)
        documents, rules = request.documents, {}
        if pinned or request.exclude or request.filters:
            kept = allowed(
                documents,
                schema.columns,
                matrix,
                exclude=request.exclude,
                filters=request.filters,
                pinned=pinned,
            )
            documents = tuple([one for one, keep in zip(documents, kept, strict=True) if keep])
            matrix = matrix[kept]
            rules = _record(request)
            if not documents and not pinned:
                raise RequestError("the filters leave nothing to show: send fewer filters, or pin a document")
        if not self._users.counts(str(request.context.get(USER) or "")):
            rules = {**rules, UNCOUNTED: True}
        return Draft(request, RankingProblem(request.query, documents, schema.names, matrix), top, rules)

    def choose(self) -> Choice:
        """The policy for the next request.

        Raises:
            NotReadyError: nothing is deployed.
        """
        if self.mixture is None:
            raise NotReadyError("nothing is deployed: register a policy and deploy it")
        mixture = self.mixture
        policy, seed = mixture.choose(self._rng.random()), int(self._rng.integers(SEEDS, dtype=np.int64))
        return Choice(policy, mixture.deployment.number, mixture.ordered, seed)

    def at_fault(self, policy: LivePolicy, problem: RankingProblem) -> bool:
        """Whether a policy that failed also fails where no feature has an unusual value.

        If not, what the request says is to blame, which anybody who may rank can say.
        """
        try:
            policy.scores(replace(problem, features=np.zeros_like(problem.features)))
        except Exception:
            return True
        return False

    def fall_back(self, choice: Choice, failure: str) -> Choice:
        """The incoming order, where the policy that was chosen failed."""
        return Choice(self.fallback, choice.deployment, True, choice.seed, (choice.policy.name, failure))

    def serve(self, draft: Draft, choice: Choice) -> Served:
        """Rank: score the candidates and draw a ranking."""
        policy, deployment, ordered, seed, failed = choice
        problem = draft.problem if ordered else draft.problem.sorted()
        room = draft.top - len(draft.request.pins)
        n = len(problem.documents)
        scores: Float64 | None = None
        if policy.draws and n:
            scores = policy.scores(problem)
            drawn = draw_ranking(scores, room, seed) if room else np.zeros(0, np.int64)
        else:
            drawn = np.arange(min(room, n))
        now = time.time()
        return Served(
            draft.request.id or new_id(now),
            now,
            problem,
            policy,
            deployment,
            seed,
            drawn,
            scores,
            draft.top,
            draft.request.pins,
            draft.rules if failed is None else {**draft.rules, "failed": failed},
            draft.request.context,
        )

    def keep(self, served: Served) -> Future[Served]:
        """Store an impression; the future has it after the commit."""
        key = (served.problem.id, served.policy.number)
        repeatable = not served.id.startswith(OWN)
        stored = self._stored

        def job(connection: Connection) -> Served:
            return store_impression(connection, served, stored=stored, repeatable=repeatable)

        done: Future[Served] = self.writer.submit(job)
        done.add_done_callback(lambda future: _remember(future, stored, key))
        return done

    def rank(self, request: RankRequest) -> Served:
        """Answer one request and wait until it is stored; for programs without an event loop."""
        return self.keep(self.serve(self.draft(request), self.choose())).result()

    def _table_in(self, names: tuple[str, ...]) -> dict[str, Float32]:
        if not self._table:
            return {}
        places = np.array([names.index(name) for name in self._table_names])
        rows = {}
        for document, values in self._table.items():
            row = np.full(len(names), np.nan, np.float32)
            row[places] = values
            rows[document] = row
        return rows


# Ids that the service makes begin with this; clients may not choose such an id.
OWN = "."


class NotReadyError(RankloopError):
    """The service cannot serve anything yet."""


def new_id(now: float) -> str:
    """A new impression id: ordered by time, so that neighbours in time are neighbours in the index."""
    return f"{OWN}{int(now * 1000):012x}{secrets.token_hex(10)}"


def _warm_up(policy: LivePolicy) -> None:
    """Score and draw once, so that the first request need not wait for kernels to be loaded or compiled."""
    zeros = np.zeros((2, len(policy.feature_names)), np.float32)
    draw_ranking(policy.scores(RankingProblem("", ("a", "b"), policy.feature_names, zeros)), 1, 0)


def _remember(done: Future[Served], stored: StoredProblems, key: tuple[bytes, int]) -> None:
    if not done.cancelled() and done.exception() is None:
        stored.add(key)


def _record(request: RankRequest) -> dict[str, Any]:
    filters = [
        {key: value for key, value in each.__dict__.items() if value is not None} for each in request.filters
    ]
    rules = {
        PINS: {str(position): document for position, document in sorted(request.pins.items())},
        EXCLUDE: list(request.exclude),
        FILTERS: filters,
    }
    return {name: value for name, value in rules.items() if value}
