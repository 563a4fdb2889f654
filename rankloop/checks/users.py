"""The contract of all users, and of all mappings from labels to relevance."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.checks.contract import VALUE_CLAUSES, Clause, check_all, require, require_refused, require_same
from rankloop.clicks import AffineModel, Behaviour, NamedUsers, Relevance, bias_of, gather
from rankloop.errors import DataError

IMPRESSIONS = 200
MAX_LABEL = 4.0


@Clause
def behave_the_same_each_time(users: NamedUsers) -> None:
    """`behaviour` is a `Behaviour`, and the same each time."""
    first, second = users.behaviour, users.behaviour
    require(isinstance(first, Behaviour), f"it is a {type(first).__name__}")
    require_same(first.table, second.table, "the behaviour of two calls")


@Clause
def see_as_many_ranks_as_their_name_says(users: NamedUsers) -> None:
    """The cut-off, if the users have one, is the number of ranks."""
    ranks = users.behaviour.positions
    require(getattr(users, "cutoff", ranks) == ranks, f"the behaviour has {ranks} ranks")


@Clause
def have_the_bias_they_behave_by(users: NamedUsers) -> None:
    """The α and β of affine users are those of their behaviour, and they never stop; others have no bias."""
    if not isinstance(users, AffineModel):
        require_refused(DataError, "the bias of users who are not affine", bias_of, users)
        return
    require_same(users.bias.alpha, users.behaviour.alpha, "alpha of the bias and of the behaviour")
    require_same(users.bias.beta, users.behaviour.beta, "beta of the bias and of the behaviour")
    require(not users.behaviour.stops, "they stop before the last rank")


@Clause
def can_be_simulated(users: NamedUsers) -> None:
    """They click only on what is shown, and the same generator gives the same clicks."""
    offsets, relevance = np.array([0, 2, 5]), np.array([1.0, 0.0, 0.5, 0.0, 1.0])
    first, second = (
        gather(np.zeros(5), offsets, relevance, users, IMPRESSIONS, np.random.default_rng(0))
        for _ in range(2)
    )
    for name in ("impressions_by_query", "displays_by_position", "clicks_by_position"):
        a, b = getattr(first, name), getattr(second, name)
        require_same(a, b, f"{name} of two simulations with the same seed")
    require((first.clicks_by_position <= first.displays_by_position).all(), "they click on what is not shown")


USERS_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    behave_the_same_each_time,
    see_as_many_ranks_as_their_name_says,
    have_the_bias_they_behave_by,
    can_be_simulated,
)


def check_users(users: NamedUsers) -> None:
    """Check that users keep the contract of `rankloop.clicks.NamedUsers`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.clicks import CascadeUsers
        >>> check_users(CascadeUsers(cutoff=3, stop=0.5))
    """
    check_all(users, USERS_CLAUSES)


@Clause
def maps_labels_to_chances(relevance: Relevance) -> None:
    """The relevance is float64 in [0, 1], of the shape of the labels, and labels are not changed."""
    for labels in (_labels(relevance), np.empty(0), _labels(relevance)[1:].reshape(2, 2)):
        before = labels.copy()
        mapped = relevance.of(labels)
        require_same(labels, before, "the call changes its input labels")
        require(mapped.shape == labels.shape, f"labels of shape {labels.shape} become {mapped.shape}")
        require(mapped.dtype == np.float64, f"the relevance is {mapped.dtype}")
        require(((mapped >= 0.0) & (mapped <= 1.0)).all(), f"labels {labels} become {mapped}")


@Clause
def looks_at_each_label_alone(relevance: Relevance) -> None:
    """The relevance of a document does not depend on the labels of the others."""
    labels = _labels(relevance)
    alone = [relevance.of([label])[0] for label in labels]
    require_same(relevance.of(labels), alone, "labels together and alone")


@Clause
def never_falls(relevance: Relevance) -> None:
    """A higher label is not less relevant."""
    mapped = relevance.of(_labels(relevance))
    require((np.diff(mapped) >= 0.0).all(), f"ascending labels become {mapped}")


@Clause
def refuses_labels_that_are_not_grades(relevance: Relevance) -> None:
    """Negative, infinite and undefined labels are refused with DataError."""
    for label in (-1.0, np.nan, np.inf):
        require_refused(DataError, f"a label of {label}", relevance.of, [0.0, label])


RELEVANCE_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    maps_labels_to_chances,
    looks_at_each_label_alone,
    never_falls,
    refuses_labels_that_are_not_grades,
)


def check_relevance(relevance: Relevance) -> None:
    """Check that a mapping keeps the contract of `rankloop.clicks.Relevance`.

    Labels run from 0 to 4, or to the mapping's own ``max_label``.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.clicks import relevance
        >>> check_relevance(relevance("binary(relevant_from=3)"))
    """
    check_all(relevance, RELEVANCE_CLAUSES)


def _labels(relevance: Relevance) -> Any:
    return np.linspace(0.0, min(MAX_LABEL, getattr(relevance, "max_label", MAX_LABEL)), 5)
