"""The cache of compiled kernels, which knows the source of everything that was compiled into them.

numba stores machine code next to the source of a kernel, and compiles it again when that file has changed. It
does not see changes in other files, whose kernels are compiled into this one: after an update, it would go on
running the old ones. Here, a hash of the kernel's file and of all kernel files that it imports, directly or
not, is part of the names in the cache. Code of another version is never found, not even while another process
replaces it.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

FOLDER = Path(__file__).parent
IMPORTED = re.compile(r"^\s*(?:from|import)\s+rankloop\.kernels\.(\w+)", re.MULTILINE)
HASH_DIGITS = 12


@cache
def source_hash(file: Path, folder: Path = FOLDER) -> str:
    """A hash of a file with kernels, and of all files of this folder that it depends on."""
    digest = hashlib.sha256()
    for path in sorted(dependencies(file, folder)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:HASH_DIGITS]


def dependencies(file: Path, folder: Path = FOLDER) -> set[Path]:
    """The modules of kernels that a file imports, directly or not, and the file itself.

    >>> sorted(path.stem for path in dependencies(FOLDER / "expected_ranks.py"))
    ['expected_ranks', 'jit', 'machine_code']
    """
    found: set[Path] = set()
    open_ones = [file]
    while open_ones:
        path = open_ones.pop()
        if path not in found:
            found.add(path)
            names = IMPORTED.findall(path.read_text(encoding="utf-8"))
            open_ones += [folder / f"{name}.py" for name in names]
    return found


def cache_machine_code(compiled: Any) -> Any:
    """Let a compiled function find its machine code on disk, and store it there, if there is a place."""
    # numba raises it if neither the folder of the source nor the user's own may be written to.
    with suppress(RuntimeError):
        compiled._cache = _KernelCache(compiled.py_func)
    return compiled


class _NamedBySource:
    """A place of numba's for cached code, with names that depend on the source."""

    _py_file: str
    _lineno: int

    def get_source_stamp(self) -> str:
        # numba does not tell code that checks bounds from code that does not.
        checked = "-bounds" if getattr(numba.config, "BOUNDSCHECK", None) else ""
        return source_hash(Path(self._py_file)) + checked

    def get_disambiguator(self) -> str:
        return f"{self._lineno}.{self.get_source_stamp()}"


class _KernelCacheImpl(CompileResultCacheImpl):
    # The places that numba looks at: NUMBA_CACHE_DIR, next to the source, in the user's cache folder.
    _locator_classes: ClassVar[list[Any]] = [  # type: ignore[misc]
        type(place.__name__, (_NamedBySource, place), {})
        for place in inspect.getattr_static(CompileResultCacheImpl, "_locator_classes")
    ]


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl
