"""Every row of a source is in the log, or counted under the reason why it is not."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import rankloop
from rankloop.logs import ImportOptions, ImportReport, import_columns, import_metarank, import_ubi
from rankloop.logs.importers.report import ROW_PROBLEMS
from tests.attack.campaign import Attack, campaign
from tests.logs.importers.reading import rows_of

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
# Problems that take rows out of a log: the costly ones, and rows that are there twice.
TAKEN_OUT = (*ROW_PROBLEMS, "duplicate_rows")
# Kinds that the simple cleaning below counts, too.
COUNTED = (
    *TAKEN_OUT, "missing_positions", "empty_impressions", "clicks_without_impression", "clicks_on_left_out",
    "clicks_not_shown", "repeated_clicks",
)  # fmt: skip
BROKEN = ("no position", "i,1,q", "", "i,1,q,p,one,d,0", "i,1,q,p,1,,0", "i,yesterday,q,p,1,d,0", 'i,1,"q')


class Row(NamedTuple):
    """A document that was shown."""

    impression: str
    query: str
    policy: str
    position: int
    document: str
    clicked: bool = False


class Clean(NamedTuple):
    """What is left of rows and clicks, and how often each problem occurs."""

    rows: set[Row]
    problems: Counter[str]


def clean(rows: list[Row], clicks: list[tuple[str, str]], empty: int = 0) -> Clean:
    """The cleaning of an import as `rankloop.logs.problems.KINDS` describes it, one impression at a time."""
    problems, by_impression = Counter[str](), defaultdict[str, list[Row]](list)
    problems["empty_impressions"] = empty
    for row in rows:
        if row.position < 1:
            problems["bad_positions"] += 1
        else:
            by_impression[row.impression].append(row)
    kept: dict[tuple[str, str], Row] = {}
    left_out = set()
    for impression, group in by_impression.items():
        shown = {(row.position, row.document) for row in group}
        problems["duplicate_rows"] += len(group) - len(shown)
        positions, documents = ({place[n] for place in shown} for n in (0, 1))
        if len({row.query for row in group}) > 1 or len({row.policy for row in group}) > 1:
            problems["mixed_impressions"] += 1
            left_out.add(impression)
        elif len(positions) < len(shown):
            problems["repeated_positions"] += 1
            left_out.add(impression)
        else:
            problems["repeated_documents"] += len(shown) - len(documents)
            problems["missing_positions"] += max(positions) != len(positions)
            for document in documents:
                same = sorted(
                    (row for row in group if row.document == document), key=lambda row: row.position
                )
                kept[impression, document] = same[0]._replace(clicked=any(row.clicked for row in same))
    hits = Counter[tuple[str, str]]()
    for impression, document in clicks:
        if impression not in by_impression:
            problems["clicks_without_impression"] += 1
        elif impression in left_out:
            problems["clicks_on_left_out"] += 1
        elif (impression, document) not in kept:
            problems["clicks_not_shown"] += 1
        else:
            hits[impression, document] += 1
    for place, times in hits.items():
        problems["repeated_clicks"] += times - 1
        kept[place] = kept[place]._replace(clicked=True)
    return Clean(set(kept.values()), +problems)


def unbalanced(report: ImportReport) -> str | None:
    """What does not add up in a report: rows read = rows kept + rows left out, over all imports."""
    left_out = sum(problem.left_out for problem in report.problems if problem.name in TAKEN_OUT)
    if report.read["impressions"] != report.rows + left_out:
        return (
            f"in {report.imports} imports, {report.read['impressions']} rows were read, {report.rows} are in "
            f"the log and {left_out} were left out: {report.problems}"
        )
    return None


def unlike(report: ImportReport, expected: Clean) -> str | None:
    """How a report or its log differ from a simple cleaning."""
    found = {p.name: p.count for p in report.problems if p.name in COUNTED}
    if found != dict(expected.problems):
        return f"problems are {found}, not {dict(expected.problems)}"
    names = ("impression_id", "query_id", "policy_id", "position", "doc_id", "clicked")
    rows = [Row(*(row[name] for name in names)) for row in rows_of(report.log)]
    if len(rows) != len(expected.rows) or set(rows) != expected.rows:
        return f"the log has other rows: {set(rows) ^ expected.rows}"
    if (report.rows, report.clicks) != (len(rows), sum(row.clicked for row in rows)):
        return "the report counts other rows than the log has"
    counted = rankloop.open_log(report.log).count()
    return None if counted.rows == len(rows) else f"{counted.rows} rows are counted, not {len(rows)}"


def random_rows(chosen: random.Random) -> list[Row]:
    """Rows of a log with planted defects."""
    lines: list[Row] = []
    for number in range(chosen.randrange(1, 25)):
        shown = [f"d{document}" for document in chosen.sample(range(9), chosen.randrange(1, 5))]
        rows = [
            Row(f"i{number}", f"q{number % 4}", "p", rank, document, chosen.random() < 0.5)
            for rank, document in enumerate(shown, 1)
        ]
        defect, place = chosen.randrange(9), chosen.randrange(len(rows))
        row = rows[place]
        if defect == 0:
            rows += [row] * chosen.randrange(1, 3)
        elif defect == 1:
            rows[place] = row._replace(position=chosen.choice([0, -3, 7]))
        elif defect == 2:
            rows[place] = row._replace(query="q9")
        elif defect == 3:
            rows.append(row._replace(document="d99"))
        elif defect == 4:
            rows.append(row._replace(position=len(rows) + 1))
        elif defect == 5:
            rows[place] = row._replace(policy="other")
        elif defect == 6:
            rows.append(row._replace(clicked=not row.clicked))
        lines += rows
    return lines


def as_line(row: Row) -> str:
    """A row as a line of CSV."""
    number = row.impression.removeprefix("i")
    return f"{row.impression},{number},{row.query},{row.policy},{row.position},{row.document},{row.clicked:d}"


@campaign("accounting", inputs=2)
def attack_accounting(folder: Path) -> Attack:
    """Random tables with planted defects, imported at once and in two parts; clicks in the rows or apart."""

    def attack(chosen: random.Random) -> str | None:
        rows, clicks = random_rows(chosen), []
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if chosen.random() < 0.5:
            clicks = random_clicks(chosen, rows)
            rows = [row._replace(clicked=False) for row in rows]
        lines, broken = list(map(as_line, rows)), 0
        for _ in range(chosen.randrange(4)):
            bad = chosen.choice(BROKEN)
            lines.insert(chosen.randrange(len(lines) + 1), bad)
            broken += bool(bad)
        (folder / "whole.csv").write_text("\n".join([HEADER, *lines]) + "\n")
        given: dict[str, Any] = {}
        if clicks:
            table = "\n".join(["impression_id,doc_id", *map(",".join, clicks)])
            (folder / "clicks.csv").write_text(table + "\n")
            given["clicks"] = folder / "clicks.csv"
        options = ImportOptions(max_loss=1.0, position_base=1)
        once = import_columns(folder / "whole.csv", folder / "once", options=options, **given)
        unread = sum(problem.count for problem in once.problems if problem.name == "broken_lines")
        # A stray quote may cost the line that it is on and hide nothing else.
        if unread != broken or once.read["impressions"] != len(rows):
            return f"{len(rows)} rows and {broken} broken lines, not {once.read} and {unread}"
        problem = unbalanced(once) or unlike(once, clean(rows, clicks))
        return problem or (None if clicks else _append(folder, lines, chosen))

    return attack


def random_clicks(chosen: random.Random, rows: list[Row]) -> list[tuple[str, str]]:
    """Clicks on shown documents, and some on others."""
    clicks = [(row.impression, row.document) for row in chosen.choices(rows, k=chosen.randrange(1, 12))]
    odd = [("nowhere", "d1"), (rows[0].impression, "d77"), clicks[0]]
    return clicks + chosen.sample(odd, chosen.randrange(3))


def _append(folder: Path, lines: list[str], chosen: random.Random) -> str | None:
    """The same log, imported in two parts that do not divide an impression."""
    names = [line.split(",")[0] for line in lines]
    # A broken line may stand within an impression, and has no impression of its own.
    none = {line.split(",")[0] for line in BROKEN}
    cuts = [
        n for n in range(1, len(lines)) if {*names[:n]} & {*names[n:]} <= none and '"' not in lines[n - 1]
    ]
    if not cuts:
        return None
    cut = chosen.choice(cuts)
    for part in (lines[:cut], lines[cut:]):
        (folder / "part.csv").write_text("\n".join([HEADER, *part]) + "\n")
        options = ImportOptions(max_loss=1.0, append=True, position_base=1)
        try:
            report = import_columns(folder / "part.csv", folder / "parts", options=options)
        except ValueError as error:
            # A part may have no readable row at all.
            return None if "no impression" in str(error) else str(error)
        problem = unbalanced(report)
        if problem is not None:
            return problem
    kept, expected = (sorted(map(repr, rows_of(folder / name))) for name in ("parts", "once"))
    return None if kept == expected else "a log of two imports differs from that of one"


@campaign("event accounting", inputs=2)
def attack_events(folder: Path) -> Attack:
    """Random events of Metarank and UBI with planted defects."""
    path, log = folder / "events.jsonl", folder / "log"
    forms: dict[str, tuple[Callable[..., ImportReport], Callable[[list[Row]], Any], Callable[..., Any]]] = {
        "metarank": (import_metarank, _metarank_ranking, _metarank_click),
        "ubi": (import_ubi, _ubi_query, _ubi_click),
    }

    def attack(chosen: random.Random) -> str | None:
        load, as_list, as_click = forms[chosen.choice(list(forms))]
        lists = []
        for number in range(chosen.randrange(1, 25)):
            shown = [f"d{document}" for document in chosen.sample(range(9), chosen.randrange(1, 5))]
            if chosen.random() < 0.2:
                shown.append(shown[0])
            same = chosen.random() < 0.2 and number
            query, policy = f"q{chosen.randrange(3)}", chosen.choice(["p", "p", "other"])
            name = f"i{chosen.randrange(number) if same else number}"
            lists.append([Row(name, query, policy, rank, doc) for rank, doc in enumerate(shown, 1)])
        lists += chosen.choices(lists, k=chosen.randrange(3))
        rows = [row for shown in lists for row in shown]
        clicks = random_clicks(chosen, rows)
        events = [*map(as_list, lists), *(as_click(*click) for click in clicks)]
        chosen.shuffle(events)
        lines = [json.dumps(event) for event in events]
        lines[chosen.randrange(len(lines)) : 0] = broken = chosen.choices(["{", "null", '"x"'], k=2)
        # The first line tells the format.
        path.write_text("\n".join([json.dumps(as_list([rows[0]])), *lines]) + "\n")
        rows.append(rows[0])
        shutil.rmtree(log, ignore_errors=True)
        report = load(path, log, options=ImportOptions(max_loss=1.0))
        unread = sum(problem.count for problem in report.problems if problem.name == "broken_lines")
        if unread != len(broken):
            return f"{unread} broken lines, not {len(broken)}"
        return unbalanced(report) or unlike(report, clean(rows, clicks))

    return attack


def _metarank_ranking(shown: list[Row]) -> Any:
    fields = [{"name": "query", "value": shown[0].query}, {"name": "policy", "value": shown[0].policy}]
    documents = [{"id": row.document} for row in shown]
    return {
        "event": "ranking",
        "id": shown[0].impression,
        "timestamp": 1,
        "documents": documents,
        "fields": fields,
    }


def _metarank_click(impression: str, document: str) -> Any:
    return {
        "event": "interaction",
        "type": "click",
        "ranking": impression,
        "item": document,
        "timestamp": 2,
    }


def _ubi_query(shown: list[Row]) -> Any:
    return {
        "query_id": shown[0].impression,
        "user_query": shown[0].query,
        "timestamp": 1,
        "query_response_hit_ids": [row.document for row in shown],
        "query_attributes": {"policy_id": shown[0].policy},
    }


def _ubi_click(impression: str, document: str) -> Any:
    named = {"object": {"object_id": document}}
    return {"query_id": impression, "action_name": "click", "timestamp": 2, "event_attributes": named}
