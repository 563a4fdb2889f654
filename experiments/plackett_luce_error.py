"""How the error of Plackett–Luce marginals decreases with the quadrature step: docs/plackett-luce.md.

    python -m experiments.plackett_luce_error docs/figures/plackett-luce-error.svg

This is a second implementation of the formulas in plain NumPy, which shares no code with the kernels: the
Poisson-binomial distribution of every document is computed separately, without a backward pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import permutations
from math import lgamma
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Nodes = tuple[Float64, Float64]
Rule = Callable[[Float64, int, float], Nodes]

STEPS = [0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15]
SPREADS = [0.0, 1.0, 5.0, 30.0, 2000.0]
DOCUMENTS, VECTORS = 6, 20
TIED, RANKS, RANK_STEPS = 400, [1, 5, 8, 16, 32, 64, 128], [0.3, 0.25, 0.2, 0.15, 0.1]
# Relative errors leave out probabilities below this.
SMALLEST = 1e-12
# The windows of the kernels, here as plain numbers: first node, left and right tail.
FIRST, LEFT, RIGHT = -3.0, 20.0, 32.0
# exp(−exp(6.5)) is 1e-289: no later time matters.
LARGEST_LOG = 6.5


def enumerated(scores: Float64, ranks: int) -> Float64:
    """P(rank of d is k), documents × ranks, as a sum over all rankings."""
    rankings = np.array(list(permutations(range(len(scores)))))
    placed = scores[rankings]
    remaining = np.logaddexp.accumulate(placed[:, ::-1], axis=1)[:, ::-1]
    chance = np.exp((placed - remaining).sum(axis=1))
    return np.stack([np.bincount(rankings[:, k], chance, len(scores)) for k in range(ranks)], axis=1)


def log_total(scores: Float64) -> float:
    """``log Σ exp(s)``."""
    return float(np.logaddexp.reduce(scores))


def last_moment(scores: Float64, ranks: int) -> float:
    """The log time at which ``n^ranks · exp(−t · rate of the slowest n − ranks + 1)`` is exp(−RIGHT)."""
    slowest = np.sort(scores)[: len(scores) - ranks + 1]
    return float(np.log(RIGHT + ranks * np.log(len(scores)))) - log_total(slowest)


def plain_lattice(scores: Float64, ranks: int, step: float) -> Nodes:
    """``x = x_0 + i·step`` from where 1e-10 of the first arrivals have happened to the last moment."""
    x = np.arange(-log_total(scores) + FIRST - np.exp(-FIRST), last_moment(scores, ranks) + step, step)
    return x, np.full(len(x), step)


def bent_lattice(scores: Float64, ranks: int, step: float, first: float = FIRST) -> Nodes:
    """``x = origin + y − exp(−y)``, the left tail made doubly exponential."""
    origin = -log_total(scores)
    y = np.arange(first, last_moment(scores, ranks) - origin + step, step)
    return origin + y - np.exp(-y), step * (1.0 + np.exp(-y))


def windowed_lattice(scores: Float64, ranks: int, step: float) -> Nodes:
    """The bent lattice without the stretches in which none of the first ranks can be taken."""
    x, dx = bent_lattice(scores, ranks, step)
    n, fastest = len(scores), np.sort(scores)[::-1][:ranks]
    closing = np.log(RIGHT + ranks * np.log(n)) - fastest
    opening = -fastest - LEFT - np.log(n)
    opening[0] = -np.inf
    busy = ((x[:, None] >= opening) & (x[:, None] <= closing)).any(axis=1)
    return x[busy], dx[busy]


def marginals(scores: Float64, ranks: int, nodes: Nodes) -> Float64:
    """``Σ_nodes dx · f_d(x) · P(m of the others have arrived)``, documents × ranks."""
    x, dx = nodes
    elapsed = np.exp(np.minimum(scores[:, None] + x, LARGEST_LOG))
    waiting, arrived = np.exp(-elapsed), -np.expm1(-elapsed)
    table = np.empty((len(scores), ranks))
    for d in range(len(scores)):
        ahead = np.zeros((ranks, len(x)))
        ahead[0] = 1.0
        for j in range(len(scores)):
            if j != d:
                ahead[1:] = waiting[j] * ahead[1:] + arrived[j] * ahead[:-1]
                ahead[0] *= waiting[j]
        table[d] = ahead @ (dx * elapsed[d] * waiting[d])
    return table


def random_scores(spread: float, seed: int) -> Float64:
    """Scores in clusters (cubes of normals) that span exactly ``spread``."""
    cubes = np.random.default_rng(seed).normal(size=DOCUMENTS) ** 3
    return np.asarray(spread * (cubes - cubes.min()) / np.ptp(cubes))


def error_and_nodes(rule: Rule, spread: float, step: float, ranks: int = DOCUMENTS) -> tuple[float, float]:
    """The largest relative error over the random vectors, and the mean number of nodes."""
    worst, count = 0.0, 0
    for seed in range(VECTORS):
        scores = random_scores(spread, seed)
        nodes = rule(scores, ranks, step)
        listed = enumerated(scores, ranks)
        seen = listed > SMALLEST
        worst = max(worst, float(np.abs(marginals(scores, ranks, nodes)[seen] / listed[seen] - 1.0).max()))
        count += len(nodes[0])
    return worst, count / VECTORS


RULES: dict[str, Rule] = {
    "plain": plain_lattice,
    "substituted": bent_lattice,
    "substituted, in windows": windowed_lattice,
}
Errors = dict[tuple[str, float, float], tuple[float, float]]


def last_position_error(ranks: int, step: float) -> float:
    """The relative error of P(rank = ranks) of one of TIED equal documents, at its worst on the lattice."""
    ways = lgamma(TIED) - lgamma(ranks) - lgamma(TIED - ranks + 1)
    worst = 0.0
    for shift in np.linspace(0.0, step, 9)[:-1]:
        x, dx = bent_lattice(np.zeros(TIED), ranks, step, FIRST - shift)
        elapsed = np.exp(np.minimum(x, LARGEST_LOG))
        log_chance = ways + (ranks - 1) * np.log(-np.expm1(-elapsed)) - (TIED - ranks + 1) * elapsed
        worst = max(worst, abs(TIED * float((dx * elapsed * np.exp(log_chance)).sum()) - 1.0))
    return worst


def predicted_error(ranks: int, step: float) -> float:
    """``2 |Γ(a + 2πi / step)| / Γ(a)`` at a = ranks: what the plain trapezoid rule errs on t^a exp(−t) dx."""
    from scipy.special import loggamma

    return float(2.0 * np.exp(loggamma(ranks + 2j * np.pi / step).real - loggamma(ranks)))


def print_tables(errors: Errors) -> None:
    """Print the tables of the docs."""
    for name in RULES:
        print(f"\n{name}: largest relative error (mean number of nodes), by step and spread of the scores")
        print("step " + "".join(f"{spread:>18g}" for spread in SPREADS))
        for step in STEPS:
            cells = (errors[name, spread, step] for spread in SPREADS)
            print(f"{step:4.2f} " + "".join(f"{error:10.1e} ({nodes:5.0f})" for error, nodes in cells))
    print(f"\nrelative error at rank K of {TIED} equal documents (and as predicted), by K and step")
    print("   K " + "".join(f"{step:>20g}" for step in RANK_STEPS))
    for ranks in RANKS:
        pairs = ((last_position_error(ranks, step), predicted_error(ranks, step)) for step in RANK_STEPS)
        print(f"{ranks:4d} " + "".join(f"{error:10.0e} ({guess:.0e})" for error, guess in pairs))


def draw(errors: Errors, path: Path) -> None:
    """Draw error by step, for every spread, and by number of nodes, plain against substituted."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "rankloop", "font.size": 10, "axes.spines.top": False})
    mpl.rcParams.update({"axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3})
    figure, (by_step, by_nodes) = plt.subplots(1, 2, figsize=(9.6, 4.0), sharey=True, layout="constrained")

    def line(name: str, spread: float) -> tuple[list[float], list[float]]:
        pairs = [errors[name, spread, step] for step in STEPS]
        return [nodes for _, nodes in pairs], [error for error, _ in pairs]

    # Okabe and Ito's colours; markers differ too.
    styles = zip(["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"], "osD^v", strict=True)
    for spread, (colour, marker) in zip(SPREADS, styles, strict=True):
        _, error = line("substituted, in windows", spread)
        by_step.semilogy(STEPS, error, color=colour, marker=marker, markersize=5, label=f"spread {spread:g}")
    by_step.axvline(0.3, color="0.4", linestyle=":", linewidth=1.2)
    by_step.text(0.295, 2e-3, "step of the kernels\nup to 8 ranks", fontsize=8.5, va="top", color="0.25")
    by_step.set(xlabel="step h", ylabel="largest relative error of a marginal", title="Error by step")
    by_step.invert_xaxis()
    by_step.legend(fontsize=8.5, loc="lower left")
    for name, colour, marker in (("plain", "#D55E00", "D"), ("substituted, in windows", "#0072B2", "s")):
        for spread, dash in ((1.0, "-"), (5.0, "--")):
            nodes, error = line(name, spread)
            label = f"{name.split(',')[0]}, spread {spread:g}"
            by_nodes.semilogy(nodes, error, dash, color=colour, marker=marker, markersize=5, label=label)
    by_nodes.set(xlabel="number of nodes", title="Error by number of nodes", xlim=(0, 180))
    by_nodes.legend(fontsize=8.5, loc="upper right")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=130)


def main(path: Path | None) -> None:
    """Measure and print the errors, and draw them if a path is given."""
    errors = {
        (name, spread, step): error_and_nodes(rule, spread, step)
        for name, rule in RULES.items()
        for spread in SPREADS
        for step in STEPS
    }
    print_tables(errors)
    if path is not None:
        draw(errors, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m experiments.plackett_luce_error", description=main.__doc__
    )
    parser.add_argument("path", type=Path, nargs="?", help="the figure to write, such as error.svg")
    main(**vars(parser.parse_args()))
