"""Fixtures of the models' tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def torch() -> Any:
    """The package torch; tests that use it are marked ``extras``."""
    return pytest.importorskip("torch", reason='torch is not installed: pip install "rankloop[torch]"')
