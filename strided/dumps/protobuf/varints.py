"""Decode and encode many packed varints, as of a LiteralProto's 32- and 64-bit integers.

NumPy decodes about 100 MB/s. From `Limits.varint_bytes`, a kernel is worth loading, which is several times as fast on
each thread (asv: ``snapshots.Varints``).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from strided import kernels
from strided.errors import DumpError
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.threads import get_num_threads, run

#: Bytes decoded by a task, and numbers encoded at a time, so that NumPy's temporaries fit the cache.
_TASK_BYTES = 1 << 17
_CHUNK = 1 << 16

#: The least numbers that take two, three, ... ten bytes of seven bits.
_SEPTETS = np.array([1 << 7 * k for k in range(1, 10)], np.uint64)


def decode_varints(
    view: memoryview, dtype: npt.DTypeLike, wanted: str, at: int = 0, *, count: int | None = None
) -> npt.NDArray[Any]:
    """Decode packed varints to an array of `dtype`: integers, truncated as in protobuf, or bools, True unless 0.

    DumpError, which names `wanted` and the byte of the file, if there are not `count` of them, one has more than ten
    bytes, or the last one is incomplete.

    >>> decode_varints(memoryview(bytes([150, 1, 2])), np.int32, "an example")
    array([150,   2], dtype=int32)
    """
    data, dtype = np.frombuffer(view, np.uint8), np.dtype(dtype)
    if data.size and data[-1] > 0x7F:
        raise DumpError(f"{wanted}: the last varint has no end", position=at + data.size)
    places = _task_bounds(data, wanted, at)
    filled = [0, *accumulate(_count(data[first:last]) for first, last in pairwise(places))]
    if count is not None and filled[-1] != count:
        raise DumpError(f"{wanted}: expected {count} numbers, found {filled[-1]}", position=at)
    out, tasks = np.empty(filled[-1], dtype), list(zip(places, places[1:], filled, strict=False))
    kernel = f"decode_varints{8 * dtype.itemsize}"
    is_large = data.size >= limits.current.varint_bytes and dtype.kind in "iu" and dtype.itemsize >= 4
    if is_large and kernels.is_ready(kernel):
        _decode_by_kernel(kernel, data, out, tasks, wanted, at)
    else:
        for first, last, start in tasks:
            _decode_by_numpy(data[first:last], out[start:], wanted, at + first)
    return out


def _count(data: Bytes) -> int:
    return int(np.count_nonzero(data.view(np.int8) >= 0))  # only the last byte of a varint has no top bit


def _too_long(wanted: str, at: int) -> DumpError:
    return DumpError(f"{wanted}: expected a varint, found more than ten bytes of one", position=at)


def _task_bounds(data: Bytes, wanted: str, at: int) -> list[int]:
    """The boundaries of tasks, which lie between varints."""
    cuts = [0]
    while cuts[-1] < data.size:
        last = min(cuts[-1] + _TASK_BYTES, data.size)
        first = max(last - 10, cuts[-1])  # one of ten bytes must end a varint
        ends = np.flatnonzero(data[first:last] < 0x80)
        if not ends.size:
            raise _too_long(wanted, at + first)
        cuts.append(first + int(ends[-1]) + 1)
    return cuts


def _decode_by_numpy(data: Bytes, out: npt.NDArray[Any], wanted: str, at: int) -> None:
    ends = np.flatnonzero(data < 0x80)
    if ends.size == data.size:
        out[: ends.size] = data
        return
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    lengths = ends - starts + 1
    longest = int(lengths.max())
    if longest > 10:
        raise _too_long(wanted, at + int(starts[int(lengths.argmax())]))
    values: npt.NDArray[np.uint64] = (data[starts] & 0x7F).astype(np.uint64)
    longer = np.arange(ends.size)
    for k in range(1, longest):
        longer = longer[lengths[longer] > k]
        values[longer] |= (data[starts[longer] + k] & np.uint64(0x7F)) << np.uint64(7 * k)
    out[: ends.size] = values


def _decode_by_kernel(
    name: str, data: Bytes, out: npt.NDArray[Any], tasks: list[tuple[int, int, int]], wanted: str, at: int
) -> None:
    """Decode by a kernel; a task is the start and end of its bytes, and the index of its first number."""
    kernel = kernels.load(name)
    unsigned = out.view(f"u{out.itemsize}")

    def work(first: int, last: int, start: int) -> None:
        end = kernel(data, first, last, unsigned, start)
        if end < 0:
            raise _too_long(wanted, at - 1 - end)

    run(work, tasks, threads=get_num_threads())


def encode_varints(values: npt.NDArray[Any]) -> bytes:
    """Encode integers as packed varints; negative ones take ten bytes, as for protobuf's int32 and int64.

    >>> encode_varints(np.array([150, 2])).hex()
    '960102'
    """
    flat, pieces = values.reshape(-1), []
    by_kernel = flat.nbytes >= limits.current.varint_bytes and kernels.is_ready("encode_varints")
    kernel = kernels.load("encode_varints") if by_kernel else None
    for first in range(0, flat.size, _CHUNK):
        chunk = flat[first : first + _CHUNK]
        numbers = chunk.astype(np.int64).view(np.uint64) if chunk.dtype.kind == "i" else chunk.astype(np.uint64)
        if kernel is None:
            pieces.append(_encode_chunk(numbers).tobytes())
        else:
            out = np.empty(10 * numbers.size, np.uint8)
            pieces.append(out[: kernel(numbers, out)].tobytes())
    return b"".join(pieces)


def _encode_chunk(numbers: npt.NDArray[np.uint64]) -> Bytes:
    lengths = np.searchsorted(_SEPTETS, numbers, side="right") + 1
    ends = np.cumsum(lengths)
    out = np.empty(int(ends[-1]), np.uint8)
    starts, longer = ends - lengths, np.arange(numbers.size)
    for k in range(int(lengths.max())):
        longer = longer[lengths[longer] > k]
        septets = (numbers[longer] >> np.uint64(7 * k)).astype(np.uint8) & np.uint8(0x7F)
        out[starts[longer] + k] = septets | ((lengths[longer] > k + 1).astype(np.uint8) << np.uint8(7))
    return out
