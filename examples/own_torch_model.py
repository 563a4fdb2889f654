"""Tutorial: train your own torch module on the exact gradient. Needs the extra: rankloop[torch]."""

from __future__ import annotations

import numpy as np
import torch

import rankloop
from rankloop.models import TorchModel
from rankloop.training import LearningProblem, learn


class Tower(torch.nn.Module):
    """A small network with a residual connection; any module that gives one score per row will do."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.enter = torch.nn.Linear(n_features, 32)
        self.middle = torch.nn.Linear(32, 32)
        self.leave = torch.nn.Linear(32, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Scores, one per row."""
        hidden = torch.relu(self.enter(features))
        scores: torch.Tensor = self.leave(hidden + torch.relu(self.middle(hidden)))
        return scores


def main() -> None:
    """Train on labels, then store the parameters and read them back."""
    torch.manual_seed(0)
    data = rankloop.synthetic(queries=200, features=20)
    start = TorchModel(Tower(data.n_features), n_features=data.n_features)
    problem = LearningProblem.from_labels(data, "ndcg@5")
    settings = rankloop.Settings(rankloop.models.Adam(rate=0.003), epochs=5)
    result = learn(start, problem, settings=settings, rng=np.random.default_rng(0))

    def ndcg(model: TorchModel) -> float:
        scores = model.scores(data.test.features)
        return rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]

    print(f"NDCG@5: {ndcg(start):.2f} before training, {ndcg(result.model):.2f} after")
    again = TorchModel.from_bytes(result.model.to_bytes(), Tower(data.n_features))
    print(f"the same after storing it: {again.fingerprint == result.model.fingerprint}")


if __name__ == "__main__":
    main()
