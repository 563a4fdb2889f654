"""A readable reference for rankloop.online: NumPy in float64, one impression at a time, no kernels.

Probabilities of rankings are products over all ranks, nothing is shared between a ranking and its swaps, and
every document of a query goes through the network.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def log_probability(scores, ranking):
    """``log π(y)`` of a possibly truncated ranking."""
    left = np.ones(len(scores), bool)
    total = 0.0
    for d in ranking:
        total += scores[d] - np.logaddexp.reduce(scores[left])
        left[d] = False
    return total


def preferences(ranking, clicks):
    """Pairs (preferred, other) as ranks: clicked over not clicked, down to one past the last click."""
    if not any(clicks):
        return []
    last = max(k for k, clicked in enumerate(clicks) if clicked)
    considered = range(min(last + 2, len(ranking)))
    return [(k, m) for k in considered for m in considered if clicks[k] and not clicks[m]]


def swapped(ranking, k, m):
    other = list(ranking)
    other[k], other[m] = other[m], other[k]
    return other


def swap_chance(logging_scores, ranking, k, m):
    """The chance of the ranking with ranks k and m swapped, given that it is shown in either form."""
    log_odds = log_probability(logging_scores, swapped(ranking, k, m))
    log_odds -= log_probability(logging_scores, ranking)
    return np.exp(-np.logaddexp(0.0, -log_odds))


def pdgd_objective(scores, ranking, clicks, logging_scores, *, debiased=True):
    """``Σ ρ_kl σ(s_k − s_l)``, whose gradient by s is that of PDGD, with ρ fixed."""
    total = 0.0
    for k, m in preferences(ranking, clicks):
        rho = swap_chance(logging_scores, ranking, k, m) if debiased else 1.0
        total += rho * np.exp(-np.logaddexp(0.0, scores[ranking[m]] - scores[ranking[k]]))
    return total


def pdgd_gradient(scores, ranking, clicks, logging_scores, *, debiased=True):
    gradient = np.zeros(len(scores))
    for k, m in preferences(ranking, clicks):
        rho = swap_chance(logging_scores, ranking, k, m) if debiased else 1.0
        difference = abs(scores[ranking[k]] - scores[ranking[m]])
        slope = rho * np.exp(-difference - 2.0 * np.log1p(np.exp(-difference)))
        gradient[ranking[k]] += slope
        gradient[ranking[m]] -= slope
    return gradient


def layers(parameters, widths):
    """The weights and biases of each layer, as views."""
    at = 0
    for n_in, n_out in pairwise(widths):
        weights = parameters[at : at + n_in * n_out].reshape(n_in, n_out)
        at += n_in * n_out
        yield weights, parameters[at : at + n_out]
        at += n_out


def forward(features, parameters, widths):
    """Compute the activations of every layer of a sigmoid network; the last are the scores."""
    values = [features.astype(np.float64)]
    for number, (weights, bias) in enumerate(layers(parameters, widths)):
        out = values[-1] @ weights + bias
        values.append(out if number == len(widths) - 2 else 1.0 / (1.0 + np.exp(-out)))
    return values


def scores(features, parameters, widths):
    return forward(features, parameters, widths)[-1][:, 0]


def parameter_gradient(features, parameters, widths, score_gradient):
    values, gradient = forward(features, parameters, widths), np.zeros_like(parameters)
    delta = score_gradient[:, None]
    shapes, parts = list(layers(parameters, widths)), list(layers(gradient, widths))
    for number in range(len(widths) - 2, -1, -1):
        parts[number][0][:] = values[number].T @ delta
        parts[number][1][:] = delta.sum(axis=0)
        delta = (delta @ shapes[number][0].T) * values[number] * (1.0 - values[number])
    return gradient


def snips_risk(scores, logging_scores, ranking, clicks, *, variance=1.0):
    clicked = [k for k, click in enumerate(clicks) if click]
    losses = np.array([float(not c and bool(clicked) and k < clicked[-1]) for k, c in enumerate(clicks)])
    ratios = []
    left = np.ones(len(scores), bool)
    for d in ranking:
        chance = np.exp(scores[d]) / np.exp(scores[left]).sum()
        logged = np.exp(logging_scores[d]) / np.exp(logging_scores[left]).sum()
        ratios.append(chance / logged)
        left[d] = False
    ratios = np.array(ratios)
    loss = (ratios @ losses) / ratios.sum()
    return loss + variance * np.sqrt((ratios**2 * (losses - loss) ** 2).sum()) / ratios.sum()


def coltr_step(features, parameters, widths, ranking, clicks, *, candidates, variance, rng):
    """Compute the mean of the winning unit directions, each drawn in full; None if none wins."""
    now = scores(features, parameters, widths)
    bar = snips_risk(now, now, ranking, clicks, variance=variance)
    directions = rng.normal(size=(candidates, len(parameters)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    winners = [
        u
        for u in directions
        if snips_risk(scores(features, parameters + u, widths), now, ranking, clicks, variance=variance) < bar
    ]
    return np.mean(winners, axis=0) if winners else None
