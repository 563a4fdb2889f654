"""The contract of all users."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.checks.contract import Clause
from rankloop.checks.users import USERS_CLAUSES
from rankloop.clicks import USERS, AffineModel, NamedUsers, Users, bias_of, gather, users
from rankloop.errors import RankloopError
from rankloop.names import parse
from tests.checks.registered import built_in

NAMES = [
    "affine(alpha=0.35:0.53, beta=0.65:0.26)",
    "affine(alpha=0.25:1e-05, beta=0.75:0, examination=1:0.5)",
    "cascade@5",
    "cascade@3(abandon=0.1, noise=0.2, stop=1)",
    "paper@5",
    "paper@10(rounded=on)",
    "position@10",
    "position@2(eta=0.5)",
]


def test_every_kind_is_covered() -> None:
    assert {parse(name).name for name in NAMES} == built_in(USERS)


@pytest.mark.parametrize("name", NAMES)
class TestUsers:
    def test_names_round_trip(self, name: str) -> None:
        assert str(users(name)) == name

    @pytest.mark.parametrize("clause", USERS_CLAUSES, ids=repr)
    def test_all_users_keep_the_contract(self, name: str, clause: Clause[NamedUsers]) -> None:
        clause(users(name))

    def test_arrays_are_read_only(self, name: str) -> None:
        with pytest.raises(ValueError, match="read-only"):
            users(name).behaviour.alpha[0] = 0.5

    def test_the_number_of_ranks_is_that_of_the_name(self, name: str) -> None:
        assert users(name).behaviour.positions == (parse(name).cutoff or 2)
        assert users(name).behaviour.table.shape == (5, users(name).behaviour.positions)

    def test_users_who_are_not_affine_have_no_bias(self, name: str) -> None:
        some = users(name)
        assert isinstance(some, AffineModel) != some.behaviour.stops
        if not isinstance(some, AffineModel):
            with pytest.raises(RankloopError, match="no α and β per rank"):
                bias_of(some)

    def test_relevant_documents_get_more_clicks(self, name: str) -> None:
        """One document is certainly relevant, the other is not. The order cannot change by chance:
        every user here clicks on the first at rank 1 at least 1.5 times as often, 20 standard errors.
        """
        some: Users = users(name)
        counts = gather(np.zeros(2), np.array([0, 2]), [1.0, 0.0], some, 10_000, np.random.default_rng(0))
        assert counts.clicks_by_position[0, 0] > 1.2 * counts.clicks_by_position[1, 0]
