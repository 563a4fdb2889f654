"""Two claims of the paper that need 10⁸ impressions, at the size of the medium preset.

    python -m experiments.long_horizon FOLDER --seeds 0 3

The medium preset ends at 4·10⁷. These are the runs that decide whether static estimators have converged at
10⁸, and how much more data 5 interventions need than 50. The folder is that of a reproduction: an interrupted
command resumes, and `claims.md` has the decisions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.command import run
from rankloop.experiments.reproduce import plan, reproduce
from rankloop.experiments.reproduce.claims.estimators import PAPER_HORIZON
from rankloop.experiments.reproduce.figures import (
    AWARE,
    POLICY_AWARE,
    CurvesFigure,
    learned_and_logging,
    line,
)
from rankloop.experiments.reproduce.presets import MEDIUM

FIGURE = CurvesFigure(
    name="long-horizon",
    caption="To 10⁸ impressions: two estimators without interventions, and one with 5 and with 50.",
    panels=learned_and_logging(
        line(AWARE, 0, "intervention-aware, no interventions", 0),
        line(POLICY_AWARE, 0, "policy-aware, no interventions", 2),
        line(AWARE, 5, "intervention-aware, 5 interventions", 1),
        line(AWARE, 50, "intervention-aware, 50 interventions", 4),
    ),
)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 3), metavar=("FIRST", "LAST"))
    given = parser.parse_args()
    preset = MEDIUM.model_copy(update={"horizon": PAPER_HORIZON})
    seeds = range(given.seeds[0], given.seeds[1] + 1)
    planned = plan(preset, [FIGURE], given.folder, tuple(seeds))
    print(planned, flush=True)
    for claim in reproduce(planned).judged:
        if claim.outcome != "undecided" and claim.where.startswith("Figure"):
            print(f"{claim.name}: {claim.outcome}")


if __name__ == "__main__":
    run(main)
