"""Which names the project itself registers: documentation and other tests may register more."""

from __future__ import annotations

from typing import Any

from rankloop.registry import Registry


def built_in(registry: Registry[Any]) -> set[str]:
    return {name for name, kind in registry.items() if kind.__module__.startswith("rankloop.")}
