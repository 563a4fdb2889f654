"""Folders of runs that were never run: numbers that can be checked by eye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rankloop
from rankloop.experiments.baselines import Peakedness
from rankloop.experiments.files import FACTS, SPEC, TIMING
from rankloop.experiments.results import Row, write_rows
from rankloop.experiments.setup import SetupFacts
from rankloop.experiments.spec import RunSpec

START, ORACLE = 0.5, 0.9
TIMES = (100, 1_000, 10_000)


def row(impressions: int, learned: float, logging: float, **changed: Any) -> Row:
    content = {
        "impressions": impressions,
        "learned": learned,
        "logging": logging,
        "estimate": learned + 1.0,
        "estimate_error": 0.125,
        "truth": learned + 1.0625,
        "kept_start": learned == START,
        "scale": 0.25,
        "guess_gain": 0.0625,
        "support": {"0.01": 0.5, "0.0001": 0.25, "1e-06": 0.0},
    }
    return Row(**{**content, **changed})


def facts(**changed: Any) -> SetupFacts:
    content = {
        "dataset": "made-up",
        "data_fingerprint": "fedcba9876543210",
        "features": 7,
        "queries": {"train": 40, "validation": 5, "test": 12},
        "documents": {"train": 400, "validation": 50, "test": 120},
        "alpha": (0.4, 0.3),
        "beta": (0.2, 0.1),
        "examination": (1.0, 0.8),
        "start_kind": "mlp",
        "start_fingerprint": "0123456789abcdef",
        "start": START,
        "peakedness": Peakedness(top_first=0.75, support={"0.01": 0.125, "0.0001": 0.0, "1e-06": 0.0}),
        "random": 0.3,
        "oracle": ORACLE,
        "supervised": None,
    }
    return SetupFacts(**{**content, **changed})


ROWS = (row(100, START, START), row(1_000, 0.625, 0.375), row(10_000, 0.8125, 0.6875))


def written(
    folder: Path,
    spec: RunSpec | None = None,
    *,
    rows: tuple[Row, ...] = ROWS,
    about: SetupFacts | None = None,
) -> Path:
    """A folder that holds this run."""
    folder.mkdir(parents=True)
    chosen = spec or RunSpec(data="made-up", horizon=TIMES[-1], interventions=(100, 1000))
    content = {"version": rankloop.__version__, **chosen.model_dump(mode="json")}
    (folder / SPEC).write_text(json.dumps(content))
    (folder / FACTS).write_text((about or facts()).model_dump_json())
    write_rows(folder, rows)
    (folder / TIMING).write_text(json.dumps({"prepared": 1.0, "gathered": 2.0, "trained": 30.0}))
    return folder
