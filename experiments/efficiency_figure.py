"""The figure of the landing page: what is learned and what users are shown, from the rows of `loop_tables`.

    python -m experiments.efficiency_figure docs/figures/data-efficiency.svg FILE…

Means over the seeds that every learner has; bands are 90 % intervals over seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from rankloop.experiments.summary import Mean
from rankloop.reports.drawing import BAND_OPACITY, COLOURS, STYLE

# The learners of the figure: the name in the rows, the label, the colour of reports, the line.
LINES = (
    ("doubly robust", "rankloop, 20 deployments", COLOURS[0], "-"),
    ("pdgd", "PDGD, online", COLOURS[1], "--"),
    ("doubly-robust", "rankloop, static log", COLOURS[2], ":"),
)
PANELS = ("learned policy", "shown to users, on average so far")


def shown_on_average(curve: np.ndarray) -> np.ndarray:
    """The mean over all impressions so far of the value of the policy that served each of them."""
    lengths = np.diff(curve[:, 0], prepend=0.0)
    result: np.ndarray = np.cumsum(lengths * curve[:, 2]) / curve[:, 0]
    return result


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Draw both panels."""
    curves = {(row["learner"], row["seed"]): np.array(row["curve"], dtype=float) for row in rows}
    seeds = set.intersection(*({seed for name, seed in curves if name == line[0]} for line in LINES))
    starts = {row["seed"]: row["start"] for row in rows}
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, 2, sharey=True), PANELS, strict=True):
        for name, label, colour, style in LINES:
            chosen = [curves[name, seed] for seed in sorted(seeds)]
            times = chosen[0][:, 0]
            values = [curve[:, 1] if panel == PANELS[0] else shown_on_average(curve) for curve in chosen]
            means = [Mean.of(np.array(column)) for column in zip(*values, strict=True)]
            middle = np.array([mean.value for mean in means])
            half = np.array([mean.half_width for mean in means])
            marker = "o" if len(times) < 5 else None
            axes.plot(times, middle, color=colour, linestyle=style, marker=marker, label=label)
            axes.fill_between(
                times, middle - half, middle + half, color=colour, alpha=BAND_OPACITY, linewidth=0
            )
        axes.axhline(np.mean([starts[seed] for seed in seeds]), color="0.5", linewidth=1.0)
        axes.text(1.1e2, np.mean([starts[seed] for seed in seeds]), "start", va="bottom", color="0.4")
        axes.set(xscale="log", title=panel, xlabel="impressions")
    figure.axes[0].set_ylabel(f"NDCG@5 ({len(seeds)} collections, simulated users)")
    figure.axes[0].legend(loc="upper left", frameon=False)
    return figure


def main() -> None:
    """Read the rows and write the figure."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.efficiency_figure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("results", type=Path, nargs="+")
    given = parser.parse_args()
    rows = [json.loads(line) for path in given.results for line in path.read_text().splitlines()]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "rankloop"}):
        draw(rows).savefig(given.out, metadata={"Date": None})
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
