"""What holds for every estimator: names, shapes, sums, limits, bad input."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from rankloop.checks.contract import OFFSETS, Clause
from rankloop.checks.estimators import ESTIMATOR_CLAUSES
from rankloop.errors import DataError
from rankloop.estimators import ESTIMATORS, ClippedEstimator, Estimator, estimator
from rankloop.names import BadNameError
from rankloop.statistics import Statistics
from tests.checks.registered import built_in
from tests.estimators.scenarios import trust

# Every estimator, with and without its options. One added to ESTIMATORS must be added here.
NAMES = [
    "affine",
    "affine(clip=off)",
    "intervention-aware",
    "intervention-aware(average=query)",
    "intervention-aware(average=query, clip=0.01)",
    "intervention-aware(clip=off)",
    "intervention-oblivious",
    "intervention-oblivious(clip=off)",
    "ips",
    "ips(clip=1)",
    "ips(clip=off)",
    "naive",
    "policy-aware",
    "policy-aware(clip=0.01)",
    "policy-aware(clip=off)",
]

CLIPPED = sorted(
    {type(estimator(name)) for name in NAMES if isinstance(estimator(name), ClippedEstimator)},
    key=lambda kind: kind.name,
)

every_estimator = pytest.mark.parametrize("e", [estimator(name) for name in NAMES], ids=str)


def test_every_estimator_is_covered() -> None:
    assert {name.partition("(")[0] for name in NAMES} == built_in(ESTIMATORS)


@every_estimator
@pytest.mark.parametrize("clause", ESTIMATOR_CLAUSES, ids=repr)
def test_every_estimator_keeps_the_contract(e: Estimator, clause: Clause[Estimator]) -> None:
    clause(e)


@every_estimator
def test_names_are_canonical_and_estimators_can_be_sent_to_other_processes(e: Estimator) -> None:
    assert str(e) in NAMES
    assert pickle.loads(pickle.dumps(e)) == e


@every_estimator
def test_clipping_off_is_written_in_the_name(e: Estimator) -> None:
    options = {field.name for field in fields(e)}  # type: ignore[arg-type]
    if "clip" in options:
        assert str(e.unclipped) in {f"{e.name}(clip=off)", f"{e.name}(average=query, clip=off)"}
    if not options:
        assert e.unclipped == e


@every_estimator
def test_bias_and_statistics_of_different_ranks_are_refused(e: Estimator) -> None:
    with pytest.raises(DataError, match="the statistics are of 3 ranks and the bias of 2"):
        e.weights(Statistics.empty(OFFSETS, 3), trust(2))


@every_estimator
def test_no_impressions_no_estimate(e: Estimator) -> None:
    with pytest.raises(DataError, match="none of the 5 queries ever came"):
        e.weights(Statistics.empty(OFFSETS, 3), trust(3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("afine", r"unknown estimator 'afine', did you mean 'affine'\?"),
        ("naive(clip=off)", "unknown option of 'naive' 'clip'; there are: none"),
        ("affine(average=query)", "unknown option of 'affine' 'average'"),
        ("affine@5", "'affine' takes no cut-off, got 'affine@5'"),
        ("affine(clip=on)", "option 'clip' of 'affine.clip=on.': expected a number, got 'on'"),
        ("affine(clip=0)", "'clip' of the estimator 'affine': expected 'paper', 'off' or a number above 0"),
        ("affine(clip=1.5)", "up to 1, got 1.5"),
        ("affine(clip=nan)", "expected a finite number"),
        ("intervention-aware(average=queries)", "unknown value 'queries', did you mean 'query'"),
    ],
)
def test_names_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadNameError, match=message):
        estimator(text)


@pytest.mark.parametrize("clip", [True, None, float("nan"), -0.1, "Paper"])
@pytest.mark.parametrize("kind", CLIPPED)
def test_bad_clips_are_refused(kind: type[Estimator], clip: object) -> None:
    with pytest.raises(BadNameError, match=f"'clip' of the estimator '{kind.name}'"):
        kind(clip=clip)  # type: ignore[call-arg]


def test_bad_averages_are_refused() -> None:
    with pytest.raises(BadNameError, match="'average' of the estimator 'intervention-aware'"):
        ESTIMATORS["intervention-aware"](average="mean")  # type: ignore[call-arg]
