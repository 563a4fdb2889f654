"""What the server of forked commands does once: a small run and a bias, which need kernels.

It starts no threads, which would not survive a fork.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile

import numpy as np

from rankloop import bias, clicks
from rankloop.cli import main

os.environ["RANKLOOP_THREADS"] = "1"
quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
with tempfile.TemporaryDirectory() as folder, quiet[0], quiet[1]:
    sys.argv = ["rankloop", "run", "synthetic(queries=30, features=5)", "--horizon", "300", "--out", folder]
    with contextlib.suppress(SystemExit):
        main()
rng, offsets = np.random.default_rng(0), np.arange(0, 161, 4)
counts = clicks.gather(np.zeros(160), offsets, rng.random(160), clicks.users("paper@2"), 20_000, rng)
bias.estimate_bias(counts, bias.BiasOptions(resamples=0), rng=rng)
