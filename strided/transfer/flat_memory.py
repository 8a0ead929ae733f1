"""Flat memory: allocated, aligned and populated; at a given address; read-only."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.planning.boxes import LINE_BYTES
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.threads import get_num_threads, run

#: A dtype, because NumPy would convert the type each time.
BYTE = np.dtype(np.uint8)
_byte_of = ctypes.c_char.from_buffer
#: MADV_POPULATE_WRITE, since Linux 5.14; older systems return an error, which does no harm.
_POPULATE_WRITE = 23


def empty_aligned(nbytes: int) -> Bytes:
    """Flat memory that begins at a cache line, with undefined contents.

    NumPy allocates it, which requests huge pages for large arrays. If the system can, the pages of a large array are
    populated here: that takes a third of the time of page faults, which stall streaming stores.

    >>> empty_aligned(100).ctypes.data % 64
    0
    """
    raw = np.empty(nbytes + LINE_BYTES, BYTE)
    # Takes a third of the time of `address_of`, which matters for small arrays.
    start = -ctypes.addressof(_byte_of(raw.data)) % LINE_BYTES
    memory = raw[start : start + nbytes]
    if nbytes >= limits.current.populated_bytes:
        _populate(memory)
    return memory


def _populate(memory: Bytes) -> None:
    """Ask the system to populate the pages of memory; if it cannot, page faults do."""
    madvise = _madvise()
    if madvise is None:
        return
    first = -(-address_of(memory) // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address_of(memory) + memory.size) // mmap.PAGESIZE * mmap.PAGESIZE
    pieces = (
        (at, min(limits.current.populated_piece_bytes, end - at), _POPULATE_WRITE)
        for at in range(first, end, limits.current.populated_piece_bytes)
    )
    run(madvise, pieces, threads=get_num_threads())


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """Linux's ``madvise(address, bytes, advice)``, which Python offers for file mappings only."""
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    found: Callable[[int, int, int], int] = function
    return found


def address_of(x: npt.NDArray[Any]) -> int:
    """The address of an ndarray's first element."""
    address: int = x.__array_interface__["data"][0]
    return address


class _Memory:
    """Memory at an address, with NumPy's array interface, and an object that keeps it alive."""

    def __init__(self, address: int, size: int, keeper: object, writeable: bool) -> None:
        self.keeper = keeper
        data = address, not writeable
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": data}


def bytes_at(address: int, size: int, keeper: object, *, writeable: bool) -> Bytes:
    """`size` bytes at an address, as an array that refers to `keeper`, which keeps the memory alive."""
    found: Bytes = np.asarray(_Memory(address, size, keeper, writeable))
    return found


def read_only(buffer: Bytes) -> Bytes:
    """A read-only view of a buffer."""
    if not buffer.flags.writeable:
        return buffer
    buffer = buffer.view()
    buffer.flags.writeable = False
    return buffer
