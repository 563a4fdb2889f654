"""Tutorial: a loop with simulated users, who see better rankings as the loop learns."""

from __future__ import annotations

import numpy as np

import rankloop
from rankloop.loop import Deployed, Evaluated, exponential_times


def main() -> None:
    """Run 20,000 impressions with four interventions and print what users see."""
    data = rankloop.synthetic(queries=300, features=20)
    users = rankloop.SimulatedUsers.of(data, "paper@5")
    start = rankloop.models.Linear.initialise(data.n_features, np.random.default_rng(0))
    loop = rankloop.Loop(
        data,
        users,
        start,
        horizon=20_000,
        interventions=exponential_times(200, 20_000, 4),
    )
    first = last = None
    for event in loop.run():
        if isinstance(event, Evaluated):
            print(
                f"{event.impressions:6,} impressions: learned {event.learned:.2f}, shown {event.logging:.2f}"
            )
            first, last = first or event, event
        elif isinstance(event, Deployed):
            print(f"{event.impressions:6,} impressions: deployed, explores {event.explored:.0%} of the time")
    assert first is not None
    assert last is not None
    print(f"better than at the beginning: {last.learned > first.logging}")


if __name__ == "__main__":
    main()
