"""The log as the object that everything offline starts from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankloop.bias import BiasEstimate, BiasOptions
from rankloop.bias.estimate import DEFAULTS
from rankloop.logs import ImportReport
from rankloop.logs.engines import check_engine
from rankloop.logs.folder import open_folder
from rankloop.logs.reader import ExposureSource, LogReader
from rankloop.logs.schema import REPORT_FILE
from rankloop.offline._backtest import backtest
from rankloop.offline._evaluate import evaluate
from rankloop.offline._fit import fit
from rankloop.offline._list_evidence import compare_lists
from rankloop.offline._rank import FeatureSource, Rankings, rank
from rankloop.offline._relevance import Relevances, relevance
from rankloop.offline.assumptions import BiasSource, ask_log
from rankloop.offline.fit_result import Fit
from rankloop.offline.log_check import LogCheck, check_log
from rankloop.progress import Progress
from rankloop.types import Model


@dataclass(frozen=True, eq=False)
class Log(LogReader):
    """A log on disk: check it, estimate the bias of its users, fit rankers to it, evaluate rankers on it.

    `open_log` opens it. Everything that has been counted is kept, so that the log is read as few times as
    possible.

    Example:
        >>> import tempfile, rankloop
        >>> from rankloop.clicks import gather_log, users
        >>> rng = np.random.default_rng(0)
        >>> split = rankloop.synthetic(queries=60, features=5).train
        >>> scores = np.zeros(split.n_documents)
        >>> clicks = gather_log(scores, split.offsets, split.labels / 4, users("paper@5"), 5_000, rng)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     traffic = [rankloop.logs.PolicyTraffic("production", scores, clicks)]
        ...     log = rankloop.open_log(rankloop.logs.write_simulated(f"{folder}/log", split, traffic))
        ...     fit = log.fit("linear", bias="paper@5")
        ...     log.evaluate(fit, against="production").queries == len(fit.held_out_queries)
        True

    Reference: docs/offline.md, docs/logs.md.
    """

    def __repr__(self) -> str:
        return f"Log({str(self.folder)!r}: {', '.join(self.tables)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled is where the log is and how to read it: it is opened again where it is needed."""
        opened = partial(
            open_log,
            engine=self.engine,
            master=self.master,
            exposure=self.exposure,
            target=self.target,
        )
        return opened, (self.folder,)

    @property
    def imported(self) -> ImportReport | None:
        """What the import read and which defects it repaired; None if the log was not imported."""
        return ImportReport.read_file(self.folder / REPORT_FILE)

    def check(
        self, options: BiasOptions = DEFAULTS, *, seed: int = 0, progress: Progress | None = None
    ) -> LogCheck:
        """Check what is in the log, and what bias, relevance, fit and evaluate will say to it.

        Args:
            options: what `estimate_bias` would be asked.
            seed: the random seed that it would be given.
            progress: called with what is being done.
        """
        return check_log(self, options, seed=seed, progress=progress)

    def estimate_bias(
        self,
        options: BiasOptions = DEFAULTS,
        *,
        ranks: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> BiasEstimate:
        """Estimate how users click; see `rankloop.estimate_bias`.

        Args:
            options: what is estimated, by which method, and with which intervals. A policy that was declared
                randomised when the log was imported need not be named.
            ranks: how many ranks to use; None for all.
            seed: the random seed.
            progress: called with what is being done.
        """
        return ask_log(self, options, ranks=ranks, seed=seed, progress=progress).require()

    # The functions themselves, with this log as their first argument.
    fit = fit
    evaluate = evaluate
    backtest = backtest
    compare_lists = compare_lists

    def relevance(
        self,
        *,
        bias: BiasSource = None,
        shrink: bool = True,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Relevances:
        """The relevance of every document that was shown, corrected for bias; see `rankloop.relevance`."""
        return relevance(self, bias=bias, shrink=shrink, seed=seed, progress=progress)

    def rank(
        self,
        policy: Fit | Model | str | os.PathLike[str],
        *features: FeatureSource,
        top: int | None = None,
        rng: np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> Rankings:
        """Rank the documents of the log, with more tables of features if given; see `rankloop.rank`."""
        return rank(policy, (self.folder, *features), top=top, rng=rng, progress=progress)


def open_log(
    folder: str | os.PathLike[str],
    *,
    engine: str = "duckdb",
    master: str | None = None,
    exposure: ExposureSource = "candidates",
    target: str = "auto",
) -> Log:
    """Open a log.

    Args:
        folder: its folder (docs/logs.md describes the files).
        engine: ``duckdb``, inside this process, ``spark``, or ``postgres`` for impressions that are in a
            table of PostgreSQL rather than in the folder.
        master: where Spark runs, such as ``local[4]`` or ``spark://host:7077``, None for Spark's settings; or
            the address of PostgreSQL, ``postgresql://user@host/database``.
        exposure: ``candidates``, or ``displays`` to estimate exposures from displays, for policies that do
            not draw their rankings from their scores.
        target: what policies are fitted to and judged by: ``clicks``, ``amount`` (what displays were worth),
            or ``auto`` for the amount of logs that have one.

    Raises:
        DataError: the folder is not a log, a file is damaged, or a column is missing or of the wrong type.
    """
    check_engine(engine, master)
    found = open_folder(folder, in_database=engine == "postgres")
    return Log(
        found.folder,
        found.tables,
        found.starts,
        found.randomised,
        found.pinned,
        engine=engine,
        master=master,
        exposure=exposure,
        target=target,
    )
