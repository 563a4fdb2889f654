"""Judge and draw stored reproductions again, with the bounds that earlier versions did not have.

    python -m experiments.paper_bounds docs/paper/medium OUT            # generated data
    python -m experiments.paper_bounds docs/paper/mq2008 OUT --data MQ2008

Adds to every row of the table what a competent supervised learner reaches and, for generated data, the scores
without noise; writes claims and figures to OUT/<name of the folder>. Runs are not needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.command import run
from experiments.long_horizon import FIGURE as LONG_HORIZON
from rankloop.experiments.reproduce.about import About, read_seconds
from rankloop.experiments.reproduce.reproduction import write_outcome
from rankloop.experiments.reproduce.results import AllRuns, read_table, write_table
from rankloop.experiments.setup import Environment


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", help="where the data is, if it is a file")
    given = parser.parse_args()
    about = About.read(given.folder)
    spec = about.preset.setup_spec(0)
    environment = Environment.load(spec.model_copy(update={"data": given.data or spec.data}))
    bounds = environment.bounds(spec.data, spec.metric)
    rows = [{**row, **bounds} for row in read_table(given.folder)]
    out = given.out / given.folder.name
    write_table(rows, out)
    about.write(out)
    seconds = sum(part.seconds for part in about.merged) or read_seconds(given.folder)
    done = write_outcome(out, about, about.shown_figures([LONG_HORIZON]), AllRuns.of(rows), seconds)
    print(given.folder.name, bounds, [one.outcome for one in done.judged].count("holds"))


if __name__ == "__main__":
    run(main)
