"""The table of docs/export.md is what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
pytest.importorskip("onnxruntime", reason='onnxruntime is not installed: pip install "rankloop[export]"')

from tests.exchange.table import VECTORS, on_page, table, without_numbers

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def test_every_cell_of_the_page_holds() -> None:
    assert without_numbers(on_page(PAGE.read_text(encoding="utf-8"))) == without_numbers(table(200))


@pytest.mark.long
def test_the_page_holds_for_as_many_vectors_as_it_says() -> None:
    assert on_page(PAGE.read_text(encoding="utf-8")) == table(VECTORS)
