"""Long runs of bytes: copied, where a copy is a single run on both sides, or filled with a pattern."""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, kernel

_AHEAD = 512  # bytes between a load and the line prefetched with it: worth 1.4 in speed where memory answers slowly


@kernel(BYTES, WRITABLE, NUMBER, NUMBER, NUMBER, NUMBER)
def copy(source, target, source_start, target_start, count, streaming):
    """Copy `count` bytes between buffers that do not overlap."""
    s = simd_bytes.address(source) + source_start
    t = simd_bytes.address(target) + target_start
    head = min(count, -t & 63)
    simd_bytes.move(t, s, head)
    i = head
    while i + 64 <= count:
        simd_bytes.prefetch(s + i + _AHEAD)
        simd_bytes.put(t + i, simd_bytes.load(s + i), streaming)
        i += 64
    simd_bytes.move(t + i, s + i, count - i)
    if streaming:
        simd_bytes.fence()


@kernel(BYTES, WRITABLE, TABLE, TABLE, TABLE, NUMBER)
def fill(pattern, target, outer, rows, pieces, streaming):
    """Set all pieces of all rows to a pattern.

    Tables as in `row_driver.drive`, with bytes as lanes; source offsets are ignored. `pattern` is 128 bytes: one
    element, repeated; it begins anew with every piece.
    """
    p = simd_bytes.address(pattern)
    for o in range(outer.shape[0]):
        for r in range(rows.shape[0]):
            for k in range(pieces.shape[0]):
                t = simd_bytes.address(target) + outer[o, 1] + rows[r, 1] + pieces[k, 1]
                count = pieces[k, 2]
                i = min(count, -t & 63)
                simd_bytes.move(t, p, i)
                line = simd_bytes.load(p + (i & 15))
                while i + 64 <= count:
                    simd_bytes.put(t + i, line, streaming)
                    i += 64
                simd_bytes.move(t + i, p + (i & 15), count - i)
    if streaming:
        simd_bytes.fence()
