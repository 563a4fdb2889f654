"""Write docs/real-logs.md: published logs, from the file to a decision.

    python -m experiments.real_logs docs/real-logs.md [WORK]

Reads the folder in RANKLOOP_DATA. Commands run in the folder WORK (a temporary one if it is not given), which
keeps their results: a second run shows them again without running anything.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from experiments.ranklens_table import run as run_divisions
from experiments.ranklens_table import table as table_of_divisions
from experiments.real_logs.clara2 import compare_orders, table_of, write_click_rates
from experiments.real_logs.commands import Commands
from experiments.real_logs.self_tests import describe

# Divisions of RankLens: not those on which objectives were chosen.
FIRST_DIVISION, LAST_DIVISION = 100, 109


def ranklens(work: Path, data: Path) -> list[str]:
    """Recommendations with features, without queries."""
    do = Commands(work / "ranklens", data)
    do.say("## RankLens: recommendations without queries")
    do.say(
        "Metarank's demo log as it is published: crowd workers picked films that they like from lists of 24. "
        "There are no queries and no policy; films have metadata."
    )
    do.run("rankloop import metarank $RANKLOOP_DATA/ranklens/events.jsonl.gz -o log")
    do.run("rankloop check log", lines=10)
    do.say(
        "The check notices that films explain nothing of where they are shown. The lists were drawn at "
        "random, so the policy may be declared randomised; the bias then comes from what it showed, and "
        "click rates by rank check it."
    )
    do.run("rankloop bias log -o bias.json --randomised production", lines=5)
    do.say(
        "Users read far down these lists. Without the declaration, the bias is estimated from films that "
        "moved between lists ([bias](bias.md))."
    )
    do.run("rankloop fit log --bias bias.json -o policy", lines=8)
    do.run("rankloop evaluate log --policy policy --against production", lines=6)
    do.run("rankloop rank policy log --top 1 -o top.tsv", lines=3)
    path = do.folder / "divisions.jsonl"
    events = data / "ranklens" / "events.jsonl.gz"
    run_divisions(events, FIRST_DIVISION, LAST_DIVISION, path)
    do.say(
        "**Compared with LightGBM's lambdarank.** Ten fresh divisions, a fifth of the lists as a test each, "
        "NDCG@10 of the clicks on it, with 90 % intervals for tests that overlap "
        "(`python -m experiments.ranklens_table`); `rankloop fit` estimates its bias from the training lists:"
    )
    do.say(table_of_divisions(path))
    return do.shown


def ubi(work: Path, data: Path) -> list[str]:
    """A small sample of a shop search."""
    do = Commands(work / "ubi", data)
    do.say("## UBI: the sample of OpenSearch")
    do.say(
        "Queries and events of a demo shop in one bulk file; what was shown stands only in impression events."
    )
    sample = "rankloop import ubi $RANKLOOP_DATA/ubi-chorus/ubi_queries_events.ndjson.gz -o log"
    do.run(sample, lines=6)
    do.say("Past a tenth of the clicks, the import refuses. If that is what the source is like, say so:")
    do.run(f"{sample} --max-loss 0.25", lines=6)
    do.run("rankloop check log", lines=8)
    do.run("rankloop bias log -o bias.json", lines=4)
    do.say(
        "An honest refusal: a few hundred impressions do not tell position from relevance. A curve can be "
        "assumed, and then nothing firm follows; on its own log, the result flatters itself besides:"
    )
    do.run("rankloop relevance log --bias 'position@10(eta=1)' -o relevance.parquet", lines=5)
    do.run(
        "rankloop evaluate log --policy relevance.parquet --against production --bias 'position@10(eta=1)' "
        "--sensitivity",
        lines=8,
    )
    return do.shown


def yandex(work: Path, data: Path) -> list[str]:
    """A web search log without features, divided by time."""
    do = Commands(work / "yandex", data)
    do.say("## Yandex: web search, without features")
    do.say(
        "A sample of the WSCD 2012 challenge: 20 frequent queries, ten ranks, a training and a test part. "
        "There are no features, so there is nothing to fit; but the relevance of every document can be "
        "estimated, and is a ranking. It is learned from the training part and evaluated on the test part."
    )
    table = "$RANKLOOP_DATA/clicks-yandex/impressions.csv.gz"
    for part in ("train", "test"):
        do.run(f"rankloop import columns {table} -o {part} --only split={part}", lines=4)
    do.run("rankloop check train", lines=6)
    do.run("rankloop bias train -o bias.json", lines=5)
    do.run("rankloop relevance train --bias bias.json -o relevance.parquet", lines=3)
    do.run("rankloop evaluate test --policy relevance.parquet --against production --bias bias.json", lines=6)
    do.once(
        "rates", lambda: str(write_click_rates(do.folder / "relevance.parquet", do.folder / "rates.parquet"))
    )
    do.say("The same with documents in the order of their click rates, and one against the other:")
    do.run("rankloop evaluate test --policy rates.parquet --against production --bias bias.json", lines=2)
    do.run(
        "rankloop evaluate test --policy relevance.parquet --against rates.parquet --bias bias.json", lines=2
    )
    do.say(
        "Twenty queries are few: the interval over queries like these is too narrow, as the warning says, "
        "and the bias was estimated from the same queries."
    )
    return do.shown


def clara2(work: Path, data: Path) -> list[str]:
    """A log with labels: is corrected relevance closer to them?"""
    do = Commands(work / "clara2", data)
    do.say("## CLARA 2: a log with relevance labels")
    table = "$RANKLOOP_DATA/clicks-clara2/impressions.csv.gz"
    do.say("Naver's CLARA 2 (beta): 1,951 queries, ten ranks, labels from 0 to 5 for nearly every document.")
    do.run(f"rankloop import columns {table} -o log", lines=6)
    do.run("rankloop check log", lines=6)
    do.run("rankloop bias log -o bias.json", lines=5)
    do.run("rankloop relevance log --bias bias.json -o relevance.parquet", lines=4)
    rows = do.once(
        "orders",
        lambda: compare_orders(
            do.folder / "log", do.folder / "bias.json", data / "clicks-clara2" / "labels.csv.gz"
        ),
    )
    do.say(
        "**Does corrected relevance order labelled documents better than click rates?** The share of pairs"
        " of documents with different labels that are in the right order; means over queries, with 90 % "
        "intervals of the paired difference. *Drawn to the mean*: documents with few displays are drawn to"
        " the mean of their ranks, as `rankloop relevance` does by default. *Mean position* is the order "
        "of production itself."
    )
    do.say(table_of(rows))
    do.say(
        "Corrected relevance orders labelled pairs better than raw click rates, but the correction is not "
        "what helps: drawn to the mean, click rates are better still, and production's own order is the "
        "closest to the labels of all. Correction is for learning something that production does not know "
        "yet; it is not a better label for the documents of a good ranker with few clicks. `rankloop "
        "relevance` was changed once after these labels were seen."
    )
    return do.shown


def open_bandit(work: Path, data: Path) -> list[str]:
    """Two policies that served in parallel, one document per impression."""
    do = Commands(work / "open-bandit", data)
    do.say("## Open Bandit: two policies in parallel, one document at a time")
    do.say(
        "The sample of the Open Bandit Dataset, campaign *men*: 10,000 documents that a random policy "
        "showed, and 10,000 of a bandit (*bts*), in the same week, at one of three positions. Each row is an "
        "impression of its own, without a query."
    )
    do.once("rows", lambda: write_open_bandit(data / "clicks-obd-men", do.folder / "rows.csv"))
    do.run("rankloop import columns rows.csv -o log --randomised random", lines=4)
    do.run("rankloop check log", lines=2)
    do.run("rankloop bias log -o bias.json --randomised random", lines=5)
    do.say(
        "115 clicks teach nothing about positions, and rankloop says so; for the same reason, `rankloop "
        "backtest` refuses to predict one policy from the other. The self-test is as silent as such a "
        "log must be: only a change of clicks by 85 % would have been seen."
    )
    return do.shown


def write_open_bandit(folder: Path, path: Path) -> int:
    """One table of both policies, with an id for each row; the number of rows."""
    tables = []
    for policy in ("random", "bts"):
        with gzip.open(folder / policy / "men.csv.gz") as file:
            table = pyarrow.csv.read_csv(file)
        ids = [f"{policy}-{number}" for number in range(len(table))]
        columns = {"impression_id": ids, "policy_id": [policy] * len(table), "timestamp": table["timestamp"]}
        columns |= {"doc_id": pc.cast(table["item_id"], pa.string()), "position": table["position"]}
        tables.append(pa.table({**columns, "clicked": table["click"]}))
    pyarrow.csv.write_csv(pa.concat_tables(tables), path)
    return sum(len(table) for table in tables)


def self_tests(work: Path) -> list[str]:
    """What the self-test says about each log."""
    do = Commands(work / "self-tests", work)
    do.say("## What these logs say about themselves")
    do.say(
        "The [self-test](what-can-go-wrong.md#what-a-log-can-tell-about-itself) of each log, with its "
        "estimated bias: what was found, and the smallest change of click rates that would have been seen. "
        "*Not tested*: clicks on the same document at the same position that differ in this respect are too "
        "few."
    )
    for name, folder, bias in LOGS:
        if (work / folder).is_dir():
            known = work / bias if (work / bias).is_file() else None
            rows = do.once(folder, lambda known=known, folder=folder: describe(work / folder, known))
            do.shown += [f"**{name}**: {rows}", ""]
    return do.shown


LOGS = (
    ("RankLens", "ranklens/log", "ranklens/bias.json"),
    ("UBI", "ubi/log", "ubi/bias.json"),
    ("Yandex, training", "yandex/train", "yandex/bias.json"),
    ("Yandex, test", "yandex/test", "yandex/bias.json"),
    ("CLARA 2", "clara2/log", "clara2/bias.json"),
    ("Open Bandit", "open-bandit/log", "open-bandit/bias.json"),
)
PARTS = {
    "ranklens": ranklens,
    "ubi-chorus": ubi,
    "clicks-yandex": yandex,
    "clicks-clara2": clara2,
    "clicks-obd-men": open_bandit,
}
HEAD = """# Real logs

From published files to a decision, or to an honest refusal. Every command below is run by
`python -m experiments.real_logs docs/real-logs.md`, on one core of a busy machine, and shown with what it
printed (without tables, notes and progress). Seconds are CPU time. The logs are public research data and not
part of rankloop.
"""


def main(out: Path, work: Path) -> None:
    """Run what is missing, and write the page."""
    data = Path(os.environ["RANKLOOP_DATA"]).resolve()
    parts = [part(work, data) for name, part in PARTS.items() if (data / name).is_dir()]
    parts.append(self_tests(work))
    text = "\n".join([HEAD, *(line for part in parts for line in part)])
    out.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(sys.argv[1]), Path(scratch))
