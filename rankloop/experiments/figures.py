"""Figures: one look, readable in grey and for the colour-blind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from rankloop.experiments.ladder import Rung

# Okabe & Ito's palette, told apart by colour-blind readers; black is kept for reference lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
FORMATS = ("svg", "png")
STYLE: Any = {
    "figure.figsize": (7.0, 4.2),
    "figure.dpi": 120,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Ids in the file are made from this and not at random: same results, same file.
    "svg.hashsalt": "rankloop",
}


def save_figure(figure: Any, stem: Path) -> list[Path]:
    """Write a figure in every format; the paths say where."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(f".{ending}") for ending in FORMATS]
    for path in paths:
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def learning_curves(rungs: list[Rung], metric: str, stem: Path) -> list[Path]:
    """The held-out value of every trained rung by epoch, with the test value of the random ranker."""
    # A figure of its own, not one of pyplot's: the caller's windows and backend are left alone.
    with matplotlib.rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        trained = [rung for rung in rungs if rung.training is not None]
        for i, rung in enumerate(trained):
            assert rung.training is not None
            epochs = [epoch.number for epoch in rung.training.history]
            values = [epoch.held_out for epoch in rung.training.history]
            label = f"{rung.name}: {rung.queries:,} queries"
            axes.plot(epochs, values, color=COLOURS[i], linestyle=DASHES[i], label=label)
            best = rung.training.best
            axes.plot(best.number, best.held_out, "o", color=COLOURS[i], markersize=6)
        for rung in rungs:
            if rung.training is None:
                axes.axhline(rung.policy, color="black", linewidth=1, label=f"{rung.name} (test queries)")
        axes.set_xlabel("epoch (circles: the model that was kept)")
        axes.set_ylabel(f"expected {metric} on held-out queries")
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.22), ncols=2, borderaxespad=0)
        return save_figure(figure, stem)


def loop_curves(rows: list[dict[str, Any]], metric: str, stem: Path) -> list[Path]:
    """The learned and the logging policy of a loop by the number of interactions so far."""
    with matplotlib.rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        times = [row["timesteps"] for row in rows]
        for i, (column, label) in enumerate((("learned", "learned policy"), ("logging", "logging policy"))):
            values = [row[column] for row in rows]
            axes.plot(times, values, "o", color=COLOURS[i], linestyle=DASHES[i], markersize=3, label=label)
        axes.set_xscale("log")
        axes.set_xlabel("logged interactions")
        axes.set_ylabel(f"expected {metric} on test queries")
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.18), ncols=2, borderaxespad=0)
        return save_figure(figure, stem)
