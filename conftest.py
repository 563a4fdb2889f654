"""What holds for the examples of the documentation, too, which pytest runs as tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from _pytest.doctest import DoctestItem

from rankloop import registry


@pytest.fixture(autouse=True)
def names_of_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget the classes that an example registered: other tests list all names, in any order of tests."""
    yield
    if isinstance(request.node, DoctestItem):
        for kind in registry._registries:
            for name, cls in list(kind._classes.items()):
                if getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls:
                    del kind._classes[name]
