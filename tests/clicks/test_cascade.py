"""The behaviour of cascade users per rank; test_simulation.py tests their clicks."""

from __future__ import annotations

import numpy as np

from rankloop.clicks import CascadeUsers


def test_all_ranks_have_the_same_behaviour() -> None:
    behaviour = CascadeUsers(3, stop=0.6, noise=0.1, abandon=0.2).behaviour
    np.testing.assert_allclose(behaviour.beta, [0.1] * 3)
    np.testing.assert_allclose(behaviour.alpha + behaviour.beta, [0.9] * 3)
    np.testing.assert_allclose(behaviour.stop_clicked, [0.6] * 3)
    np.testing.assert_allclose(behaviour.stop_skipped, [0.2] * 3)
    assert behaviour.stop_relevant.tolist() == [0.0] * 3


def test_users_who_never_leave_are_affine() -> None:
    assert not CascadeUsers(3, stop=0).behaviour.stops
    assert CascadeUsers(3, stop=0, abandon=0.1).behaviour.stops
