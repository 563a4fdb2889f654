"""Measure, print the table, write the file: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import FULL, QUICK, Result
from benchmarks.one_thread import ensure_one_thread
from benchmarks.registry import BENCHMARKS, TARGETS
from rankloop.cli.console import announce_compilation

OUT = Path("build/bench.json")


def main() -> None:
    """Run what was asked for. A missed target is shown, not punished: machines are shared."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=TARGETS, metavar="NAME", help="one number; repeat for more"
    )
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes; numbers mean little"
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"where to write, instead of {OUT}")
    options = parser.parse_args()
    ensure_one_thread()
    wanted = set(options.only or TARGETS)
    results: dict[str, Result] = {}
    with announce_compilation():
        for benchmark in BENCHMARKS:
            names = {target.name for target in benchmark.targets}
            if names & wanted:
                print(f"measuring {', '.join(target.name for target in benchmark.targets)} …", flush=True)
                results |= benchmark.run(QUICK if options.quick else FULL)
    kept = {name: result for name, result in results.items() if name in wanted}
    Console().print(report.table(kept, TARGETS))
    report.write(kept, TARGETS, options.out)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
