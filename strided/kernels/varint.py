"""Kernels for packed varints: seven bits a byte, low bits first, the top bit set on all bytes but the last."""

from __future__ import annotations

import numpy as np
from numba import types

from strided.kernels.compile import BYTES, NUMBER, WRITABLE, kernel

_UINT32 = types.Array(types.uint32, 1, "C")
_UINT64 = types.Array(types.uint64, 1, "C")


def _decode(data, first, last, out, filled):
    """Decode the varints of ``data[first:last]`` into `out` from `filled` on; `out` keeps the low bits it has room for.

    The last byte ends a varint, and `out` has room for as many as end. Returns the byte after the end, or ``-1 - i``
    where the varint at byte `i` is longer than ten bytes.
    """
    i = first
    while i < last:
        start = i
        byte = data[i]
        i += 1
        value = np.uint64(byte & 0x7F)
        shift = np.uint64(7)
        while byte > 0x7F:
            if i - start == 10:
                return -1 - start
            byte = data[i]
            i += 1
            value |= np.uint64(byte & 0x7F) << shift
            shift += np.uint64(7)
        out[filled] = value
        filled += 1
    return i


decode_varints32 = kernel(BYTES, NUMBER, NUMBER, _UINT32, NUMBER)(_decode)
decode_varints64 = kernel(BYTES, NUMBER, NUMBER, _UINT64, NUMBER)(_decode)


@kernel(types.Array(types.uint64, 1, "C", readonly=True), WRITABLE)
def encode_varints(values, out):
    """Encode numbers into `out`, which has ten bytes for each; returns how many bytes they took."""
    filled = 0
    for k in range(values.size):
        value = values[k]
        while value > np.uint64(0x7F):
            out[filled] = (value & np.uint64(0x7F)) | np.uint64(0x80)
            filled += 1
            value >>= np.uint64(7)
        out[filled] = value
        filled += 1
    return filled
