"""Kernels for packed varints: seven bits a byte, low bits first, the top bit set on all bytes but the last."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from strided.kernels.compile import BYTES, NUMBER, WRITABLE, kernel
from strided.kernels.unaligned import load_unsigned

_UINT32 = types.Array(types.uint32, 1, "C")
_UINT64 = types.Array(types.uint64, 1, "C")

_TOP_BITS = np.uint64(0x8080808080808080)


@intrinsic
def _trailing_zeros(typing, value):
    """Zero bits below the lowest one of a number that is not 0."""

    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), code


def _decode(data, first, last, out, filled):
    """Decode the varints of ``data[first:last]`` into `out` from `filled` on; `out` keeps the low bits it has room for.

    The last byte ends a varint, and `out` has room for as many as end. Returns the byte after the end, or ``-1 - i``
    where the varint at byte `i` is longer than ten bytes.
    """
    i = first
    while i < last:
        if i + 8 <= last:
            word = load_unsigned(data, i, np.uint64(0))
            stops = ~word & _TOP_BITS
            if stops == _TOP_BITS:  # eight varints of one byte
                for k in range(8):
                    out[filled + k] = (word >> np.uint64(8 * k)) & np.uint64(0x7F)
                filled += 8
                i += 8
                continue
            if stops != np.uint64(0):  # one that ends here: no branch on its length, which nobody can predict
                word &= (stops ^ (stops - np.uint64(1))) & np.uint64(0x7F7F7F7F7F7F7F7F)
                word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
                word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
                out[filled] = (word & np.uint64(0x0FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
                filled += 1
                i += np.int64(_trailing_zeros(stops) >> np.uint64(3)) + 1
                continue
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
