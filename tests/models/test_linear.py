"""Linear scores, by hand."""

from __future__ import annotations

import hashlib
import struct

import numpy as np

from rankloop.models import SGD, Linear

FEATURES = np.array([[1.0, 2.0], [0.0, -1.0]], np.float32)


def test_scores_are_a_dot_product_and_a_bias() -> None:
    model = Linear(2, np.array([0.5, 3.0, -1.0], np.float32))
    np.testing.assert_array_equal(model.scores(FEATURES), [0.5 + 2 * 3.0 - 1.0, -3.0 - 1.0])


def test_gradient_is_the_weighted_sum_of_the_features() -> None:
    model = Linear(2, np.zeros(3))
    gradient = model.gradient(FEATURES, np.array([0.5, -2.0]))
    np.testing.assert_array_equal(gradient, [0.5 * 1, 0.5 * 2 + -2.0 * -1, 0.5 - 2.0])


def test_a_step_of_ascent() -> None:
    learner = Linear(2, np.array([1.0, 1.0, 1.0])).learner(SGD(rate=0.25))
    learner.update(FEATURES, np.array([0.5, -2.0]))
    np.testing.assert_array_equal(learner.parameters, [1 + 0.25 * 0.5, 1 + 0.25 * 3.0, 1 + 0.25 * -1.5])


def test_golden_fingerprint() -> None:
    """If this changes, the names of all stored models change: that needs a new version of the format."""
    head = b'rankloop-model\nlinear\n{"dtype":"float32","n_features":2}\n'
    by_definition = hashlib.sha256(head + struct.pack("<3f", 0.5, 3.0, -1.0)).hexdigest()[:16]
    assert by_definition == "6cca00df1c9d5cdb"
    assert Linear(2, np.array([0.5, 3.0, -1.0], np.float32)).fingerprint == by_definition


def test_its_representation_shows_no_hidden_layers() -> None:
    assert repr(Linear(2, np.zeros(3))) == "Linear(n_features=2)"
