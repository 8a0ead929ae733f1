"""Whether two arrays share memory: exactly, or by their bounds only.

Two views of one array are compared axis by axis, as arithmetic progressions of indices. For other pairs of which one
has no strides, all bytes are enumerated, up to a limit.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from strided.arrays.base import Array, ArrayBase
from strided.arrays.index_ranges import index_ranges_of
from strided.arrays.keys import IndexRange
from strided.planning.offset_tables import distinct
from strided.transfer.flat_memory import address_of
from strided.transfer.region import addresses_of

#: The most elements of both arrays together whose bytes are enumerated.
_MOST_ELEMENTS = 1 << 24


class _Values(np.ndarray):
    """Bytes of converted values, with a reference to the buffer from which they were read."""

    source: weakref.ref[Array]


def read_only_values(values: npt.NDArray[np.uint8], array: ArrayBase) -> Array:
    """Converted values of an array, given as bytes, as an ndarray that cannot be made writeable."""
    known = values.view(_Values)
    known.source = weakref.ref(array._memory.buffer)
    return np.ndarray(array.shape, array.dtype, np.frombuffer(known.data.toreadonly(), np.uint8))


def _is_converted_from(x: Any, array: Any) -> bool:
    """Whether an ndarray contains values converted from the buffer of an array."""
    while type(x) is np.ndarray:
        x = x.base
    values: Any = x.obj if isinstance(x, memoryview) else None
    buffer = values.source() if isinstance(values, _Values) and isinstance(array, ArrayBase) else None
    return buffer is not None and bool(np.may_share_memory(buffer, array._memory.buffer))


def as_memory(x: Any) -> Any:
    """An object as an argument of `may_share` and `share`: a layout array or an ndarray."""
    return x if isinstance(x, ArrayBase) else np.asarray(x)


def may_share(first: Any, second: Any) -> bool:
    """Whether two arrays' byte ranges overlap, or one contains values converted from the other. False is certain.

    NumPy calls this with ``np.asarray(a)`` and `a` before it writes to the former.
    """
    return _spans_meet(first, second) or _is_converted_from(first, second) or _is_converted_from(second, first)


def _spans_meet(first: Any, second: Any) -> bool:
    if not first.size or not second.size:
        return False
    (low, high), (start, stop) = _span(first), _span(second)
    return low < stop and start < high


def share(first: Any, second: Any, max_work: Any = -1) -> bool:
    """Whether a byte belongs to elements of both arrays. (Packed elements in one byte share it.)

    Raises
    ------
    numpy.exceptions.TooHardError
        It would take too long to find out.
    """
    if max_work == 0:
        return may_share(first, second)
    if not _spans_meet(first, second):
        return False
    plain = [x._as_strided() if isinstance(x, ArrayBase) and x.is_strided else x for x in (first, second)]
    if not any(isinstance(x, ArrayBase) for x in plain):
        return bool(np.shares_memory(plain[0], plain[1], max_work))
    if isinstance(first, ArrayBase) and isinstance(second, ArrayBase):
        answer = _boxes_meet(first, second)
        if answer is not None:
            return answer
    if first.size + second.size > _MOST_ELEMENTS:
        raise np.exceptions.TooHardError("Exceeded max_work")
    return bool(np.isin(_bytes_of(first), _bytes_of(second)).any())


def _span(x: Any) -> tuple[int, int]:
    """The address of the first byte, and the address past the last one."""
    return addresses_of(x.region) if isinstance(x, ArrayBase) else byte_bounds(x)


def _bytes_of(x: Any) -> npt.NDArray[np.int64]:
    """The addresses of all bytes of an array."""
    if not isinstance(x, ArrayBase):
        low, high = byte_bounds(x)
        numbers = np.arange(high - low, dtype=np.int64)
        start = address_of(x) - low
        places = np.ndarray((*x.shape, x.itemsize), np.int64, numbers, 8 * start, tuple(8 * s for s in (*x.strides, 1)))
        return distinct(np.sort(places, axis=None)) + low
    bits = x._memory.bits
    offsets = x._map.offsets().reshape(-1)
    every = offsets * bits // 8 if bits < 8 else offsets[:, None] * (bits // 8) + np.arange(bits // 8)
    return distinct(np.sort(every, axis=None)) + address_of(x._memory.buffer)


def _boxes_meet(first: ArrayBase, second: ArrayBase) -> bool | None:
    """Whether two views of one array share an element; None if that does not follow from their index ranges."""
    own, other = first._memory, second._memory
    if own.spec != other.spec or own.bits != other.bits or address_of(own.buffer) != address_of(other.buffer):
        return None
    if own.dtype.itemsize != own.spec.dtype.itemsize:
        return None
    mine, theirs = index_ranges_of(first), index_ranges_of(second)
    if mine is None or theirs is None:
        return None
    meet = all(_meet(p, q) for p, q in zip(mine.dimensions, theirs.dimensions, strict=True))
    return None if own.bits < 8 and not meet else meet  # neighbours may share a byte


def _meet(first: IndexRange, second: IndexRange) -> bool:
    """Whether two arithmetic progressions share a number."""
    a, b = (range(p.start, p.start + (p.step * p.size or 1), p.step or 1) for p in (first, second))
    a, b = (r if r.step > 0 else r[::-1] for r in (a, b))
    common = math.gcd(a.step, b.step)
    if (b.start - a.start) % common:
        return False
    # The least number of both that is `low` or more, by the Chinese remainder theorem.
    low, high = max(a.start, b.start), min(a[-1], b[-1])
    step = a.step // common * b.step
    turns = (b.start - a.start) // common * pow(a.step // common, -1, b.step // common) if b.step != common else 0
    at = a.start + a.step * turns
    at += -(-(low - at) // step) * step
    return at <= high


def repeats(out: Any) -> bool:
    """Whether several indices may address the same memory."""
    if isinstance(out, ArrayBase):
        return out._map.is_spread
    span = out.itemsize
    for stride, n in sorted((abs(stride), n) for stride, n in zip(out.strides, out.shape, strict=True) if n > 1):
        if stride < span:
            return True
        span += (n - 1) * stride
    return False
