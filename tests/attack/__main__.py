"""Long campaigns: ``python -m tests.attack --seed 7 --budget 600 [--only letor …]``; ``make attack``.

With ``--journal FILE --inputs N`` a campaign that is ended resumes where it was.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from pathlib import Path

from tests.attack import accounting, importers, moments, native, pages, readers, small_logs  # noqa: F401  (they register their campaigns)
from tests.attack.campaign import CAMPAIGNS, Outcome, carry_out
from tests.attack.separate import carry_out_separately, serve

# Defects to print of each campaign.
SHOWN = 5
# Seconds after which the journal is written.
PART = 60.0


def main() -> int:
    """Run campaigns, print what they found, and fail if it is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="random seed; a fresh one is printed")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each campaign")
    parser.add_argument("--inputs", type=int, default=None, help="inputs of each campaign, at most")
    parser.add_argument("--journal", type=Path, default=None, help="JSON lines of what has been tried")
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
        if given.journal is None:
            outcome = run(name, seed, given.inputs, given.budget)
        else:
            outcome = run_in_parts(name, seed, given.inputs, given.journal)
        failed |= bool(outcome.defects)
        print(f"{name:16} {outcome.inputs:9,} inputs {len(outcome.defects):5} defects", flush=True)  # noqa: T201
        for defect in outcome.defects[:SHOWN]:
            print(f"    {defect}", flush=True)  # noqa: T201
    return int(failed)


def run(name: str, seed: int, inputs: int | None, budget: float | None, first: int = 0) -> Outcome:
    """One campaign, in a process of its own if need be."""
    if CAMPAIGNS[name].separate:
        return carry_out_separately(name, seed, inputs=inputs, budget=budget, first=first)
    with tempfile.TemporaryDirectory() as folder:
        return carry_out(CAMPAIGNS[name], Path(folder), seed, inputs=inputs, budget=budget, first=first)


def run_in_parts(name: str, seed: int, inputs: int, journal: Path) -> Outcome:
    """One campaign in parts of `PART` seconds, each of which the journal remembers."""
    total = Outcome()
    lines = journal.read_text().splitlines() if journal.exists() else []
    for part in map(json.loads, lines):
        if (part["campaign"], part["seed"]) == (name, seed):
            total.add(Outcome(part["inputs"], part["defects"], part["seconds"]))
    while total.inputs < inputs:
        found = run(name, seed, inputs - total.inputs, PART, total.inputs)
        total.add(found)
        with journal.open("a") as file:
            file.write(json.dumps({"campaign": name, "seed": seed, **vars(found)}) + "\n")
    return total


if __name__ == "__main__":
    sys.exit(main())
