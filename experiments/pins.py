"""Numbers that a change of structure must not move: written before it, compared after it, on one machine.

    python -m experiments.pins write build/pins.json
    python -m experiments.pins compare build/pins.json

Trained models are pinned by their fingerprints, which a single bit changes; everything else by its digits.
The file is not committed: another processor computes other last bits.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.loop import Loop, SimulatedUsers, Trained
from rankloop.models import Linear
from rankloop.online import method
from rankloop.training import DOUBLY_ROBUST, PAPER, ROBUST

# Numbers may differ by this share, which is far more than other orders of addition cause.
TOLERANCE = 1e-9
# Differences that are shown of each pin.
SHOWN = 4


def pins() -> dict[str, Any]:
    """Compute everything that is pinned."""
    return {**dict(_loops()), **dict(_logs())}


def _loops() -> Iterator[tuple[str, Any]]:
    data = rankloop.synthetic(queries=120, features=12)
    source = SimulatedUsers.of(data)
    start = Linear.initialise(12, np.random.default_rng(0))
    for learning in (PAPER, ROBUST, DOUBLY_ROBUST):
        loop = Loop(data, source, start, 4_000, (200, 1_000), learning=learning)
        yield f"loop {learning.name}", _end(loop)
    yield (
        "loop with deployment",
        _end(Loop(data, source, start, 4_000, (200, 1_000), deployment=rankloop.loop.Deployment())),
    )
    yield "loop online", _end(Loop(data, source, start, 2_000, "all", method=method("pdgd")))


def _end(loop: Loop) -> dict[str, Any]:
    events = list(loop.run())
    steps = [str(event.step) for event in events if isinstance(event, Trained) and event.step is not None]
    return {
        "fingerprint": events[-1].state.learned.fingerprint,
        "learned": events[-1].learned,
        "steps": steps,
    }


def _logs() -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(1)
    for name, queries, impressions in (("dense", 80, 8_000), ("sparse", 400, 3_000)):
        split = rankloop.synthetic(queries=queries, features=8).train
        people = users("paper@5")
        scores = [rng.normal(size=split.n_documents) for _ in range(2)]
        traffic = [
            rankloop.logs.PolicyTraffic(
                policy, own, gather_log(own, split.offsets, split.labels / 4, people, impressions, rng)
            )
            for policy, own in zip(("first", "second"), scores, strict=True)
        ]
        with tempfile.TemporaryDirectory() as folder:
            log = rankloop.open_log(rankloop.logs.write_simulated(f"{folder}/log", split, traffic))
            yield f"{name} fingerprint", log.fingerprint
            yield (
                f"{name} check",
                json.loads(json.dumps(log.check().to_dict(), default=str).replace(folder, "")),
            )
            yield f"{name} bias", log.estimate_bias().to_dict()
            for model in ("lightgbm", "mlp", "linear"):
                fit = log.fit(model)
                yield f"{name} fit {model}", fit.to_dict()
                yield f"{name} evaluate {model}", log.evaluate(fit, against="first").to_dict()
            yield f"{name} relevance", log.relevance().relevance.tolist()
            path = Path(folder) / "scores.csv"
            path.write_text(_scores(split, scores[1]))
            for metric in ("dcg", "clicks"):
                found = log.evaluate(path, "first", **{METRIC: metric})
                yield f"{name} evaluate scores {metric}", found.to_dict()


METRIC = "metric"


def _scores(split: Any, scores: Any) -> str:
    query = np.repeat(split.query_ids, split.sizes)
    ids = np.arange(split.n_documents) - np.repeat(split.offsets[:-1], split.sizes)
    rows = (f"{q},{d},{s!r}" for q, d, s in zip(query, ids, scores.tolist(), strict=True))
    return "query_id,doc_id,score\n" + "\n".join(rows) + "\n"


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Where two pins differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}, key=str):
            if key not in before or key not in after:
                yield f"{where}/{key}: only {'after' if key in after else 'before'}"
            else:
                yield from differences(before[key], after[key], f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} and {len(after)} elements"
        for number, (left, right) in enumerate(zip(before, after, strict=False)):
            yield from differences(left, right, f"{where}[{number}]")
    elif isinstance(before, float) and isinstance(after, int | float):
        if not (
            math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=1e-12)
            or (before != before and after != after)
        ):
            yield f"{where}: {before!r} -> {after!r} ({after - before:+.3g})"
    elif before != after:
        yield f"{where}: {before!r} -> {after!r}"


def main() -> None:
    """Write the pins, or compare them."""
    command, path = sys.argv[1], Path(sys.argv[2])
    found = json.loads(json.dumps(pins(), default=str))
    if command == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1))
        return
    lines = list(differences(json.loads(path.read_text()), found))
    for name, own in groupby(lines, key=lambda line: line.split("/")[1]):
        moved = list(own)
        print(f"{name}: {len(moved)} differences", *(f"  {line[:150]}" for line in moved[:SHOWN]), sep="\n")
    print("" if lines else "nothing moved")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
