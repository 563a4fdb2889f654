"""What a run is, as a value."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise

import pytest
from pydantic import ValidationError

from rankloop.experiments.spec import RunSpec, read_times
from rankloop.loop import Loop, default_exploration
from rankloop.loop.exploration import exploration
from rankloop.training import CLICK_LIKELIHOOD, DOUBLY_ROBUST, LEARNING


def test_json_and_back() -> None:
    spec = RunSpec(data="x", interventions="10,200", horizon=1000, seed=3, temperature=2.5, start="a/b")
    assert RunSpec(**json.loads(spec.model_dump_json())) == spec
    assert spec.interventions == (10, 200)


def test_names_are_kept_in_their_canonical_spelling() -> None:
    spec = RunSpec(estimator="affine( clip=off )", users="paper @5", relevance="linear( max_label = 2 )")
    assert (spec.estimator, spec.users, spec.relevance) == (
        "affine(clip=off)",
        "paper@5",
        "linear(max_label=2)",
    )


def test_an_exploration_is_kept_with_all_its_options_so_that_a_new_default_does_not_change_it() -> None:
    kept = RunSpec(exploration="support(share=0.75)").exploration
    assert kept.startswith("support(share=0.75, softest=")
    assert exploration(kept) == exploration("support(share=0.75)")


def test_defaults_are_those_of_the_loop() -> None:
    spec = RunSpec()
    loop = {field.name: field for field in Loop.__dataclass_fields__.values()}
    assert loop["learning"].default is LEARNING[spec.learning]
    assert exploration(str(spec.exploration)) == default_exploration(CLICK_LIKELIHOOD)
    assert spec.estimator is None
    assert RunSpec(learning="doubly-robust").estimator == str(DOUBLY_ROBUST.estimator)
    assert (spec.metric, spec.floor) == (loop["metric"].default, loop["floor"].default)


@pytest.mark.parametrize(
    ("horizon", "interventions", "times"),
    [
        (100_000, 3, (100, 1000, 10_000)),
        (100_000, 0, ()),
        (1000, 2, (100, 316)),
        (100, 2, (10, 32)),
        (2, 20, (1,)),
        (1, 20, ()),
        (1000, (7, 500), (7, 500)),
    ],
)
def test_times(horizon: int, interventions: int | tuple[int, ...], times: tuple[int, ...]) -> None:
    assert RunSpec(horizon=horizon, interventions=interventions).intervention_times == times


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number, such as 20, or times"),
        (",", "expected a number, such as 20, or times"),
        ("ten", "expected a number, such as 20, or times"),
        ("10,x", "expected a number, such as 20, or times"),
        ("1.5", "expected a number, such as 20, or times"),
        ("-1", "must not be negative, got -1"),
        ("200,100", r"the times must ascend from 1 and lie before the horizon \(1000\), got \[200, 100\]"),
        ("100,100", "must ascend"),
        ("0,100", "must ascend"),
        ("100,1000", "before the horizon"),
    ],
)
def test_impossible_interventions_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RunSpec(horizon=1000, interventions=text)


def test_a_comma_distinguishes_one_time_from_a_number() -> None:
    assert read_times("500") == 500
    assert read_times("500,") == read_times(" 500 , ") == (500,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"estimator": "intervention-awear"},
        {"users": "position"},
        {"exploration": "soft(by=2)"},
        {"learning": "fast"},
        {"relevance": "cubic"},
        {"metric": "ndgc@5"},
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"production_queries": 0},
        {"floor": 1.0},
        {"horizon": 0},
        {"seed": -1},
        {"fold": 0},
        {"sede": 1},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_when_the_spec_is_made(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RunSpec(**wrong)  # type: ignore[arg-type]


def test_the_command_spells_everything_and_quotes_it() -> None:
    spec = RunSpec(
        data="my data; rm -rf /", interventions=(500,), oracle=False, start="it's", learning="robust"
    )
    words = shlex.split(spec.command("out folder"))
    assert words[:3] == ["rankloop", "run", "my data; rm -rf /"]
    options = dict(pairwise(words))
    assert options["--interventions"] == "500,"
    assert options["--start"] == "it's"
    assert options["--out"] == "out folder"
    assert "--no-oracle" in words
    assert "--production-queries" not in words  # not given, and there is no way to spell that
    unspelled = {"data", "production_queries", "oracle", "supervised", "method", "evidence"}
    assert {f"--{name.replace('_', '-')}" for name in set(RunSpec.model_fields) - unspelled} <= set(words)


def test_options_of_weights_choose_learning_from_weights() -> None:
    assert RunSpec().learning == "click-likelihood"
    assert RunSpec().estimator is None
    assert RunSpec(estimator="affine").learning == "doubly-robust"
    assert RunSpec(evidence="click-noise").learning == "doubly-robust"
    with pytest.raises(ValidationError, match="learning=click-likelihood does not use objective"):
        RunSpec(learning="click-likelihood", objective="softmax")
