"""Live equals offline: over HTTP, from users to the weights that `fit` learns from."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.live_traffic import run


@pytest.mark.long
def test_a_log_that_came_over_http_is_worth_what_its_users_counted(tmp_path: Path) -> None:
    found = run("http", 1000, str(tmp_path))
    assert (found["pages"], found["impressions"], found["refused"]) == (1000, 1000, 0)
    assert found["clicks"] > 500
    assert found["difference"] < 1e-9
    last = found["samples"][-1]
    assert last["threads"] < 60
    assert last["files"] < 100


def test_the_service_is_worth_the_same_without_http(tmp_path: Path) -> None:
    found = run("service", 600, str(tmp_path))
    assert (found["pages"], found["impressions"]) == (600, 600)
    assert found["difference"] < 1e-9
