"""Commands in forked processes: a server imports everything once, so that commands start at once."""

from __future__ import annotations

import atexit
import itertools
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

# What the server imports, and what it does once: kernels are read from the disk.
PRELOADED = [
    "duckdb", "ibis", "pyarrow.parquet", "scipy.optimize", "scipy.stats", "rich.console",
    "rankloop.logs.importers", "rankloop.offline", "rankloop.bias", "rankloop.reports.html",
    "rankloop.online", "tests.attack.moments", "tests.attack.native", "tests.attack.pages",
    "tests.attack.readers", "tests.attack.warm",
]  # fmt: skip


@dataclass(frozen=True)
class Trouble:
    """What a command has to live with.

    Attributes:
        file_bytes: the largest file that can be written, as on a full disk.
        memory_bytes: the address space that it may add to what it has.
        user: the number of the user who runs it, if it is not the present one.
        clock_jump: seconds by which the clock jumps during the command.
    """

    file_bytes: int | None = None
    memory_bytes: int | None = None
    user: int | None = None
    clock_jump: float = 0.0

    def begin(self) -> None:
        """Change this process."""
        if self.file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_bytes, resource.RLIM_INFINITY))
        if self.memory_bytes is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + self.memory_bytes
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        if self.clock_jump:
            real, calls = time.time, itertools.count()
            time.time = lambda: real() + (self.clock_jump if next(calls) > 3 else 0.0)
        if self.user is not None:
            os.setuid(self.user)

    def end(self) -> None:
        """Take the limits away again."""
        for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


NO_TROUBLE = Trouble()


def start(words: list[str], folder: Path, trouble: Trouble = NO_TROUBLE) -> ForkServerProcess:
    """Start a command; its errors go to ``errors.txt`` in the folder.

    Args:
        words: the command line, without the name of the program.
        folder: where the command is run; its temporary files go to ``tmp`` in it.
        trouble: what it has to live with.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_run, args=(words, folder, trouble))
    process.start()
    return process


def cpu_seconds(process: ForkServerProcess) -> float:
    """The CPU time that a process has taken so far; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def errors_of(folder: Path) -> str:
    """What the last command printed as an error."""
    path = folder / "errors.txt"
    return path.read_text(errors="replace") if path.exists() else ""


def _run(words: list[str], folder: Path, trouble: Trouble) -> None:
    from rankloop.cli import main

    os.chdir(folder)
    os.environ.update(TMPDIR=str(folder / "tmp"), RANKLOOP_THREADS="1")
    tempfile.tempdir = None
    # Not a file, on the disk or in memory: none can be written when the disk is full.
    printed, errors = os.pipe()
    os.set_blocking(printed, False)
    for number, stream in ((os.open(os.devnull, os.O_WRONLY), 1), (errors, 2)):
        os.dup2(number, stream)
    # A process that was started in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code: object = 0
    (folder / "errors.txt").unlink(missing_ok=True)
    written = os.open(folder / "errors.txt", os.O_WRONLY | os.O_CREAT)
    try:
        trouble.begin()
        sys.argv = ["rankloop", *words]
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    trouble.end()
    sys.stderr.flush()
    with suppress(BlockingIOError):
        os.write(written, os.read(printed, 2**16))
    os._exit(code if isinstance(code, int) else 1)
