"""In which order the axes of a copy are gone through: memory answers soonest where pages change least."""

from __future__ import annotations

import math
from collections.abc import Sequence

from strided.planning.axis_maps import AxisMap
from strided.planning.boxes import Axis, side_of
from strided.runtime import limits

#: Bytes of a page of memory, and pages that are gone through again soon enough to be known, their lines in a cache.
PAGE_BYTES, _KNOWN_PAGES = 4096, 32
#: What a known page counts.
_KNOWN = 0.25
#: Of fewer rows that follow each other, others come first.
_LEAST_ROWS = 8


def outer_order(
    axes: Sequence[Axis], inner: Sequence[int], in_memory: tuple[bool, bool] | None = None
) -> tuple[int, ...]:
    """The places of all axes but the inner ones, outermost first.

    A step along an axis brings new pages on both sides: as many as the inner axes spread over, unless it stays on them.
    The axis that brings the fewest comes innermost. Pages of the source count twice, for they are waited for, but
    little if all along the axis are so few that they are known when the next axis comes back to them; those of a side
    that stays in the cache hardly count. Without `in_memory`, a side does if it is as small as a block of a staged
    copy.
    """
    outer = tuple([k for k in range(len(axes)) if k not in inner])
    if len(outer) < 2:
        return outer
    strides = [[abs(side_of(axis, side).unit_stride) for axis in axes] for side in (1, 2)]
    pages = [
        math.prod(max(1, axes[k].extent * min(own[k], PAGE_BYTES) // PAGE_BYTES) for k in inner) for own in strides
    ]
    if in_memory is None:
        spans = [sum((axis.extent - 1) * step for axis, step in zip(axes, own, strict=True)) for own in strides]
        in_memory = spans[0] >= limits.current.staging_bytes, spans[1] >= limits.current.staging_bytes
    weights = [own if far else own / 16 for own, far in zip((2, 1), in_memory, strict=True)]

    def cost(k: int) -> float:
        new = [min(1, own[k] / PAGE_BYTES) for own in strides]
        if axes[k].extent * strides[0][k] <= _KNOWN_PAGES * PAGE_BYTES:
            new[0] *= _KNOWN
        return sum(weight * n * p for weight, n, p in zip(weights, new, pages, strict=True))

    return tuple(sorted(outer, key=cost, reverse=True))


def row_and_outer(
    kernel: str, axes: Sequence[Axis], lane: int | None, in_memory: tuple[bool, bool] | None = None
) -> tuple[int | None, tuple[int, ...]]:
    """The place of the axis that stays on the fewest pages, and those of all others but the lanes, outermost first.

    It is None if there are no others.
    """
    outer = outer_order(axes, [] if lane is None else [lane], in_memory)
    least = _LEAST_ROWS if kernel == "short_rows" else 1
    row = next((k for k in reversed(outer) if axes[k].extent >= least), outer[-1] if outer else None)
    return row, tuple([k for k in outer if k != row])


def farthest_first(axes: Sequence[Axis], side: int) -> list[int]:
    """The places of axes, those first that go far on a side (1 source, 2 target)."""
    return sorted(range(len(axes)), key=lambda k: -side_of(axes[k], side).distance)


def neighbours_of_a_page(side: AxisMap) -> int:
    """How many neighbours along an axis may share a page."""
    count = 1
    for radix_map in side.radix_maps:
        for size, stride in zip((*radix_map.sizes, PAGE_BYTES), radix_map.strides, strict=True):
            count *= min(size, -(-PAGE_BYTES // max(1, abs(stride))))
    return count
