"""Spark as an engine, for logs that outgrow one machine: the extra ``rankloop[spark]``.

Workers compute exposures, so rankloop must be installed on them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa

from rankloop import extras
from rankloop.errors import RankloopError, one_line
from rankloop.logs.engines import Batches, Engine, Expression, Mapped, whole_groups

PYTHON_VARIABLE = "PYSPARK_PYTHON"
SPARK_PACKAGES = ("pyspark", "py4j")
PATTERN_LETTERS = re.compile(r"[\\[\]{}*?]")


@contextmanager
def spark_engine(master: str | None) -> Iterator[Engine]:
    """Spark, in the active session, or in a new one that ends with the block."""
    SparkSession = extras.load("pyspark.sql").SparkSession
    there = SparkSession.getActiveSession()
    if there is not None:
        _same_master(there, master)
        yield from _running(there)
        return
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise RankloopError(
            "Spark needs Java 17 or 21: install it (Debian: apt install openjdk-17-jre-headless), "
            "or set JAVA_HOME to its folder"
        )
    # Workers on this machine must use the packages of this Python.
    os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
    builder = SparkSession.builder.appName("rankloop").config("spark.ui.showConsoleProgress", "false")
    with _spark_errors():
        session = (builder if master is None else builder.master(master)).getOrCreate()
    try:
        yield from _running(session)
    finally:
        session.stop()


def _running(session: Any) -> Iterator[Engine]:
    running = _Spark(session)
    try:
        with _spark_errors():
            yield running
    finally:
        running.forget()


@contextmanager
def _spark_errors() -> Iterator[None]:
    """Report errors of Spark in one line rather than with a page of Java."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in SPARK_PACKAGES:
            raise
        raise RankloopError(f"Spark failed: {one_line(error)}") from error


def _escaped(letter: re.Match[str]) -> str:
    return f"\\{letter[0]}"


def _same_master(session: Any, master: str | None) -> None:
    current = session.sparkContext.master
    if master is not None and current != master:
        raise RankloopError(f"a Spark session with master {current!r} is active: stop it to use {master!r}")


class _Spark:
    def __init__(self, session: Any) -> None:
        self.session = session
        self.connection = ibis.pyspark.connect(session)
        self.kept: list[str] = []

    def table(self, files: Sequence[Path]) -> Expression:
        # A plain path would be looked up in the default file system of the cluster, and some of its letters
        # would be taken as patterns.
        paths = [f"file://{PATTERN_LETTERS.sub(_escaped, str(file.absolute()))}" for file in files]
        return self.connection.table(self._named(self.session.read.parquet(*paths)))

    def given(self, table: pa.Table) -> Expression:
        return self.connection.table(self._named(self.session.createDataFrame(table)))

    def stored(self, expression: Expression) -> Expression:
        name = self._named(self._frame(expression))
        self.session.catalog.cacheTable(name)
        return self.connection.table(name)

    def batches(self, expression: Expression) -> Batches:
        schema = expression.schema().to_pyarrow()
        yield from self._frame(expression).toArrow().cast(schema).to_batches()

    def grouped(
        self, expression: Expression, keys: Sequence[str], function: Mapped, schema: pa.Schema
    ) -> Batches:
        from pyspark.sql.pandas.types import from_arrow_schema

        frame = self._frame(expression).repartition(*keys).sortWithinPartitions(*keys)
        mapped = frame.mapInArrow(
            lambda batches: (function(batch).cast(schema) for batch in whole_groups(batches, keys)),
            from_arrow_schema(schema),
        )
        yield from mapped.toArrow().to_batches()

    def _frame(self, expression: Expression) -> Any:
        return self.session.sql(self.connection.compile(expression))

    def forget(self) -> None:
        """Drop all tables from the session."""
        for name in self.kept:
            # This also drops what was cached.
            self.session.catalog.dropTempView(name)

    def _named(self, frame: Any) -> str:
        name: str = ibis.util.gen_name("rankloop")
        frame.createOrReplaceTempView(name)
        self.kept.append(name)
        return name
