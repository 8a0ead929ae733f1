"""Copies between mapped buffers: check them, choose a plan, carry it out.

A `Region` is a flat buffer and the map of a view on it. `copy` moves element patterns bit for bit from one region to
another of the same shape, whatever their layouts; `fill`, `gather` and `scatter` are its smaller sisters. Small copies
are done by NumPy alone, so that looking at a few elements never waits for a compiler. Larger ones go to the kernels,
in tasks that several threads share.

No offset is followed outside a buffer: the extreme offsets of a plan are compared with the sizes of the buffers before
anything is touched.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided import kernels
from strided.address import AddressMap
from strided.errors import BufferSizeError
from strided.plan import Computed, Detour, Nest, Part, Parts, Pattern, Storage, plan_copy, span_of
from strided.plan.detour import BLOCK_BYTES
from strided.threads import get_num_threads, run

__all__ = ["Region", "copy", "empty_aligned", "fill", "gather", "may_overlap", "region_of_ndarray", "scatter"]

#: Elements up to which NumPy does a copy alone while no kernel is loaded: loading them takes far longer.
SMALL_ELEMENTS = 1 << 13
#: The same once kernels are loaded: below, NumPy's few calls cost no more than tables do.
TINY_ELEMENTS = 1 << 8
#: Elements of which offsets are computed at once where a plan has none: 512 KB of offsets a side.
_CHUNK_ELEMENTS = 1 << 16
#: Places in one task of a gather.
_GATHER_ELEMENTS = 1 << 17
_LINE_BYTES = 64
#: Bytes from which on a kernel writes past the caches.
STREAM_BYTES = 1 << 22
_SCRATCH_BYTES = 1 << 18
#: Blocks of a detour repeat where they are shifted by a multiple of this.
_PHASE_BITS = 64

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A view on a flat buffer.

    Attributes
    ----------
    buffer : ndarray of uint8
        The whole memory, one axis, contiguous; possibly read-only.
    map : AddressMap
        Shape of the view, and where its elements lie.
    bits : int
        Bits of one element in the buffer: 1, 2, 4, 8, 16, 32, 64 or 128.
    low_first : bool
        Below eight bits: whether the first element of a byte lies in its low bits.
    signed : bool
        Below eight bits: whether a value is sign-extended as it is unpacked to a byte.
    unit_bits : int
        Bits that one step of an offset is; 0 stands for `bits`.
    """

    buffer: Bytes
    map: AddressMap
    bits: int
    low_first: bool = True
    signed: bool = False
    unit_bits: int = 0

    @property
    def storage(self) -> Storage:
        """How the elements lie, for planning."""
        return Storage(self.bits, self.unit_bits, self.low_first)


class _Memory:
    """Memory that another array owns, for NumPy to wrap as flat bytes."""

    def __init__(self, owner: npt.NDArray[Any], address: int, size: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not owner.flags.writeable),
        }


def region_of_ndarray(x: npt.NDArray[Any], *, signed: bool = False) -> Region:
    """A region of any ndarray, with whatever strides.

    >>> region_of_ndarray(np.zeros((4, 6), np.float32)[::2, ::-1]).map.strides
    (12, -1)
    """
    bits = 8 * x.itemsize
    if x.flags.c_contiguous:
        flat = x.reshape(-1).view(np.uint8)
        return Region(flat, _row_major(x.shape), bits, signed=signed)
    low, high = np.lib.array_utils.byte_bounds(x)
    if x.size == 0:
        low = high = x.__array_interface__["data"][0]
    unit = math.gcd(x.itemsize, *x.strides)
    address = x.__array_interface__["data"][0]
    flat = np.asarray(_Memory(x, low, high - low))
    strides = [s // unit for s in x.strides]
    map_ = AddressMap.from_strides(x.shape, strides, (address - low) // unit)
    return Region(flat, map_, bits, signed=signed, unit_bits=8 * unit)


def _row_major(shape: tuple[int, ...]) -> AddressMap:
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return AddressMap.from_strides(shape, strides)


def empty_aligned(nbytes: int) -> Bytes:
    """Flat memory that begins on a cache line, not yet written. Large ones ask for huge pages where there are any."""
    raw = np.empty(nbytes + _LINE_BYTES, np.uint8)
    start = -raw.__array_interface__["data"][0] % _LINE_BYTES
    return raw[start : start + nbytes]


def may_overlap(first: Region, second: Region) -> bool:
    """Whether a byte may belong to both regions: False is certain, True only means that their spans meet."""
    if first.map.size == 0 or second.map.size == 0:
        return False
    a, b = (_addresses(region) for region in (first, second))
    return a[0] < b[1] and b[0] < a[1]


def _addresses(region: Region) -> tuple[int, int]:
    address: int = region.buffer.__array_interface__["data"][0]
    span = span_of(region.map, region.storage) or (0, region.buffer.size)
    return address + span[0], address + span[1]


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
    plan = plan_copy(source.map, destination.map, source.storage, destination.storage)
    if not destination.buffer.flags.writeable:
        raise ValueError("assignment destination is read-only")
    _check(source, plan.source_span, "source")
    _check(destination, plan.target_span, "destination")
    if plan.elements <= (TINY_ELEMENTS if kernels.is_loaded() else SMALL_ELEMENTS):
        _copy_by_offsets(source, destination)
        return
    for step in plan.steps:
        if isinstance(step, Computed):
            _copy_by_offsets(source, destination)
        elif isinstance(step, Detour):
            _run_detour(step, source, destination)
        else:
            _run_step(step, source, destination)


def _check(region: Region, span: tuple[int, int] | None, name: str) -> None:
    """Refuse a region that is not inside its buffer. `span`: the bytes that its elements take, where known."""
    if region.map.size == 0:
        return
    size = region.buffer.size
    if span is None:
        reach = region.map.reach
        if reach * region.bits <= 8 * size:
            return
        chunks = (region.map.offsets(box) for box in _chunks(region.map.shape))
        ends = [(int(chunk.min()), int(chunk.max())) for chunk in chunks]
        span = region.storage.byte_span(min(low for low, _ in ends), max(high for _, high in ends))
    if span[0] < 0 or span[1] > size:
        raise BufferSizeError(
            f"the {name} takes bytes {span[0]} to {span[1]} of a buffer of {size} bytes", actual=size, needed=span[1]
        )


def _chunks(shape: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of bounded size that cover a view, in row-major order."""
    lengths, budget = [1] * len(shape), _CHUNK_ELEMENTS
    for k in reversed(range(len(shape))):
        lengths[k] = max(1, min(shape[k], budget))
        budget //= lengths[k]
    counts = [-(-n // length) for n, length in zip(shape, lengths, strict=True)]
    for place in np.ndindex(*counts):
        yield tuple((i * m, min(n, (i + 1) * m)) for i, m, n in zip(place, lengths, shape, strict=True))


# --- by NumPy alone ---------------------------------------------------------------------------------------------------


def _copy_by_offsets(source: Region, destination: Region) -> None:
    for box in _chunks(source.map.shape):
        values = _take(source, source.map.offsets(box), destination.bits)
        _put(destination, destination.map.offsets(box), values)


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def _elements(region: Region) -> npt.NDArray[Any]:
    """The buffer as an array of its elements, for whole bytes."""
    width = region.bits // 8
    whole = region.buffer.size // width * width
    return region.buffer[:whole].view(_WORDS[width])


def _by_unit(region: Region, offsets: Offsets) -> Offsets:
    """Places of all bytes of the elements at these offsets, along a last axis."""
    return offsets[..., None] * (region.storage.unit // 8) + np.arange(region.bits // 8)


def _take(region: Region, offsets: Offsets, to_bits: int) -> npt.NDArray[Any]:
    """The elements at offsets; those of fewer than eight bits as bytes, sign-extended where `to_bits` is a byte."""
    if region.bits < 8:
        each = 8 // region.bits
        byte, place = np.divmod(offsets, each)
        shift = (place if region.low_first else each - 1 - place) * region.bits
        values = (region.buffer[byte] >> shift.astype(np.uint8)) & np.uint8((1 << region.bits) - 1)
        if region.signed and to_bits == 8:
            above = np.uint8((0xFF << region.bits) & 0xFF)
            values = np.where(values >> np.uint8(region.bits - 1), values | above, values)
        return values
    if region.storage.unit != region.bits:
        taken = region.buffer[_by_unit(region, offsets)]
        return taken.view(_WORDS[region.bits // 8])[..., 0]
    return _elements(region)[offsets]


def _put(region: Region, offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """Write elements at offsets; bytes into fewer than eight bits keep only their low ones."""
    if region.bits < 8:
        each = 8 // region.bits
        byte, place = np.divmod(offsets, each)
        shift = ((place if region.low_first else each - 1 - place) * region.bits).astype(np.uint8)
        mask = np.uint8((1 << region.bits) - 1)
        # Elements of one byte must not undo each other: one place of all bytes at a time.
        for k in range(each):
            chosen = place == k
            at, by = byte[chosen], shift[chosen]
            kept = region.buffer[at] & ~(mask << by)
            region.buffer[at] = kept | ((values[chosen].astype(np.uint8) & mask) << by)
    elif region.storage.unit != region.bits:
        region.buffer[_by_unit(region, offsets)] = values[..., None].view(np.uint8)
    else:
        _elements(region)[offsets] = values


# --- by kernels -------------------------------------------------------------------------------------------------------


def _read_only(buffer: Bytes) -> Bytes:
    """The same bytes, read-only: kernels are compiled once for sources, not once more for writable ones."""
    if not buffer.flags.writeable:
        return buffer
    buffer = buffer.view()
    buffer.flags.writeable = False
    return buffer


class _How(NamedTuple):
    """How elements lie in memory, as far as kernels must be told."""

    bits: int
    low_first: bool
    signed: bool


def _run_step(step: Nest | Pattern, source: Region, destination: Region) -> None:
    """Carry out one kernel over a step, in tasks that threads share."""
    from_, to = _read_only(source.buffer), destination.buffer
    tables = step.tables()
    call = _caller(step, _how(source), _how(destination), streaming=_streams(step, step.bits))

    def task(*parts: Part) -> None:
        for arguments in step.calls(tables, parts):
            call(from_, to, arguments)

    run(task, step.tasks(), threads=get_num_threads() if step.divides else 1)


def _run_detour(step: Detour, source: Region, destination: Region) -> None:
    """Carry out two kernels, block by block, in tasks that threads share."""
    from_, to = _read_only(source.buffer), destination.buffer
    between = _How(step.bits[1], True, source.signed and destination.bits >= 8)
    hows = (_how(source), between), (between, _how(destination))
    streaming = _streams(step, step.bits[2])
    # Blocks repeat but for where they begin: what a block takes is made once.
    known: dict[tuple[object, ...], list[list[_Call]]] = {}

    def prepare(parts: Parts, phase: tuple[int, int]) -> list[list[_Call]]:
        prepared = []
        for k, steps in enumerate(step.halves(parts, phase)):
            calls = []
            for part in steps:
                whole = tuple(Part(0, axis.extent) for axis in part.axes)
                caller = _caller(part, *hows[k], streaming=streaming if k else 0)
                calls += [_Call(part.units, caller, arguments) for arguments in part.calls(part.tables(), whole)]
            prepared.append(calls)
        return prepared

    def task(*parts: Part) -> None:
        shift = sum(part.source for part in parts), sum(part.target for part in parts)
        phase = shift[0] % _PHASE_BITS, shift[1] % _PHASE_BITS
        key = (phase, *(part[:2] for part in parts))
        if key not in known:
            known[key] = prepare(parts, phase)
        block = _block()
        first, second = known[key]
        for call in first:
            call.run(from_, block, shift[0] - phase[0], 0)
        for call in second:
            call.run(_read_only(block), to, 0, shift[1] - phase[1])

    run(task, step.tasks(), threads=get_num_threads() if step.divides else 1)


class _Call(NamedTuple):
    """One call of a kernel, to be repeated elsewhere."""

    units: tuple[int, int]
    caller: Callable[..., None]
    arguments: tuple[Any, ...]

    def run(self, source: Bytes, target: Bytes, source_bits: int, target_bits: int) -> None:
        """Call it so many bits further on."""
        shift = source_bits // self.units[0], target_bits // self.units[1]
        first, *rest = self.arguments
        if isinstance(first, np.ndarray):
            self.caller(source, target, (first + np.array([shift]), *rest))
        else:
            self.caller(source, target, (first + shift[0], rest[0] + shift[1], *rest[1:]))


def _caller(step: Nest | Pattern, source: _How, target: _How, *, streaming: int) -> Callable[..., None]:
    """A kernel with all that it takes besides buffers and tables."""
    kernel = kernels.load(step.kernel)
    signed = int(source.signed and target.bits == 8)
    orders = int(not source.low_first), int(not target.low_first)
    before: tuple[Any, ...] = (streaming,)
    behind: tuple[int, ...] = ()
    if step.kernel == "nest_bits":
        before = (source.bits, target.bits, *orders, signed)
    elif step.kernel == "unpack":
        before = (step.bits, signed, orders[0], streaming)
    elif step.kernel == "pack":
        before = (step.bits, orders[1], streaming)
    elif step.kernel == "unzip_bits":
        behind = (step.bits, signed, orders[0])
    elif step.kernel == "zip_bits":
        behind = (step.bits, orders[1])
    elif isinstance(step, Nest):
        before = ()
    if isinstance(step, Nest) or step.kernel == "copy":
        return lambda from_, to, arguments: kernel(from_, to, *arguments, *before)
    return lambda from_, to, arguments: kernel(from_, to, *arguments, *before, _scratch(), *behind)


def _how(region: Region) -> _How:
    return _How(region.bits, region.low_first, region.signed)


def _streams(step: Nest | Pattern | Detour, bits: int) -> int:
    """Whether the target is so large that its lines are better written past the caches."""
    return int(step.elements * bits >= 8 * STREAM_BYTES)


_own = threading.local()


def _scratch() -> Bytes:
    """This thread's scratch memory for kernels."""
    scratch: Bytes | None = getattr(_own, "scratch", None)
    if scratch is None:
        scratch = _own.scratch = empty_aligned(_SCRATCH_BYTES)
    return scratch


def _block() -> Bytes:
    """This thread's memory for one block of a detour."""
    block: Bytes | None = getattr(_own, "block", None)
    if block is None:
        block = _own.block = empty_aligned(BLOCK_BYTES)
    return block


# --- single values, and places chosen one by one ----------------------------------------------------------------------


def fill(destination: Region, pattern: int) -> None:
    """Set every element of a region to one bit pattern.

    Raises
    ------
    BufferSizeError
        Elements lie outside the buffer. Nothing was written.
    OverflowError
        The pattern has more bits than an element.
    """
    width = -(-destination.bits // 8)
    if pattern >> destination.bits:
        raise OverflowError(f"pattern {pattern:#x} has more than {destination.bits} bits")
    if destination.bits < 8:
        pattern <<= 0 if destination.low_first else 8 - destination.bits
    value = np.frombuffer(pattern.to_bytes(width, "little"), np.uint8)
    shape = destination.map.shape
    still = AddressMap(shape, 0, ((),) * len(shape), (), 1 if destination.map.size else 0)
    copy(Region(value, still, destination.bits, destination.low_first), destination)


def gather(source: Region, offsets: Offsets, out: npt.NDArray[Any]) -> None:
    """Put the elements at element offsets into `out`: a contiguous array of the same shape, elements in whole bytes.

    Raises
    ------
    BufferSizeError
        An offset lies outside the buffer.
    """
    if out.shape != offsets.shape or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous array of shape {offsets.shape}")
    elements = source.buffer.size * 8 // source.bits
    if not _by_kernel(source, offsets):
        _check_offsets(offsets, elements)
        values = _take(source, offsets, 8)
        out.reshape(-1).view(np.uint8)[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return
    kernel = kernels.load("gather")
    width = source.bits // 8
    from_, flat = _read_only(source.buffer), np.ascontiguousarray(offsets, np.int64).reshape(-1)
    to = out.reshape(-1).view(np.uint8)

    def task(start: int, stop: int) -> None:
        part = to[start * width : stop * width]
        if kernel(from_, part, flat[start:stop], width):
            _check_offsets(flat[start:stop], elements)

    run(task, _ranges(flat.size), threads=get_num_threads())


def scatter(destination: Region, offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """Put `values` at element offsets; where an offset comes twice, one of its values stays.

    Raises
    ------
    BufferSizeError
        An offset lies outside the buffer. Nothing was written.
    """
    elements = destination.buffer.size * 8 // destination.bits
    _check_offsets(offsets, elements)
    values = np.ascontiguousarray(np.broadcast_to(values, offsets.shape))
    word = _WORDS[max(8, destination.bits) // 8]
    patterns: npt.NDArray[Any] = values.reshape(-1).view(word)
    if not _by_kernel(destination, offsets):
        _put(destination, offsets.reshape(-1), patterns)
        return
    # One thread: with offsets that come twice, NumPy's rule is that the last value stays.
    kernel = kernels.load("scatter")
    width = destination.bits // 8
    flat = np.ascontiguousarray(offsets, np.int64).reshape(-1)
    from_ = _read_only(patterns.view(np.uint8))
    for start, stop in _ranges(flat.size):
        kernel(from_[start * width : stop * width], destination.buffer, flat[start:stop], width)


def _by_kernel(region: Region, offsets: Offsets) -> bool:
    """Whether a gather or scatter is worth a kernel, and of a width that there is one for."""
    least = TINY_ELEMENTS if kernels.is_loaded() else 8 * SMALL_ELEMENTS
    return 8 <= region.bits <= 64 and region.storage.unit == region.bits and offsets.size > least


def _check_offsets(offsets: Offsets, elements: int) -> None:
    if offsets.size and (offsets.min() < 0 or offsets.max() >= elements):
        raise BufferSizeError(
            f"an offset lies outside the buffer: they run from {offsets.min()} to {offsets.max()}, "
            f"the buffer holds {elements} elements"
        )


def _ranges(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, _GATHER_ELEMENTS):
        yield start, min(size, start + _GATHER_ELEMENTS)
