"""The paper's claims with a collection and a start per run, and with the authors' times of deployment.

    python -m experiments.paper_collections run FOLDER --runs 1 10 --learners intervention-aware-5 …
    python -m experiments.paper_collections show FOLDER OUT

The runs of a preset share one collection, so their intervals are about users: what other clicks would have
changed. Here run k has the collection of seed k, in the size of the medium preset, and the production ranker
that the authors' programs train on it, so that intervals are about collections, too. Policies are deployed
when the authors' programs deploy them, up to 10⁸ impressions. `run` resumes; `show` writes the table, the
claims and the figures that there are runs for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.command import run as run_command
from rankloop.experiments.reproduce import plan, reproduce
from rankloop.experiments.reproduce.claims import CLAIMS, judge
from rankloop.experiments.reproduce.claims.estimators import PAPER_HORIZON
from rankloop.experiments.reproduce.figures import FIGURES, figures_with
from rankloop.experiments.reproduce.plots import write_figure
from rankloop.experiments.reproduce.presets import MEDIUM, Preset
from rankloop.experiments.reproduce.report import claims_document, summary
from rankloop.experiments.reproduce.reproduction import CLAIMS_PAGE
from rankloop.experiments.reproduce.reproduction import FIGURES as FIGURE_FOLDER
from rankloop.experiments.reproduce.results import PARQUET, AllRuns, read_table, write_table
from rankloop.reports.markdown import markdown_page
from rankloop.storage.files import write_whole

LEARNERS = ("intervention-aware-5", "intervention-aware-50")


def preset_of(number: int) -> Preset:
    """The medium preset on the collection of a run."""
    return MEDIUM.model_copy(
        update={
            "data": f"synthetic(queries=6000, features=136, seed={number})",
            "horizon": PAPER_HORIZON,
            "times": "authors",
            "runs": number + 1,
        }
    )


def make(folder: Path, numbers: Sequence[int], learners: Sequence[str]) -> None:
    """Make the runs that are missing, a collection at a time, so that learners can be compared early."""
    figures = figures_with(learners)
    for number in numbers:
        reproduce(plan(preset_of(number), figures, folder / str(number), (number,), learners))
        print(number, flush=True)


def show(folder: Path, out: Path) -> None:
    """Put the tables together, and judge the claims."""
    tables = [read_table(path.parent) for path in sorted(folder.glob(f"*/{PARQUET}"))]
    rows = [row for table in tables for row in table]
    evidence = AllRuns.of(rows)
    judged = [judge(claim, evidence) for claim in CLAIMS]
    seeds = ", ".join(str(seed) for seed in evidence.seeds)
    made = {arm.name: len(curves.seeds) for arm, curves in evidence.learned.items()}
    about = {
        "command": "python -m experiments.paper_collections run FOLDER",
        "data": f"synthetic(queries=6000, features=136, seed=RUN) for the runs {seeds}: a collection each",
        "production ranker": "the authors' on each collection",
        "times of deployment": "those of the authors' programs",
        "impressions": f"{PAPER_HORIZON:,}; PDGD {MEDIUM.horizons['pdgd']:,}",
        "runs": ", ".join(f"{name} {count}" for name, count in made.items()),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_table(rows, out)
    for figure in FIGURES.values():
        if any(arm in evidence.learned for arm in getattr(figure, "arms", ())):
            write_figure(figure, evidence, out / FIGURE_FOLDER)
    write_whole(out / CLAIMS_PAGE, markdown_page(claims_document(judged, about)).encode())
    print(summary(judged))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("run")
    making.add_argument("folder", type=Path)
    making.add_argument("--runs", type=int, nargs=2, default=(1, 10), metavar=("FIRST", "LAST"))
    making.add_argument("--learners", nargs="+", default=LEARNERS)
    showing = commands.add_parser("show")
    showing.add_argument("folder", type=Path)
    showing.add_argument("out", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        make(given.folder, range(given.runs[0], given.runs[1] + 1), given.learners)
    else:
        show(given.folder, given.out)


if __name__ == "__main__":
    run_command(main)
