"""How kernels are compiled: without the GIL, for one set of argument types, and kept on disk where that is possible.

Compiled code goes to Numba's cache: the folder that `NUMBA_CACHE_DIR` names, else `__pycache__` beside the sources,
else the user's cache folder. Where none can be written, or a file in it cannot be read, kernels are compiled in memory
silently. The code is good for one CPU and one state of the sources: of all files in this folder, since
kernels are put together from several. ``STRIDED_CACHE=0`` in the environment turns the cache off.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile

SWITCH = "STRIDED_CACHE"
"""Environment variable that turns the cache off where it is ``0``."""

#: Argument types. Arrays that are only read may be read-only.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
WRITABLE = types.Array(types.uint8, 1, "C")
LIST = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
NUMBER = types.int64

#: Zero as a NUMBER: functions given a literal are compiled once more for it.
ZERO = np.int64(0)

# Without NRT nothing counts references. Its atomic increments in inner loops made streaming stores three times slower.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
_SWITCHING = RLock()


@contextmanager
def _compiler_on() -> Iterator[None]:
    """Within this, Numba compiles though ``NUMBA_DISABLE_JIT`` is set.

    That is meant for the functions of whoever sets it, to follow them with a debugger. Kernels are put together from
    pieces of LLVM: they are nothing without the compiler.
    """
    with _SWITCHING:
        before, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, 0
        try:
            yield
        finally:
            numba.config.DISABLE_JIT = before


def _njit(**options: Any) -> Any:
    decorate = numba.njit(**options, **_OPTIONS)

    def decorated(function: Any) -> Any:
        with _compiler_on():
            return decorate(function)

    return decorated


part = _njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorate a function that kernels are put together from."""


class Kernel:
    """A function that is compiled when first called, or before by `compiled`.

    Attributes
    ----------
    arguments : tuple of Numba types
        What it takes, always the same.
    """

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._dispatcher = _njit()(function)
        self._lock = Lock()

    @cached_property
    def compiled(self) -> Any:
        """The machine code, as a function of the same arguments."""
        with self._lock, _compiler_on():
            if not self._dispatcher.signatures:
                if os.environ.get(SWITCH) != "0":
                    _keep_on_disk(self._dispatcher)
                self._dispatcher.compile(self.arguments)
                self._dispatcher.disable_compile()
        return self._dispatcher

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


def kernel(*arguments: Any) -> Any:
    """Decorate a kernel that takes arguments of these types."""
    return lambda function: Kernel(function, arguments)


class _Cache(FunctionCache):
    """Numba's cache, for code put together from all files of this folder; what goes wrong with files is a miss."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, _stamp())

    def load_overload(self, *key: Any) -> Any:
        try:
            return super().load_overload(*key)
        except Exception:  # whatever a damaged file may raise as it is unpickled
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *entry: Any) -> None:
        with suppress(Exception):  # no space, no permission, a damaged index that could not be replaced
            super().save_overload(*entry)


def _keep_on_disk(dispatcher: Any) -> None:
    with suppress(OSError, RuntimeError):  # the latter where Numba finds no folder to write to
        dispatcher._cache = _Cache(dispatcher.py_func)


@cache
def _stamp() -> str:
    """What the sources of this folder say, as one short text."""
    text = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text.update(path.read_bytes())
    return text.hexdigest()
