"""What policies of a run score, expose and are worth: each computed once, though several stages need it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rankloop.evaluation import policy_metrics
from rankloop.online import Queries
from rankloop.policies import expected_rank_weights
from rankloop.statistics import Exposure
from rankloop.types import Bias, Dataset, Float64, Model

# Values that are kept: of the logging policy, at two scales if it explores, of the learned policy, and of the
# start. Each is at most three numbers per document.
KEPT = 8


class PolicyValues:
    """Values of the latest policies of a run, by the fingerprint of their model and by their scale.

    The policy that logs is deployed, gathers and is evaluated, often several times in a row. What depends on
    it alone is remembered from one stage to the next; it is the same to the bit if it is computed again.
    """

    def __init__(self, dataset: Dataset, bias: Bias, metric: str) -> None:
        self.queries = Queries.of(dataset.train, dataset.validation)
        self._test, self._bias, self._metric = dataset.test, bias, metric
        self._known: OrderedDict[tuple[object, ...], Any] = OrderedDict()

    def scores(self, model: Model) -> Float64:
        """The scores of all documents of the queries that impressions come from."""
        scores: Float64 = self._recall(("scores", model.fingerprint), lambda: self.queries.scores(model))
        return scores

    def exposure(self, model: Model, scale: float) -> Exposure:
        """The exposure of these documents."""

        def compute() -> Exposure:
            return Exposure.of_scores(scale * self.scores(model), self.queries.offsets, self._bias)

        exposure: Exposure = self._recall(_exposure_key(model, scale), compute)
        return exposure

    def expected_alpha(self, model: Model, scale: float) -> Float64:
        """The expected α of these documents, which is a part of their exposure."""
        exposure = self._known.get(_exposure_key(model, scale))
        if exposure is not None:
            alpha: Float64 = exposure.alpha
            return alpha
        return self.expected_alpha_of(scale * self.scores(model))

    def expected_alpha_of(self, scores: Float64) -> Float64:
        """The expected α of these documents under a policy with these scores."""
        return expected_rank_weights(scores, self.queries.offsets, self._bias.alpha)

    def test_value(self, model: Model, scale: float) -> float:
        """The metric of the policy on the test queries."""

        def compute() -> float:
            scores = scale * model.scores(self._test.features)
            return policy_metrics(scores, self._test, [self._metric])[self._metric]

        value: float = self._recall(("value", model.fingerprint, scale), compute)
        return value

    def _recall(self, key: tuple[object, ...], compute: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = compute()
        self._known.move_to_end(key)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return self._known[key]


def _exposure_key(model: Model, scale: float) -> tuple[object, ...]:
    return "exposure", model.fingerprint, scale
