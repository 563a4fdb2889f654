"""The risk of a policy on an impression that another one logged, by self-normalised importance weights."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.ranking_samples import add_exponentials, log_remaining


@kernel
def mark_losses(clicked, length, losses):
    """A loss of 1 for each document that was skipped: not clicked, with a click below it. Return the sum."""
    total, below = 0.0, False
    for k in range(length - 1, -1, -1):
        losses[k] = 1.0 if below and not clicked[k] else 0.0
        total += losses[k]
        below |= clicked[k]
    return total


@kernel
def log_chances(scores, ranking, length, placed, out):
    """By rank, the log-probability with which the document was drawn from those that were left.

    ``out`` has room for one number more than there are ranks, as `log_remaining` needs.
    """
    log_remaining(scores, ranking, length, placed, out)
    for k in range(length):
        out[k] = scores[ranking[k]] - out[k]


@kernel
def log_chances_beside(scores, ranking, length, remainder, out):
    """As `log_chances`, if all documents not shown had this total weight, given as its logarithm."""
    largest, total = remainder, 1.0 if remainder > -np.inf else 0.0
    for k in range(length - 1, -1, -1):
        score = scores[ranking[k]]
        largest, total = add_exponentials(largest, total, score)
        out[k] = score - (largest + math.log(total))


@kernel
def risk(log_chance, logged_log_chance, losses, length, caution):
    """The self-normalised estimate of a policy's loss, plus ``caution`` times its standard error.

    Args:
        log_chance: by rank, of the policy that is evaluated; overwritten.
        logged_log_chance: by rank, of the policy that logged.
        losses: by rank.
        length: number of ranks that were shown.
        caution: number of standard errors to add.
    """
    highest = -np.inf
    for k in range(length):
        log_chance[k] -= logged_log_chance[k]
        highest = max(highest, log_chance[k])
    total, loss = 0.0, 0.0
    for k in range(length):
        # Only ratios of weights matter: relative to the heaviest, none overflows.
        weight = math.exp(log_chance[k] - highest)
        log_chance[k] = weight
        total += weight
        loss += weight * losses[k]
    loss /= total
    variance = 0.0
    for k in range(length):
        part = log_chance[k] * (losses[k] - loss) / total
        variance += part * part
    return loss + caution * math.sqrt(variance)
