"""Copies between regions: check them, choose a plan, execute it.

A `Region` is a flat buffer and the map of a view on it. `copy` copies elements bit for bit from one region to another
of the same shape, between any layouts; `fill` sets all elements to one value. NumPy does small copies; kernels do the
others, and NumPy while these are being compiled.

No byte outside a buffer is accessed: the spans of a plan are checked against the buffers first (`bounds`). If the
elements fit in a buffer, but the whole words that a plan accesses do not, a plan without the last words is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from strided import kernels
from strided.addressing.address_map import AddressMap
from strided.planning.plan import PerElementStep, Plan, Step, plan_copy, plan_fill, refuse_misfit
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.cache import BoundedCache, forgettable
from strided.transfer.bounds import holds, least_size, refuse_outside
from strided.transfer.by_numpy import CopyByNumPy, small_copy
from strided.transfer.executor import PATTERN_BYTES, ElementFormat, Execution
from strided.transfer.flat_memory import empty_aligned
from strided.transfer.gather_scatter import gather, gather_at, offsets_at, scatter
from strided.transfer.program import Copy
from strided.transfer.readahead import mapping_of, sparse_access
from strided.transfer.region import Region, dense_region, may_overlap, region_of_ndarray
from strided.wording import counted

__all__ = [
    "Region",
    "copied",
    "copy",
    "dense_region",
    "empty_aligned",
    "fill",
    "gather",
    "gather_at",
    "may_overlap",
    "offsets_at",
    "region_of_ndarray",
    "scatter",
]

#: Size of the caches of conversions and of executions.
_CACHE_SIZE = 128


class _Conversion(NamedTuple):
    """The function that does a conversion, and its maps, which are kept alive because their ids are the key.

    `run` is None for a plan without kernels. It needs buffers of at least `ends` bytes; for smaller ones another plan
    is made.
    """

    maps: tuple[AddressMap, AddressMap]
    run: Copy | None
    ends: tuple[int, int]


_BYTES = ElementFormat(low_first=True, signed=False)
#: Planned conversions, by the identity of both maps, which is quick to hash, and the formats of both sides.
_remembered = forgettable(BoundedCache[tuple[object, ...], _Conversion](_CACHE_SIZE))
#: The maps of small conversions that were done once, by the same keys. They are kept apart so that temporary views, as
#: rows in a loop, do not evict planned conversions.
_done_once = forgettable(BoundedCache[tuple[object, ...], tuple[AddressMap, AddressMap]](_CACHE_SIZE))
#: By the identity of steps, which many plans may share, and the formats of both sides.
_executions = forgettable(BoundedCache[tuple[object, ...], tuple[tuple[Step, ...], Execution]](_CACHE_SIZE))


def copy(source: Region, destination: Region) -> None:
    """Copy every element of `source` to the same index of `destination`, bit for bit.

    The regions must not overlap (`may_overlap`), unless they are the same one.

    Raises
    ------
    BufferSizeError
        Elements of a region lie outside its buffer. Nothing was written.
    ValueError
        The shapes or element widths of the regions do not match, or the destination is read-only.
    """
    if not destination.buffer.flags.writeable:
        raise ValueError("assignment destination is read-only")
    mapping = mapping_of(source.buffer)
    if mapping is None:
        _copy(source, destination)
    else:
        with sparse_access(mapping, source):
            _copy(source, destination)


def copied(buffer: Bytes) -> Bytes:
    """A copy of a buffer; of a large one with all threads, on pages that are populated first."""
    if buffer.size < limits.current.populated_bytes:
        return buffer.copy()
    found = empty_aligned(buffer.size)
    copy(region_of_ndarray(buffer), region_of_ndarray(found))
    return found


def _copy(source: Region, destination: Region) -> None:
    key = (id(source.map), id(destination.map), source[2:], destination[2:])
    known = _remembered.get(key)
    try:
        if known is not None:
            # The fast path for small conversions that were done before.
            from_, to, (first, second) = source.buffer, destination.buffer, known.ends
            if known.run is not None and from_.size >= first and to.size >= second:
                known.run(from_, to)
                return
        elif _is_small(source.map, is_first := _done_once.get(key) is None):
            refuse_misfit(source.map, destination.map, source.bits, destination.bits)
            from_, to, maps = source.buffer, destination.buffer, (source.map, destination.map)
            by_numpy = small_copy(source, destination)
            by_numpy(from_, to)
            if is_first:
                _done_once.keep(key, maps)
            elif source.map.size <= limits.current.tiny_elements:
                _remembered.keep(key, _Conversion(maps, by_numpy, (from_.size, to.size)))
            return
        _copy_by_plan(key, source, destination)
    except kernels.NotCompiled as missing:
        _copy_while_compiling(source, destination, missing.name, partial(_copy_by_plan, key, source, destination))


def _is_small(map_: AddressMap, is_first: bool) -> bool:
    """Whether a copy with NumPy takes less time than a plan, which may never be used again."""
    small = is_first or not kernels.is_loaded()
    return map_.size <= (limits.current.small_elements if small else limits.current.tiny_elements)


def _copy_by_plan(key: tuple[object, ...], source: Region, destination: Region) -> None:
    from_, to, known = source.buffer, destination.buffer, _remembered.get(key)
    if known is None or from_.size < known.ends[0] or to.size < known.ends[1]:
        known = _conversion(source, destination)
        _remembered.keep(key, known)
    if known.run is None:
        CopyByNumPy(source, destination).advance()
    else:
        known.run(from_, to)


def _copy_while_compiling(source: Region, destination: Region, missing: str, by_kernels: Callable[[], None]) -> None:
    """Copy with NumPy until the missing kernel is ready; then copy everything with kernels, which are much faster.

    A plan asks for the kernels of its later steps only when it gets there, so then another one may be missing.
    """
    by_numpy = CopyByNumPy(source, destination)
    while not by_numpy.advance(until=partial(kernels.is_ready, missing)):
        try:
            by_kernels()
            return
        except kernels.NotCompiled as another:
            missing = another.name


def _conversion(source: Region, destination: Region) -> _Conversion:
    plan = _fitting_plan(source, destination)
    run = None
    if not isinstance(plan.steps[0], PerElementStep):
        formats = (ElementFormat(region.low_first, region.signed) for region in (source, destination))
        run = _execution(plan.steps, *formats).at(plan.shift)
    return _Conversion((source.map, destination.map), run, (least_size(plan.source_span), least_size(plan.target_span)))


def _execution(steps: tuple[Step, ...], source: ElementFormat, target: ElementFormat) -> Execution:
    """The execution of steps between elements of these formats."""
    key = (id(steps), source, target)
    found = _executions.get(key)
    if found is None:
        found = _executions.keep(key, (steps, Execution(steps, source, target)))
    return found[1]


def _fitting_plan(source: Region, destination: Region) -> Plan:
    """A plan that accesses nothing outside the buffers: with whole words if they fit, else without the last ones."""
    question = source.map, destination.map, source.storage, destination.storage
    plan = plan_copy(*question)
    if holds(source, plan.source_span) and holds(destination, plan.target_span):
        return plan
    plan = plan_copy(*question, whole_words=False)
    refuse_outside(source, plan.source_span, "source")
    refuse_outside(destination, plan.target_span, "destination")
    return plan


def pattern_of(value: Any, bits: int) -> int:
    """The bit pattern for `fill` of a value (a NumPy scalar, or an array of one element) in an element of `bits` bits.

    >>> hex(pattern_of(np.int8(-2), 4)), hex(pattern_of(np.float32(1), 32))
    ('0xe', '0x3f800000')
    """
    return int.from_bytes(value.tobytes(), "little") & (1 << bits) - 1


def fill(destination: Region, pattern: int, *, spare: int = 0) -> None:
    """Set every element of a region to one bit pattern.

    The first `spare` elements of the buffer may be set, too, if that is faster: the caller writes them afterwards.

    Raises
    ------
    BufferSizeError
        Elements lie outside the buffer. Nothing was written.
    OverflowError
        The pattern is negative or has more bits than an element.
    ValueError
        The destination is read-only.
    """
    if pattern < 0 or pattern >> destination.bits:
        raise OverflowError(f"pattern {pattern:#x} does not fit {counted(destination.bits, 'bit')}")
    if not destination.buffer.flags.writeable:
        raise ValueError("assignment destination is read-only")
    stored = pattern << 8 - destination.bits if destination.bits < 8 and not destination.low_first else pattern
    value = np.frombuffer(stored.to_bytes(-(-destination.bits // 8), "little"), np.uint8)
    source = Region(value, _scalar_map(destination.map.shape), destination.bits, destination.low_first)
    plan = None
    if destination.map.size > limits.current.small_elements:
        plan = plan_fill(destination.map, destination.storage, spare)
    if plan is None:
        copy(source, destination)
        return
    refuse_outside(destination, plan.target_span, "destination")
    repeated = _repeated(pattern, destination.bits)
    by_plan = partial(_execution(plan.steps, _BYTES, _BYTES).at(plan.shift), repeated, destination.buffer)
    try:
        by_plan()
    except kernels.NotCompiled as missing:
        _copy_while_compiling(source, destination, missing.name, by_plan)


@lru_cache(maxsize=256)
def _scalar_map(shape: tuple[int, ...]) -> AddressMap:
    """The map of one element broadcast to a shape; cached, because conversions are found by the identity of maps."""
    return AddressMap(shape, 0, ((),) * len(shape), (), 0 if 0 in shape else 1)


def _repeated(pattern: int, bits: int) -> Bytes:
    """The pattern repeated to `PATTERN_BYTES` bytes."""
    while bits < 8:
        pattern, bits = pattern | pattern << bits, 2 * bits
    return np.tile(np.frombuffer(pattern.to_bytes(bits // 8, "little"), np.uint8), PATTERN_BYTES * 8 // bits)
