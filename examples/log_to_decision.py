"""Tutorial: from a click log to a decision on a new ranker.

The log of a small shop is simulated here, so that the program runs anywhere. With a log of your own, start at
`open_log`, after `rankloop import`.
"""

from __future__ import annotations

import tempfile

import numpy as np

import rankloop
from rankloop.clicks import gather_log, users


def simulate_shop(folder: str) -> str:
    """Write the log of a shop whose ranker sorts by one feature and samples its rankings; return its path."""
    rng = np.random.default_rng(0)
    split = rankloop.synthetic(queries=200, features=20, seed=1).train
    production = 2.0 * split.features[:, 0].astype(float)
    clicks = gather_log(production, split.offsets, split.labels / 4, users("paper@5"), 10_000, rng)
    traffic = [rankloop.logs.PolicyTraffic("production", production, clicks)]
    return str(rankloop.logs.write_simulated(f"{folder}/log", split, traffic))


def main() -> None:
    """Check the log, estimate the bias, fit a ranker and compare it with production."""
    with tempfile.TemporaryDirectory() as folder:
        log = rankloop.open_log(simulate_shop(folder))

        check = log.check()
        print(f"{check.impressions:,} impressions, {check.clicks:,} clicks")

        bias = log.estimate_bias()
        print(bias.headline)

        fit = log.fit("lightgbm(rounds=100)", bias=bias)
        print(f"fitted to {len(fit.train_queries)} queries, judged on {len(fit.held_out_queries)}")

        result = log.evaluate(fit, against="production")
        gain = result.difference.estimate
        print(f"decision: {result.decision.kind}")
        print(f"the interval of the difference excludes 0: {gain.low > 0}")

        fit.save(f"{folder}/policy")
        rankloop.write_report(result, f"{folder}/evaluation.html")


if __name__ == "__main__":
    main()
