"""One thread for everything, so that what is compared is work and not cores."""

from __future__ import annotations

import os
import sys

# What NumPy's matrix library (by build: OpenBLAS, MKL or Apple's) and rankloop take their threads from.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RANKLOOP_THREADS",
)


def ensure_one_thread() -> None:
    """Start this program again with one thread, unless it runs so already.

    Matrix libraries read their number of threads when NumPy is imported, which is before any of our code.
    """
    if any(os.environ.get(variable) != "1" for variable in VARIABLES):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **dict.fromkeys(VARIABLES, "1")})


def any_threads() -> dict[str, str]:
    """The environment of a subprocess that may use every core."""
    return {name: value for name, value in os.environ.items() if name not in VARIABLES}
