"""The helpers that build the site's reference pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.extras
def test_doctests_in_docstrings_become_code_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe", reason="the site's tools are not installed: make docs installs them")
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.delitem(sys.modules, "doctest_blocks", raising=False)
    from doctest_blocks import fence_doctests

    text = "Add.\n\nExample:\n    >>> 1 + 1\n    2\n\nReturns:\n    The sum."
    assert fence_doctests(text) == (
        "Add.\n\nExample:\n    ```python\n    >>> 1 + 1\n    2\n    ```\n\nReturns:\n    The sum."
    )
    assert fence_doctests(">>> 1\n1") == "```python\n>>> 1\n1\n```"
