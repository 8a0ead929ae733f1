"""Bounds checks: everything that reads or writes buffers is checked here first.

A *span* is the range of bytes of a buffer, (start, stop), that is accessed: by the elements of a view, or by the
kernels of a plan, whole words included.
"""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from strided.errors import BufferSizeError
from strided.planning.plan import span_of
from strided.transfer.chunks import chunks
from strided.transfer.region import Region

Span: TypeAlias = tuple[int, int]


def holds(region: Region, span: Span | None) -> bool:
    """Whether a span lies in the buffer; False for None."""
    return span is not None and span[0] >= 0 and span[1] <= region.buffer.size


def holds_view(region: Region) -> bool:
    """Whether all elements of the view are known to lie in the buffer; False for irregular views."""
    return holds(region, span_of(region.map, region.storage))


def least_size(span: Span | None) -> int:
    """Bytes of the smallest buffer that holds a span; `sys.maxsize` if none does, or the span is None."""
    return sys.maxsize if span is None or span[0] < 0 else span[1]


def refuse_outside(region: Region, span: Span | None, name: str) -> None:
    """Raise BufferSizeError unless a span lies in the buffer. If it is None, it is computed from all offsets.

    `name` is what the message calls the region.
    """
    if span is None:
        span = _span_of_offsets(region)
    if not holds(region, span):
        raise BufferSizeError(
            f"the {name} takes the bytes from {span[0]} to {span[1]} of a buffer of {region.buffer.size} bytes",
            actual=region.buffer.size,
            needed=span[1],
        )


def check_offsets(offsets: npt.NDArray[np.int64], elements: int) -> None:
    """Raise BufferSizeError unless all offsets are below `elements` and none is negative."""
    if offsets.size and (offsets.min() < 0 or offsets.max() >= elements):
        raise BufferSizeError(
            f"offsets run from {offsets.min()} to {offsets.max()}, but the buffer holds {elements} elements"
        )


def _span_of_offsets(region: Region) -> Span:
    """The span of an irregular view; (0, 0) if its upper bound already shows that it lies in the buffer."""
    if region.map.size == 0 or region.map.upper_bound * region.bits <= 8 * region.buffer.size:
        return 0, 0
    ends = [(int(part.min()), int(part.max())) for part in map(region.map.offsets, chunks(region.map.shape))]
    return region.storage.byte_span(min(low for low, _ in ends), max(high for _, high in ends))
