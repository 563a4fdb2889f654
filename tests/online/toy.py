"""A minimal method in one file: it raises the last bias by the number of clicks it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.kernels.impression import next_query, show
from rankloop.kernels.jit import kernel
from rankloop.kernels.network_layers import forward
from rankloop.kernels.query_sizes import longest_query
from rankloop.online import Method


@kernel
def run_toy(simulated, log, traffic, logging, network, options, parameters, memory, stream):
    queries, rankings, _ = log
    widths, activation = network
    longest, ranks = longest_query(traffic[2]), rankings.shape[1]
    activations, scores = np.empty(longest * widths[1:].sum(), parameters.dtype), np.empty(longest)
    ranking, clicked, arrivals = np.empty(ranks, np.int64), np.empty(ranks, np.bool_), np.empty(ranks)
    for i in range(len(queries)):
        features, first, last, a, b = next_query(i, simulated, log, traffic, stream)
        if len(logging):
            scores[: b - a] = logging[a:b]
        else:
            scores[: b - a] = forward(features, first, last, widths, parameters, activation, activations)
        length = show(i, simulated, scores[: b - a], a, b, log, traffic, stream, arrivals, ranking, clicked)
        memory[0] = options[1] * memory[0] + np.sum(clicked[:length])
        parameters[-1] += options[0] * memory[0]
    return len(queries)


@dataclass(frozen=True)
class Toy(Method):
    name: ClassVar[str] = "toy"
    rate: float = 0.01
    keep: float = 0.5

    @property
    def run(self):
        return run_toy

    @property
    def options(self):
        return np.array([self.rate, self.keep])

    def memory(self, _model):
        return np.zeros(1)
