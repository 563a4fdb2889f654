"""Long campaigns: ``python -m tests.attack --seed 7 --budget 600 [--only letor …]``; ``make attack``."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.attack import accounting, moments, native, pages, readers  # noqa: F401  (they register their campaigns)
from tests.attack.campaign import CAMPAIGNS, Outcome, carry_out
from tests.attack.separate import carry_out_separately, serve

# Defects to print of each campaign.
SHOWN = 5


def main() -> int:
    """Run campaigns, print what they found, and fail if it is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="random seed; a fresh one is printed")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each campaign")
    parser.add_argument("--inputs", type=int, default=None, help="inputs of each campaign, at most")
    parser.add_argument("--only", nargs="*", default=list(CAMPAIGNS), choices=list(CAMPAIGNS))
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve[0], int(given.serve[1]), int(given.serve[2]))
        return 0
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    failed = False
    for name in given.only:
        outcome = run(name, seed, given.inputs, given.budget)
        failed |= bool(outcome.defects)
        print(f"{name:16} {outcome.inputs:9,} inputs {len(outcome.defects):5} defects", flush=True)  # noqa: T201
        for defect in outcome.defects[:SHOWN]:
            print(f"    {defect}", flush=True)  # noqa: T201
    return int(failed)


def run(name: str, seed: int, inputs: int | None, budget: float | None) -> Outcome:
    """One campaign, in a process of its own if need be."""
    if CAMPAIGNS[name].separate:
        return carry_out_separately(name, seed, inputs=inputs, budget=budget)
    with tempfile.TemporaryDirectory() as folder:
        return carry_out(CAMPAIGNS[name], Path(folder), seed, inputs=inputs, budget=budget)


if __name__ == "__main__":
    sys.exit(main())
