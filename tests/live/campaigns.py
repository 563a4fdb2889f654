"""Tests that take many minutes, and run only when they are asked for."""

from __future__ import annotations

import os

import pytest

campaign = pytest.mark.skipif(
    not os.environ.get("RANKLOOP_CAMPAIGNS"), reason="takes many minutes: make campaigns runs it"
)
