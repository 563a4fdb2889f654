"""Run everything in one thread, so that benchmarks compare the amount of work and not the number of cores."""

from __future__ import annotations

import os
import sys

# These set the number of threads of NumPy's matrix library (OpenBLAS, MKL or Apple's) and of rankloop.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RANKLOOP_THREADS",
)


def ensure_one_thread() -> None:
    """Restart this program with one thread, unless it already has one.

    Matrix libraries read the number of threads when NumPy is imported, before any code of this project runs.
    """
    if any(os.environ.get(variable) != "1" for variable in VARIABLES):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **dict.fromkeys(VARIABLES, "1")})


def any_threads() -> dict[str, str]:
    """Return the environment of a subprocess that may use every core."""
    return {name: value for name, value in os.environ.items() if name not in VARIABLES}
