"""The cache of compiled kernels, which knows the source of everything that was compiled into them.

numba stores machine code next to the source of a kernel, and compiles it again when that file has changed. It
does not see changes in other files, whose kernels are compiled into this one: after an update, it would go on
running the old ones. Here, a hash of the kernel's file and of all kernel files that it imports, directly or
not, is part of the names in the cache. Code of another version is never found, not even while another process
replaces it.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

FOLDER = Path(__file__).parent
IMPORTED = re.compile(r"^\s*(?:from|import)\s+rankloop\.kernels\.(\w+)", re.MULTILINE)
HASH_DIGITS = 12


@cache
def source_hash(module: str, folder: Path = FOLDER) -> str:
    """A hash of the source of a module of kernels, and of all modules of kernels that it depends on."""
    digest = hashlib.sha256()
    for name in sorted(dependencies(module, folder)):
        digest.update((folder / f"{name}.py").read_bytes())
    return digest.hexdigest()[:HASH_DIGITS]


def dependencies(module: str, folder: Path = FOLDER) -> set[str]:
    """The modules of kernels that a module imports, directly or not, and the module itself.

    >>> sorted(dependencies("expected_ranks"))
    ['expected_ranks', 'jit', 'machine_code']
    """
    found: set[str] = set()
    open_ones = [module]
    while open_ones:
        name = open_ones.pop()
        if name not in found:
            found.add(name)
            open_ones += IMPORTED.findall((folder / f"{name}.py").read_text(encoding="utf-8"))
    return found


def cache_machine_code(compiled: Any) -> Any:
    """Let a compiled function find its machine code on disk, and store it there, if there is a place for it."""
    # numba raises it if neither the folder of the source nor the user's own may be written to.
    with suppress(RuntimeError):
        compiled._cache = _KernelCache(compiled.py_func)
    return compiled


class _NamedBySource:
    """A place of numba's for cached code, with names that depend on the source."""

    _py_file: str
    _lineno: int

    def get_source_stamp(self) -> str:
        file = Path(self._py_file)
        # numba does not tell code that checks bounds from code that does not.
        return source_hash(file.stem, file.parent) + ("-bounds" if numba.config.BOUNDSCHECK else "")

    def get_disambiguator(self) -> str:
        return f"{self._lineno}.{self.get_source_stamp()}"


class _KernelCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    # The places that numba looks at: NUMBA_CACHE_DIR, next to the source, in the user's cache folder.
    _locator_classes = [  # noqa: RUF012
        type(place.__name__, (_NamedBySource, place), {}) for place in CompileResultCacheImpl._locator_classes
    ]


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _KernelCacheImpl
