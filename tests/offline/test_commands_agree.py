"""Commands agree: what `check` promises succeeds, and what it refuses is refused with the same words.

Logs of all sizes and kinds are written and put to every command. A thousand of them are judged by
`make campaigns`, which takes half an hour of CPU time; a hundred of them by `make test-long`, and twenty
others, of at most 1,000 impressions, in every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankloop
from rankloop.bias import BiasEstimate
from rankloop.errors import RankloopError
from rankloop.offline import Log, LogCheck, open_log
from rankloop.offline.division import Judge
from rankloop.offline.log_check import CURVE
from rankloop.reports.pipeline import PipelineOptions, run_pipeline
from tests.offline.generated_logs import Kind, write_log

MODEL = "lightgbm(rounds=5)"
# A pipeline repeats what the other commands do and draws its page, so one log of so many runs it.
PIPELINE_EVERY = 8
# Larger logs take seconds each.
SMALL = 1_000
# Logs per test, so that workers share them.
SHARD = 20
SHARDS = 50 if os.environ.get("RANKLOOP_CAMPAIGNS") else 5


def contradictions(folder: Path, seed: int) -> Iterator[str]:
    """What commands say about the log of a seed that does not agree; nothing if all is well."""
    kind = write_log(folder / "log", seed)
    log = open_log(folder / "log")
    check = log.check()
    bias, refusal = attempt(log.estimate_bias)
    yield from judge_bias(check, bias, refusal)
    given = CURVE if bias is None else bias
    # Five models for each of so many logs would take long.
    judge_by: Judge = "split" if seed % 4 else "folds"
    policy, table = folder / "policy", folder / "scores.parquet"

    relevance, refusal = attempt(lambda: log.relevance(bias=given))
    yield from judge(check, "relevance", refusal)
    if relevance is not None:
        relevance.save(table)
    fit, refusal = attempt(lambda: log.fit(MODEL, bias=given, judge=judge_by))
    yield from judge(check, "fit", refusal)
    if fit is not None:
        fit.save(policy)
        # The last policy may not have served any query that was held out.
        yield from judge_fit(log, policy, fit.comparison.against.name)
    found, refusal = attempt(lambda: log.evaluate(scores(log, folder), log.policy_ids[-1], bias=given))
    yield from judge(check, "evaluate", refusal)
    doubts = () if found is None else [one.text for one in found.assumptions if one.state != "held"]
    if found is not None and not doubts and check.answer("evaluate").needs_bias:
        yield "evaluate: firm with a bias that check says has to be assumed"
    if doubts and check.answer("evaluate").answer == "yes":
        yield f"evaluate: yes, but {' and '.join(doubts)}"
    if bias is None:
        # Without a bias, all that need one refuse as `bias` does.
        for name, ask in (("relevance", log.relevance), ("fit", lambda: log.fit(MODEL, judge="split"))):
            _, refusal = attempt(ask)
            if refusal is None or check.bias.refusal.rstrip(".") not in refusal:
                yield f"{name}: without a bias it says {refusal!r}, and check {check.bias.refusal!r}"
    if seed % PIPELINE_EVERY == 0:
        options = PipelineOptions(model=MODEL, bias=CURVE if bias is None else None)
        _, refusal = attempt(lambda: run_pipeline(log, folder / "pipeline", options))
        yield from judge(check, "pipeline", refusal)
    assert isinstance(kind, Kind)


def attempt(ask: Callable[[], Any]) -> tuple[Any, str | None]:
    """The result of a command, or what it says when it refuses; other errors are errors of this test."""
    try:
        return ask(), None
    except RankloopError as error:
        return None, str(error)


def judge_bias(check: LogCheck, bias: BiasEstimate | None, refusal: str | None) -> Iterator[str]:
    """Whether a check and an estimate say the same."""
    answer = check.answer("bias")
    if (answer.answer == "no") != (bias is None):
        yield f"bias: {answer.answer}, but {refusal or bias!r}"
    elif bias is None and check.bias.refusal != refusal:
        yield f"bias: refused because {check.bias.refusal!r}, but {refusal!r}"
    elif bias is not None:
        assert check.bias.estimate is not None
        told = check.bias.to_dict()
        if (told["method"], told["positions"]) != (bias.method, bias.bias.positions):
            yield f"bias: {told}, but {bias.method} at {bias.bias.positions} positions"
        if bias.bias.positions < check.positions and answer.answer == "yes":
            yield f"bias: yes, but only {bias.bias.positions} of {check.positions} positions"


def judge(check: LogCheck, command: str, refusal: str | None) -> Iterator[str]:
    """Whether a command does what a check says."""
    answer = check.answer(command)
    if (answer.answer == "no") != (refusal is not None):
        yield f"{command}: {answer.answer} ({answer.text}), but {refusal}"
    elif refusal is not None and answer.text != refusal:
        yield f"{command}: refused because {answer.text!r}, but {refusal!r}"


def judge_fit(log: Log, policy: Path, against: str) -> Iterator[str]:
    """Whether every command reads what `fit` wrote."""
    for name, read in (
        ("rank", lambda: log.rank(policy)),
        ("export", lambda: rankloop.export(policy, "opensearch")),
        ("evaluate", lambda: log.evaluate(policy, against)),
    ):
        _, refusal = attempt(read)
        if refusal is not None:
            yield f"{name}: refuses what fit wrote: {refusal}"


def scores(log: Log, folder: Path) -> Path:
    """A policy that ranks the documents of every query at random."""
    counts = log.count(10)
    queries = np.repeat(counts.query_ids, np.diff(counts.offsets))
    table = folder / "random.csv"
    numbers = np.random.default_rng(0).random(len(queries))
    lines = [f"{q},{d},{s}" for q, d, s in zip(queries, counts.doc_ids, numbers, strict=True)]
    table.write_text("\n".join(["query_id,doc_id,score", *lines]), encoding="utf-8")
    return table


def judged(folder: Path, seeds: Sequence[int]) -> list[str]:
    """The contradictions of some seeds, with the kinds of their logs."""
    return [
        f"log {seed} ({Kind.draw(seed)}): {text}"
        for seed in seeds
        for text in contradictions(folder / str(seed), seed)
    ]


@pytest.mark.parametrize("shard", range(4))
def test_commands_agree_about_twenty_small_logs(tmp_path: Path, shard: int) -> None:
    small = [seed for seed in range(10_000, 10_100) if Kind.draw(seed).impressions <= SMALL]
    assert judged(tmp_path, small[5 * shard : 5 * (shard + 1)]) == []


def test_commands_agree_where_no_document_that_stops_training_was_shown(tmp_path: Path) -> None:
    """Ten impressions of ten queries, and documents without features: a fit ended with a traceback."""
    assert judged(tmp_path, range(246, 247)) == []


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_commands_agree_about_many_logs(tmp_path: Path, shard: int) -> None:
    assert judged(tmp_path, range(SHARD * shard, SHARD * (shard + 1))) == []
