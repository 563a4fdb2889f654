"""Every row of a source is in the log, or counted under the reason why it is not."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from rankloop.logs import ImportOptions, ImportReport, import_columns
from rankloop.logs.importers.losses import ROW_PROBLEMS
from tests.attack.campaign import Attack, campaign
from tests.logs.importers.reading import rows_of

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
# Problems that take rows out of a log: the costly ones, and rows that are there twice.
TAKEN_OUT = (*ROW_PROBLEMS, "duplicate_rows")
BROKEN = ("no position", "i,1,q", "", "i,1,q,p,one,d,0", "i,1,q,p,1,,0", "i,yesterday,q,p,1,d,0", 'i,1,"q')


def unbalanced(report: ImportReport) -> str | None:
    """What does not add up in a report: rows staged = rows kept + rows left out."""
    left_out = sum(problem.left_out for problem in report.problems if problem.name in TAKEN_OUT)
    staged = report.read["impressions"]
    if staged != report.rows + left_out:
        return f"{staged} rows were read, {report.rows} kept and {left_out} left out: {report.problems}"
    return None


def random_log(chosen: random.Random) -> tuple[list[str], int]:
    """Lines of a log with planted defects, and how many of them cannot be read."""
    lines, broken = [], 0
    for number in range(chosen.randrange(1, 25)):
        shown = [f"d{document}" for document in chosen.sample(range(9), chosen.randrange(1, 5))]
        rows = [
            [f"i{number}", str(number), f"q{number % 4}", "p", str(rank), document, str(chosen.randrange(2))]
            for rank, document in enumerate(shown, 1)
        ]
        defect, row = chosen.randrange(9), chosen.choice(rows)
        if defect == 0:
            rows += [list(row)] * chosen.randrange(1, 3)
        elif defect == 1:
            row[4] = chosen.choice(["0", "-3", "7"])
        elif defect == 2:
            row[2] = "q9"
        elif defect == 3:
            rows.append([*row[:5], "d99", "0"])
        elif defect == 4:
            rows.append([*row[:4], str(len(rows) + 1), *row[5:]])
        elif defect == 5:
            row[3] = "other"
        lines += [",".join(row) for row in rows]
    for _ in range(chosen.randrange(4)):
        bad = chosen.choice(BROKEN)
        lines.insert(chosen.randrange(len(lines) + 1), bad)
        broken += bool(bad)
    return lines, broken


@campaign("accounting", inputs=10)
def attack_accounting(folder: Path) -> Attack:
    """Random logs with planted defects, imported at once and day by day."""

    def attack(chosen: random.Random) -> str | None:
        lines, broken = random_log(chosen)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        whole = folder / "whole.csv"
        whole.write_text("\n".join([HEADER, *lines]) + "\n")
        once = import_columns(whole, folder / "once", options=ImportOptions(max_loss=1.0))
        filled = sum(bool(line) for line in lines)
        unread = sum(problem.count for problem in once.problems if problem.name == "broken_lines")
        if once.read["impressions"] + unread != filled:
            return f"{filled} lines, but {once.read['impressions']} rows and {unread} broken lines"
        # A stray quote may cost the line that it is on and hide nothing else.
        if unread != broken:
            return f"{unread} broken lines, not {broken}"
        return unbalanced(once) or _append(folder, lines, once, chosen)

    return attack


def _append(folder: Path, lines: list[str], once: ImportReport, chosen: random.Random) -> str | None:
    """The same log, imported in two parts that do not divide an impression."""
    names = [line.split(",")[0] for line in lines]
    cuts = [n for n in range(1, len(lines)) if names[n] != names[n - 1] and '"' not in lines[n - 1]]
    if not cuts:
        return None
    cut = chosen.choice(cuts)
    for part in (lines[:cut], lines[cut:]):
        (folder / "part.csv").write_text("\n".join([HEADER, *part]) + "\n")
        options = ImportOptions(max_loss=1.0, append=True, position_base=once.position_base)
        try:
            report = import_columns(folder / "part.csv", folder / "parts", options=options)
        except ValueError as error:
            # A part may have no readable row at all.
            return None if "no impression" in str(error) else str(error)
        problem = unbalanced_appended(report)
        if problem is not None:
            return problem
    kept, expected = (sorted(map(repr, rows_of(folder / name))) for name in ("parts", "once"))
    return None if kept == expected else "a log of two imports differs from that of one"


def unbalanced_appended(report: ImportReport) -> str | None:
    """What does not add up in the report of several imports."""
    left_out = sum(problem.left_out for problem in report.problems if problem.name in TAKEN_OUT)
    if report.read["impressions"] != report.rows + left_out:
        return (
            f"over {report.imports} imports, {report.read['impressions']} rows were read, {report.rows} are "
            f"in the log and {left_out} were left out: {report.problems}"
        )
    return None
