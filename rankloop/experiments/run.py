"""One run of the loop in a folder: every event is written down, a run that was cut goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rankloop._version import __version__
from rankloop.errors import RankloopError
from rankloop.experiments.results import (
    CHECKPOINT,
    FACTS,
    LEARNED,
    RESULTS,
    SPEC,
    START,
    TIMING,
    Row,
    read_facts,
    read_json,
    read_rows,
)
from rankloop.experiments.setup import Setup, Watch, build_setup, world
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Evaluated, Event, Loop, LoopState, Stage
from rankloop.model_files import load, save
from rankloop.storage.files import check_writable, write_whole
from rankloop.training import Task

# The stages of one phase, in their order.
STAGES: tuple[Stage, ...] = ("deployed", "gathered", "trained", "evaluated")
# What the time before the first event is called in the timing, beside the stages of the loop.
PREPARED = "prepared"
# A checkpoint grows with the number of policies, up to gigabytes. It is written when so many times as long as
# writing took has passed since: writing takes at most a tenth of the time, and a cut loses little of it.
WORK_PER_WRITING = 9.0


def prepare(spec: RunSpec, folder: Path, *, shared: Setup | None = None, watch: Watch | None = None) -> Setup:
    """What the run in a folder stands on: read where an earlier call has written it, else laid and written.

    Args:
        spec: the run.
        folder: where it is kept.
        shared: of another run that differs in how it learns alone: spares loading and training twice.
        watch: told of every epoch that is trained.

    Raises:
        RankloopError: the folder holds another run, or cannot be written to.
    """
    check_writable(folder / SPEC)
    asked = {"version": __version__, **spec.model_dump(mode="json")}
    if (folder / SPEC).exists():
        _check_same(folder, asked)
        collection, users = (shared.collection, shared.users) if shared is not None else world(spec)
        # The model as it was stored: the path in a spec may lead to another one by now.
        return Setup(collection, users, load(folder / START), read_facts(folder))
    begun = time.perf_counter()
    setup = build_setup(spec, watch) if shared is None else shared
    save(setup.start, folder / START)
    write_whole(folder / FACTS, setup.facts.model_dump_json(indent=2).encode())
    _write_json(folder / TIMING, {PREPARED: time.perf_counter() - begun})
    # Last: where there is a spec, there is all that the run stands on.
    _write_json(folder / SPEC, asked)
    return setup


def run(
    spec: RunSpec,
    folder: Path,
    watch: Callable[[Event], None] | None = None,
    *,
    shared: Setup | None = None,
) -> list[Row]:
    """Run to the end, going on where an earlier call was cut; the measurements, one row an evaluation.

    Args:
        spec: the run.
        folder: where everything is written as it comes: `rankloop.experiments.results` says what.
        watch: told of every event, after its results were written down.
        shared: as in `prepare`.
    """
    setup = prepare(spec, folder, shared=shared)
    loop = setup.loop(spec)
    state, rows = _behind(folder)
    timing: dict[str, float] = read_json(folder / TIMING)
    checkpoint = _Checkpoint(folder / CHECKPOINT)
    begun = time.perf_counter()
    for event in loop.run(state):
        state = event.state
        if isinstance(event, Evaluated):
            rows.append(_row(event, loop, setup))
            # Before the checkpoint: a row too many is cut off on the way back, one too few would be missing.
            lines = "".join(row.model_dump_json() + "\n" for row in rows)
            write_whole(folder / RESULTS, lines.encode())
        checkpoint.write_if_due(state)
        ended = time.perf_counter()
        timing[state.stage] = timing.get(state.stage, 0.0) + ended - begun
        _write_json(folder / TIMING, timing)
        begun = ended
        if watch is not None:
            watch(event)
    assert state is not None  # the first call has events, every other one a checkpoint
    checkpoint.write(state)
    save(state.learned, folder / LEARNED)
    return rows


def share_done(spec: RunSpec, event: Event) -> float:
    """How much of a run an event has behind it: by events, which take about the same time each.

    Interactions would not do: most of them are gathered at the very end, in no time.
    """
    done = len(STAGES) * event.state.phase + STAGES.index(event.state.stage)
    return done / (len(STAGES) * (len(spec.times) - 1) + STAGES.index("evaluated"))


class _Checkpoint:
    """The state after an event, written as often as it is worth."""

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, ""
        self._ended, self._took = time.perf_counter(), 0.0

    def write_if_due(self, state: LoopState) -> None:
        """Write it, unless writing would take too much of the time."""
        if time.perf_counter() - self._ended >= WORK_PER_WRITING * self._took:
            self.write(state)

    def write(self, state: LoopState) -> None:
        """Write it, unless it is there already."""
        name = f"{state.phase} {state.stage}"
        if name == self._written:
            return
        begun = time.perf_counter()
        write_whole(self._path, state.to_bytes())
        self._ended, self._written = time.perf_counter(), name
        self._took = self._ended - begun


def _behind(folder: Path) -> tuple[LoopState | None, list[Row]]:
    """Where the run in a folder was cut, and the rows of the evaluations that this state has behind it."""
    checkpoint = folder / CHECKPOINT
    if not checkpoint.exists():
        return None, []
    state = LoopState.from_bytes(checkpoint.read_bytes())
    return state, read_rows(folder)[: state.phase + (state.stage == "evaluated")]


def _row(event: Evaluated, loop: Loop, setup: Setup) -> Row:
    held_out = loop.dataset.validation
    relevance = setup.users.relevance[loop.dataset.train.n_docs :]
    theta = loop.learning.rank_weights(setup.users.bias)
    reward = Task(held_out.features, held_out.offsets, relevance, theta)
    learned = event.state.learned
    return Row(
        timesteps=event.timesteps,
        learned=event.learned,
        logging=event.logging,
        estimate=_known(event.estimate),
        estimate_error=_known(event.estimate_error),
        truth=reward.value(learned.scores(held_out.features)),
        kept_start=learned.fingerprint == loop.start.fingerprint,
        scale=event.state.scale,
        support={f"{level:g}": share for level, share in event.support.items()},
    )


def _known(value: float) -> float | None:
    # JSON has no NaN.
    return None if np.isnan(value) else value


def _check_same(folder: Path, asked: dict[str, object]) -> None:
    kept = read_json(folder / SPEC)
    for name, value in asked.items():
        if kept.get(name) != value:
            raise RankloopError(
                f"{folder} holds another run (its {name} is {kept.get(name)!r}, not {value!r}): "
                "choose another folder, or remove it"
            )


def _write_json(path: Path, content: object) -> None:
    write_whole(path, json.dumps(content, indent=2).encode())
