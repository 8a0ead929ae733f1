"""Copies between mapped buffers: check them, choose a plan, carry it out.

A `Region` is a flat buffer and the map of a view on it. `copy` moves element patterns bit for bit from one region to
another of the same shape, whatever their layouts; `fill`, `gather` and `scatter` are its smaller sisters. Small copies
are done by NumPy alone, so that looking at a few elements never waits for a compiler. Larger ones go to the kernels.

No offset is followed outside a buffer: the extreme offsets of a plan are compared with the sizes of the buffers before
anything is touched.
"""

from __future__ import annotations

import numpy as np

from strided import kernels
from strided.address import AddressMap
from strided.execution import Execution, How
from strided.gathering import copy_by_offsets, gather, refuse_offsets_outside, scatter
from strided.plan import Computed, Plan, plan_copy
from strided.region import Region, empty_aligned, may_overlap, read_only, refuse_outside, region_of_ndarray

__all__ = ["Region", "copy", "empty_aligned", "fill", "gather", "may_overlap", "region_of_ndarray", "scatter"]

#: Elements up to which NumPy does a copy alone while no kernel is loaded: loading them takes far longer.
SMALL_ELEMENTS = 1 << 13
#: The same once kernels are loaded: below, NumPy's few calls cost no more than tables do.
TINY_ELEMENTS = 1 << 8
#: Conversions that are remembered with all that carrying them out takes.
_MOST_REMEMBERED = 64


class _Conversion:
    """A plan, its execution once there is one, and the maps that they were made for."""

    __slots__ = ("execution", "maps", "plan")

    def __init__(self, source: Region, destination: Region) -> None:
        self.maps = source.map, destination.map
        self.plan = plan_copy(source.map, destination.map, source.storage, destination.storage)
        self.execution: Execution | None = None

    def ready(self, source: Region, destination: Region) -> Execution:
        """The execution, made when first wanted: that is when Numba is loaded."""
        if self.execution is None:
            hows = (How(region.bits, region.low_first, region.signed) for region in (source, destination))
            self.execution = Execution(self.plan, *hows)
        return self.execution


#: By the identity of both maps, which takes no time to hash, and the widths. A conversion keeps its maps alive.
_remembered: dict[tuple[object, ...], _Conversion] = {}


def _conversion(source: Region, destination: Region) -> _Conversion:
    key = (id(source.map), id(destination.map), source[2:], destination[2:])
    found = _remembered.get(key)
    if found is None:
        found = _Conversion(source, destination)
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    return found


def copy(source: Region, destination: Region) -> None:
    """Copy every element of `source` to the same index of `destination`, bit for bit.

    The regions must not overlap (`may_overlap`), unless they are the same one.

    Raises
    ------
    BufferSizeError
        Elements of a region lie outside its buffer. Nothing was written.
    ValueError
        The shapes or widths of the regions do not fit each other, or the destination is read-only.
    """
    conversion = _conversion(source, destination)
    plan = conversion.plan
    if not destination.buffer.flags.writeable:
        raise ValueError("assignment destination is read-only")
    _check(source, plan.source_span, "source")
    _check(destination, plan.target_span, "destination")
    if _is_small(plan) or isinstance(plan.steps[0], Computed):
        copy_by_offsets(source, destination)
    else:
        conversion.ready(source, destination).run(read_only(source.buffer), destination.buffer)


def _is_small(plan: Plan) -> bool:
    return plan.elements <= (TINY_ELEMENTS if kernels.is_loaded() else SMALL_ELEMENTS)


def _check(region: Region, span: tuple[int, int] | None, name: str) -> None:
    if span is None:
        refuse_offsets_outside(region, name)
    elif span[0] < 0 or span[1] > region.buffer.size:
        refuse_outside(region, span, name)


def fill(destination: Region, pattern: int) -> None:
    """Set every element of a region to one bit pattern.

    Raises
    ------
    BufferSizeError
        Elements lie outside the buffer. Nothing was written.
    OverflowError
        The pattern is negative or has more bits than an element.
    """
    if pattern < 0 or pattern >> destination.bits:
        raise OverflowError(f"pattern {pattern:#x} does not fit {destination.bits} bits")
    if destination.bits < 8 and not destination.low_first:
        pattern <<= 8 - destination.bits
    value = np.frombuffer(pattern.to_bytes(-(-destination.bits // 8), "little"), np.uint8)
    shape = destination.map.shape
    still = AddressMap(shape, 0, ((),) * len(shape), (), 1 if destination.map.size else 0)
    copy(Region(value, still, destination.bits, destination.low_first), destination)
