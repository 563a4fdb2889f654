"""A few inputs of every campaign, with a fixed seed; `make attack` tries many more, with fresh ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attack import accounting, importers, moments, native, pages, readers, small_logs  # noqa: F401  (they register their campaigns)
from tests.attack.campaign import CAMPAIGNS, carry_out
from tests.attack.separate import carry_out_separately

# Fixed, so that a failure belongs to a change; RANKLOOP_ATTACK_SEED tries another one.
SEED = int(os.environ.get("RANKLOOP_ATTACK_SEED", "1"))


# Those that start a command for every input.
LONG = ("moments", "scarcity")
IN_PROCESS = [
    pytest.param(name, marks=pytest.mark.long if name in LONG else ())
    for name, one in CAMPAIGNS.items()
    if not one.separate
]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_campaign(name: str, tmp_path: Path) -> None:
    print(f"RANKLOOP_ATTACK_SEED={SEED}")  # noqa: T201
    outcome = carry_out(CAMPAIGNS[name], tmp_path, SEED, inputs=CAMPAIGNS[name].inputs)
    assert not outcome.defects, "\n".join(outcome.defects[:5])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, one in CAMPAIGNS.items() if one.separate])
def test_campaign_in_a_process_of_its_own(name: str) -> None:
    print(f"RANKLOOP_ATTACK_SEED={SEED}")  # noqa: T201
    outcome = carry_out_separately(name, SEED, inputs=CAMPAIGNS[name].inputs)
    assert not outcome.defects, "\n".join(outcome.defects[:5])
