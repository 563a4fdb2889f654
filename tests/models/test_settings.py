"""Settings that make no sense are refused."""

from __future__ import annotations

import pytest

from rankloop.errors import RankloopError
from rankloop.training import Settings


def test_negative_caution_is_refused() -> None:
    with pytest.raises(RankloopError, match="caution must be at least 0"):
        Settings(caution=-1.0)


@pytest.mark.parametrize("name", ["batch", "epochs", "least_steps", "patience"])
def test_settings_count_from_one(name: str) -> None:
    with pytest.raises(RankloopError, match=f"{name} must be at least 1, got 0"):
        Settings(**{name: 0})  # type: ignore[arg-type]
