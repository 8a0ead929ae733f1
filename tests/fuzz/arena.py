"""Memory between pages that nobody may touch: a byte too far, read or written, ends the process."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pytest

if sys.platform == "win32":
    pytest.skip("pages are protected by other means there", allow_module_level=True)

Bytes = npt.NDArray[np.uint8]

PAGE = mmap.PAGESIZE
#: Bytes on both sides, as far as they are accessible, that are held to be unchanged.
MARGIN = 192

_NONE, _READ, _WRITE, _PRIVATE_ANONYMOUS = 0, mmap.PROT_READ, mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_system = ctypes.CDLL(None, use_errno=True)
_system.mmap.restype = ctypes.c_void_p
_system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Arena:
    """Some pages between two that cannot be touched, handed out flush with either end. They are never given back."""

    def __init__(self, size: int) -> None:
        self._size = -(-size // PAGE) * PAGE
        start = _system.mmap(None, self._size + 2 * PAGE, _NONE, _PRIVATE_ANONYMOUS, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap")
        self._start = start + PAGE
        self._protect(_READ | _WRITE)
        self.memory: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self._size).from_address(self._start))

    def _protect(self, access: int) -> None:
        if _system.mprotect(self._start, self._size, access):
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, size: int, *, at_end: bool, gap: int = 0) -> Bytes:
        """So many bytes, which end where the arena ends or begin where it begins, or `gap` bytes from there."""
        first = self._first(size, at_end, gap)
        return self.memory[first : first + size]

    def margins(self, size: int, *, at_end: bool, gap: int = 0) -> tuple[Bytes, Bytes]:
        """What lies before and behind such bytes in the arena."""
        first = self._first(size, at_end, gap)
        return self.memory[max(0, first - MARGIN) : first], self.memory[first + size : first + size + MARGIN]

    def _first(self, size: int, at_end: bool, gap: int) -> int:
        gap = min(gap, self._size - size)
        return self._size - size - gap if at_end else gap

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Within this, nobody may write into the arena."""
        self._protect(_READ)
        try:
            yield
        finally:
            self._protect(_READ | _WRITE)
