"""Regions: a flat buffer, and the map of a view on it.

That is all that conversions know: a region of a file in some TPU layout and one of an ndarray that was sliced backwards
look alike.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.planning.boxes import LINE_BYTES
from strided.planning.plan import Storage, span_of
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.threads import get_num_threads, run

#: Part of a view: (start, stop) along each axis.
Chunk: TypeAlias = tuple[tuple[int, int], ...]
#: A tile of an array in equal tiles: its coordinates among them.
Cell: TypeAlias = tuple[int, ...]

#: The dtype itself: NumPy would make it of the type each time.
_BYTE = np.dtype(np.uint8)
_byte_of = ctypes.c_char.from_buffer
#: MADV_POPULATE_WRITE, since Linux 5.14; older systems refuse it, which does no harm.
_POPULATE_WRITE = 23


class Region(NamedTuple):
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
        return _storage(self.bits, self.unit_bits, self.low_first)

    @property
    def elements(self) -> int:
        """Elements for which the buffer has room."""
        return self.buffer.size * 8 // self.bits


#: Small copies would notice how long it takes to make one.
_storage = lru_cache(maxsize=256)(Storage)


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


def region_of_ndarray(x: npt.NDArray[Any]) -> Region:
    """A region of an ndarray with any strides.

    >>> region_of_ndarray(np.zeros((4, 6), np.float32)[::2, ::-1]).map.strides
    (12, -1)
    """
    if type(x) is not np.ndarray:
        x = x.view(np.ndarray)
    bits = 8 * x.itemsize
    if x.flags.c_contiguous:
        # A third of the time that Region takes, which small copies notice.
        return tuple.__new__(Region, (x.ravel().view(_BYTE), _row_major(x.shape), bits, True, False, 0))
    low, high = np.lib.array_utils.byte_bounds(x)
    # Fields of records may lie at steps that are no multiple of their size.
    unit = math.gcd(x.itemsize, *x.strides)
    strides = [s // unit for s in x.strides]
    map_ = AddressMap.from_strides(x.shape, strides, (address_of(x) - low) // unit)
    flat = np.asarray(_Memory(x, low, high - low))
    return Region(flat, map_, bits, True, False, 0 if unit == x.itemsize else 8 * unit)


def dense_region(shape: tuple[int, ...], itemsize: int) -> Region:
    """A row-major region in new memory, with elements of `itemsize` bytes; its contents are undefined."""
    return Region(empty_aligned(math.prod(shape) * itemsize), _row_major(shape), 8 * itemsize)


@lru_cache(maxsize=256)
def _row_major(shape: tuple[int, ...]) -> AddressMap:
    return AddressMap.from_strides(shape, [math.prod(shape[k + 1 :]) for k in range(len(shape))])


def empty_aligned(nbytes: int) -> Bytes:
    """Flat memory that begins on a cache line; its contents are undefined.

    It comes from NumPy, which asks the system for huge pages for large arrays. The pages of a large one exist when this
    returns, if the system can do that: it takes a third of the time of page faults, which streaming stores wait for.

    >>> empty_aligned(100).ctypes.data % 64
    0
    """
    raw = np.empty(nbytes + LINE_BYTES, _BYTE)
    # A third of the time of asking NumPy, which matters to small arrays.
    start = -ctypes.addressof(_byte_of(raw.data)) % LINE_BYTES
    memory = raw[start : start + nbytes]
    if nbytes >= limits.current.populated_bytes:
        _populate(memory)
    return memory


def _populate(memory: Bytes) -> None:
    """Have the system put pages behind memory; if it cannot, they come with the first write."""
    madvise = _madvise()
    if madvise is None:
        return
    first = -(-address_of(memory) // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address_of(memory) + memory.size) // mmap.PAGESIZE * mmap.PAGESIZE
    pieces = (
        (at, min(limits.current.populated_piece_bytes, end - at), _POPULATE_WRITE)
        for at in range(first, end, limits.current.populated_piece_bytes)
    )
    run(madvise, pieces, threads=get_num_threads())


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The system's ``madvise(address, bytes, advice)``, on Linux. Python's own has it for file mappings alone."""
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    found: Callable[[int, int, int], int] = function
    return found


def address_of(x: npt.NDArray[Any]) -> int:
    """The address of an ndarray's first element."""
    address: int = x.__array_interface__["data"][0]
    return address


def may_overlap(first: Region, second: Region) -> bool:
    """Whether a byte may belong to both regions: False is certain, True means that their spans meet."""
    if not np.may_share_memory(first.buffer, second.buffer):
        return False
    if first.map.size == 0 or second.map.size == 0:
        return False
    a, b = (addresses_of(region) for region in (first, second))
    return a[0] < b[1] and b[0] < a[1]


def addresses_of(region: Region) -> tuple[int, int]:
    """The first address of a region, and the one past the last."""
    address = address_of(region.buffer)
    span = span_of(region.map, region.storage) or (0, region.buffer.size)
    return address + span[0], address + span[1]


def read_only(buffer: Bytes) -> Bytes:
    """The same bytes, read-only."""
    if not buffer.flags.writeable:
        return buffer
    buffer = buffer.view()
    buffer.flags.writeable = False
    return buffer


def chunk_lengths(shape: Sequence[int], breadths: Sequence[int] = ()) -> tuple[int, ...]:
    """Elements of a box of bounded size along each axis of a view.

    Boxes are long along the last axes, but first up to each of `breadths` along every one. Where an axis is cut, that
    is at multiples of eight, if boxes have as many: there whole bytes of packed elements end.

    >>> chunk_lengths((3, 10_000, 100)), chunk_lengths((3, 10_000, 100), (8,))
    ((1, 648, 100), (3, 216, 100))
    """
    lengths, budget = [1] * len(shape), limits.current.offset_chunk_elements
    for most in (*breadths, budget):
        for k in reversed(range(len(shape))):
            others = math.prod(lengths) // lengths[k]
            length = min(most, budget // others)
            lengths[k] = max(lengths[k], shape[k] if shape[k] <= length else length // 8 * 8)
    return tuple(lengths)


def chunks(shape: Sequence[int], lengths: Sequence[int] | None = None) -> Iterator[Chunk]:
    """Boxes of these lengths, by default `chunk_lengths`, that cover a view, in row-major order."""
    lengths = chunk_lengths(shape) if lengths is None else lengths
    for place in cells_of(shape, lengths):
        yield tuple((i * m, min(n, (i + 1) * m)) for i, m, n in zip(place, lengths, shape, strict=True))


def cells_of(sizes: Sequence[int], steps: Sequence[int]) -> Iterator[Cell]:
    """The tiles that hold elements, the last dimension's fastest: of an array of some sizes in tiles of others.

    >>> list(cells_of((3, 4), (2, 4))), list(cells_of((1 << 62, 0), (1, 1)))
    ([(0, 0), (1, 0)], [])
    """
    if not all(sizes):
        return
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    # itertools.product would list all numbers of a dimension first, and a file may claim any size.
    for number in range(math.prod(counts)):
        cell = []
        for count in reversed(counts):
            number, place = divmod(number, count)
            cell.append(place)
        yield tuple(reversed(cell))
