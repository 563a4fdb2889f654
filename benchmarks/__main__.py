"""Run the benchmarks, print a table and write a file: ``python -m benchmarks``."""

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
    """Run the selected benchmarks. A missed target is marked, but not an error: the machine may be busy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=TARGETS,
        metavar="NAME",
        help="measure only this number; can be repeated",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a smoke test in seconds instead of minutes; its numbers are not meaningful",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"the file to write (default: {OUT})")
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
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
