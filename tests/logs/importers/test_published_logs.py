"""Logs as they are published: they are read where RANKLOOP_DATA or the shared data exists."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rankloop.logs import ImportLossError, ImportOptions, import_metarank, import_ubi
from rankloop.offline import open_log
from tests.logs.importers.reading import counts, rows_of

DATA = Path(os.environ.get("RANKLOOP_DATA", Path(__file__).parents[4] / "shared" / "data"))
RANKLENS = DATA / "ranklens" / "events.jsonl.gz"
CHORUS = DATA / "ubi-chorus" / "ubi_queries_events.ndjson.gz"


def published(path: Path) -> Path:
    if not path.is_file():
        pytest.skip(f"{path} is not here: set RANKLOOP_DATA to the folder of the research data")
    return path


def test_ranklens_as_it_is_published(tmp_path: Path) -> None:
    """Every ranking is a query of its own, and items become 131 named features."""
    source = shutil.copy(published(RANKLENS), tmp_path / "events.backup")
    report = import_metarank(source, tmp_path / "log", policy="random")
    assert (report.impressions, report.rows, report.clicks) == (9_800, 235_200, 46_125)
    assert report.losses == ()
    assert report.hints[0].startswith("9,800 rankings have no query: each is a query of its own")
    # 693 shown documents have no item event.
    assert counts(report) == {"missing_features": 693}
    assert report.features == 235_200 - 693
    names = open_log(report.log).feature_names
    assert names is not None
    assert len(names) == len(set(names))
    assert {"popularity", "runtime", "title:words", "genres=drama", "tags#00", "writer:missing"} <= set(names)


def test_the_sample_of_ubi_as_it_is_published(tmp_path: Path) -> None:
    """``_index`` tells queries and events apart, positions count from 0 or from 1 by application, and what
    was shown comes from impression events. A fifth of the clicks belongs to queries that show nothing,
    or to another application: that is said with exit code 3 until it is allowed.
    """
    with pytest.raises(ImportLossError, match=r"60 of 298 clicks \(20.1%\).*--max-loss 0.21"):
        import_ubi(published(CHORUS), tmp_path / "log", policy="production")
    assert not (tmp_path / "log").exists()
    options = ImportOptions(max_loss=0.25)
    report = import_ubi(published(CHORUS), tmp_path / "log", policy="production", options=options)
    assert report.impressions > 280
    rows = rows_of(report.log)
    # 1,999 events; those of six queries that are not in the file are left out.
    assert counts(report)["unknown_queries"] == 67
    assert {row["position"] for row in rows if row["query_id"] == "ps4"} >= {1, 2, 3, 4, 5}
    assert min(row["position"] for row in rows) == 1
    # The positions of clicks are those of their documents, which they are not in the lists of hits.
    assert counts(report).get("disagreeing_positions", 0) <= 5
