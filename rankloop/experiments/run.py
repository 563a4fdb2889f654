"""One run of the loop in a folder: every event is written down, and an interrupted run resumes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop._version import __version__
from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.experiments.files import (
    CHECKPOINT,
    LEARNED,
    RESULTS,
    SPEC,
    TIMING,
    check_same,
    read_object,
    write_json,
)
from rankloop.experiments.results import (
    Row,
    RunResult,
    read_result,
    read_rows,
    read_timing,
    run_fingerprint,
    write_rows,
)
from rankloop.experiments.setup import Environment, Setup
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Evaluated, Event, Loop, LoopState, Stage
from rankloop.model_files import save
from rankloop.models.storage import FORMAT as MODEL_FORMAT
from rankloop.progress import Progress, report
from rankloop.storage.files import check_writable, write_whole
from rankloop.storage.locks import hold_folder
from rankloop.training import Task

# The stages of one phase, in their order.
STAGES: tuple[Stage, ...] = ("deployed", "gathered", "trained", "evaluated")
# The name in the timing of the time before the first event; other names are stages of the loop.
PREPARED = "prepared"
# A checkpoint grows with the number of policies, up to gigabytes. It is written again when this many times
# the duration of the last write has passed: writing takes at most a tenth of the time, and an interruption
# loses little work.
WORK_PER_WRITE = 9.0


@dataclass(frozen=True)
class Run:
    """A run: a spec, and the folder that everything is written to.

    Attributes:
        spec: what to run.
        folder: `rankloop.experiments.files` lists what is in it.
        name: the task that the run is called in progress.
    """

    spec: RunSpec
    folder: Path
    name: str = "run"

    @property
    def started(self) -> bool:
        """Whether the folder contains the setup of the run."""
        return (self.folder / SPEC).exists()

    @property
    def finished(self) -> bool:
        """Whether the run has reached its horizon."""
        return (self.folder / LEARNED).exists()

    @property
    def rows(self) -> list[Row]:
        """The evaluations so far."""
        return read_rows(self.folder)

    @property
    def result(self) -> RunResult:
        """The results so far."""
        return read_result(self.folder)

    def check(self) -> None:
        """Refuse a folder that cannot be written to, or that holds another run.

        Raises:
            RankloopError: the folder holds another run, or cannot be written to.
        """
        check_writable(self.folder / SPEC)
        if self.started:
            check_same(self.folder, "run", read_object(self.folder / SPEC), self._spec_content())

    def set_up(self, progress: Progress | None = None) -> Setup:
        """Read the setup from the folder; if it is not there yet, build it and write it there.

        Args:
            progress: called after every epoch of what is trained.
        """
        with hold_folder(self.folder):
            return self._set_up(progress)

    def _set_up(self, progress: Progress | None) -> Setup:
        self.check()
        if self.started:
            return Setup.read(self.folder, Environment.load(self.spec))
        begin = time.perf_counter()
        setup = Setup.build(self.spec, progress=progress)
        self._start(setup, seconds=time.perf_counter() - begin)
        return setup

    def resume(self, setup: Setup | None = None, progress: Progress | None = None) -> RunResult:
        """Run to the horizon, from the start or from where an earlier call was interrupted.

        Args:
            setup: what to run on, if it has been built before, also for another run that differs only in how
                it learns; None to read or build it.
            progress: called after every event, when its results have been written; the detail is the event.
        """
        with hold_folder(self.folder):
            return self._resume(setup, progress)

    def _resume(self, setup: Setup | None, progress: Progress | None) -> RunResult:
        if setup is None:
            setup = self._set_up(progress)
        else:
            self.check()
            if not self.started:
                self._start(setup, seconds=0.0)
            # The starting policy as it was stored: its path in the spec may lead to another one by now.
            setup = Setup.read(self.folder, setup.environment)
        if not self.finished:
            self._run(setup, progress)
        # It is needed no more, and may be as large as the exposures of all policies.
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return self.result

    def _spec_content(self) -> dict[str, object]:
        return {"version": __version__, **self.spec.model_dump(mode="json")}

    def _start(self, setup: Setup, seconds: float) -> None:
        setup.save(self.folder)
        write_json(self.folder / TIMING, {PREPARED: seconds})
        # Last: where there is a spec, there is the whole setup.
        write_json(self.folder / SPEC, self._spec_content())

    def _run(self, setup: Setup, progress: Progress | None) -> None:
        loop, folder = setup.loop(self.spec), self.folder
        state, rows = self._interrupted_at()
        timing = read_timing(folder)
        checkpoint = _Checkpoint(folder / CHECKPOINT, run_fingerprint(folder))
        begin = time.perf_counter()
        for event in loop.run(state):
            state = event.state
            if isinstance(event, Evaluated):
                rows.append(_row(event, loop, setup))
                # Before the checkpoint: on resuming, a surplus row is dropped, a missing one would be lost.
                write_rows(folder, rows)
            checkpoint.write_if_due(state)
            end = time.perf_counter()
            timing[state.stage] = timing.get(state.stage, 0.0) + end - begin
            write_json(folder / TIMING, timing)
            begin = end
            self._report(progress, event)
        assert state is not None  # a first call has events, any other one a checkpoint
        checkpoint.write(state)
        save(state.learned, folder / LEARNED)

    def _interrupted_at(self) -> tuple[LoopState | None, list[Row]]:
        """The state to resume from, and the rows of the evaluations before it."""
        checkpoint = self.folder / CHECKPOINT
        if not checkpoint.exists():
            return None, []
        try:
            state = LoopState.from_bytes(checkpoint.read_bytes(), run_fingerprint(self.folder))
        except (ModelFileError, DataError) as error:
            raise RankloopError(f"{checkpoint}: {error}; remove this file to start the run again") from error
        evaluated = state.phase + (state.stage == "evaluated")
        times = [row.impressions for row in self.rows[:evaluated]]
        if times != list(self.spec.times[:evaluated]):
            raise RankloopError(
                f"{self.folder / RESULTS}: the run had been evaluated at {list(self.spec.times[:evaluated])} "
                f"when it was interrupted, but the rows are of {times}: restore the file, or remove "
                f"{CHECKPOINT} to start the run again"
            )
        return state, self.rows[:evaluated]

    def _report(self, progress: Progress | None, event: Event) -> None:
        evaluated, note = isinstance(event, Evaluated), ""
        if isinstance(event, Evaluated):
            note = f"{event.impressions:,}: learned {event.learned:.4f}, logging {event.logging:.4f}"
        share = share_done(self.spec, event)
        report(progress, self.name, share, note, milestone=evaluated, detail=event)


def share_done(spec: RunSpec, event: Event) -> float:
    """The share of the time of a run that has passed after an event.

    Online methods take the same time for every impression. Estimators take about the same time for every
    event: most of their impressions are simulated at the very end, very fast.
    """
    if spec.method is not None:
        return event.impressions / spec.horizon
    done = len(STAGES) * event.state.phase + STAGES.index(event.state.stage)
    return done / (len(STAGES) * (len(spec.times) - 1) + STAGES.index("evaluated"))


class _Checkpoint:
    """The state after an event, written as often as it is worth."""

    def __init__(self, path: Path, owner: str) -> None:
        self._path, self._owner, self._written = path, owner, ""
        self._end, self._duration = time.perf_counter(), 0.0

    def write_if_due(self, state: LoopState) -> None:
        """Write it, unless writing would take too much of the time."""
        if time.perf_counter() - self._end >= WORK_PER_WRITE * self._duration:
            self.write(state)

    def write(self, state: LoopState) -> None:
        """Write it, unless it has been written already."""
        name = f"{state.phase} {state.stage}"
        if name == self._written:
            return
        begin = time.perf_counter()
        write_whole(self._path, state.to_bytes(self._owner), read_back=MODEL_FORMAT.verify)
        self._end, self._written = time.perf_counter(), name
        self._duration = self._end - begin


def _row(event: Evaluated, loop: Loop, setup: Setup) -> Row:
    held_out, users = loop.dataset.validation, setup.environment.users
    relevance = users.relevance[loop.dataset.train.n_documents :]
    metric = Task(held_out.features, held_out.offsets, relevance, loop.learning.rank_weights(users.bias))
    learned = event.state.learned
    return Row(
        impressions=event.impressions,
        learned=event.learned,
        logging=event.logging,
        estimate=_none_if_nan(event.estimate),
        estimate_error=_none_if_nan(event.estimate_error),
        truth=metric.value(learned.scores(held_out.features)),
        kept_start=learned.fingerprint == loop.start.fingerprint,
        scale=event.state.scale,
        explored=event.state.explored,
        guess_gain=None if event.state.guess is None else event.state.guess.gain,
        support={f"{level:g}": share for level, share in event.support.items()},
    )


def _none_if_nan(value: float) -> float | None:
    # JSON has no NaN.
    return None if np.isnan(value) else value
