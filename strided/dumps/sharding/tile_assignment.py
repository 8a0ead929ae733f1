"""XLA's tile assignment: the device in each cell of a grid.

A grid is either a list of device numbers in row-major order, or an *iota*: an arange, reshaped, transposed, and
reshaped to the grid. Like a layout, an iota is a sum of digits: the row-major order of the grid counts in a mixed
radix, and each digit steps the device number by its stride ::

    [4,2]<=[2,4]T(1,0)      digits (4, stride 1), (2, stride 4): cell (i, j) holds device i + 4 j

So transposing a grid permutes digits, looking up a device takes a division and a remainder per digit, and no list is
made, however many devices a text claims. Merging contiguous digits gives the canonical text.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.errors import LayoutError, UnsupportedError
from strided.runtime.lazy import lazy

#: The largest grid that is converted to a list of devices. Longer lists come only from texts that have them.
MAX_LISTED = 1 << 20
#: The same for the canonical form of an iota that is no iota: few characters ask for it, and a dump may have many.
MAX_UNEVEN = 1 << 16


class Digit(NamedTuple):
    """A digit of an iota: it has `size` values, and each step adds `stride` to the device number."""

    size: int
    stride: int


@dataclass(frozen=True)
class TileAssignment:
    """The device in each cell of a grid. Made by `iota` or `listed`; prints as XLA does, without ``devices=``.

    Attributes
    ----------
    dimensions : tuple of int
    digits : tuple of Digit, or None
        The iota's digits, major to minor and merged; None for a list.
    devices : tuple of int
        The list, in row-major order; empty for an iota.

    >>> print(TileAssignment.iota((4, 2), (2, 2, 2), (1, 2, 0)))
    [4,2]<=[2,4]T(1,0)
    """

    dimensions: tuple[int, ...]
    digits: tuple[Digit, ...] | None
    devices: tuple[int, ...] = ()

    @classmethod
    def iota(
        cls, dimensions: Sequence[int], reshape: Sequence[int] = (), transpose: Sequence[int] = ()
    ) -> TileAssignment:
        """The grid of an arange, reshaped to `reshape`, transposed by `transpose` and reshaped to `dimensions`.

        LayoutError for sizes below 1, numbers of devices that differ, or a `transpose` that is no permutation.
        """
        count = _count(dimensions)
        sizes = tuple(reshape) or (count,)
        order = tuple(transpose) or tuple(range(len(sizes)))
        if sorted(order) != list(range(len(sizes))):
            raise LayoutError(f"T({_shown(order)}) is no permutation of the dimensions of [{_shown(sizes)}]")
        if _count(sizes) != count:
            raise LayoutError(f"[{_shown(dimensions)}] has {count} cells, <=[{_shown(sizes)}] {_count(sizes)} devices")
        strides = [1] * len(sizes)
        for k in range(len(sizes) - 1, 0, -1):
            strides[k - 1] = strides[k] * sizes[k]
        return cls(tuple(dimensions), _merged(Digit(sizes[k], strides[k]) for k in order))

    @classmethod
    def listed(cls, dimensions: Sequence[int], devices: Sequence[int]) -> TileAssignment:
        """The grid that holds `devices` in row-major order.

        LayoutError for sizes below 1, too many or too few devices, negative or repeated ones.
        """
        count = _count(dimensions)
        if count != len(devices):
            raise LayoutError(f"[{_shown(dimensions)}] has {count} cells, but {len(devices)} devices are listed")
        if min(devices) < 0:
            raise LayoutError(f"device {min(devices)} is negative")
        if len(set(devices)) < count:
            raise LayoutError(f"device {Counter(devices).most_common(1)[0][0]} is listed twice")
        return cls(tuple(dimensions), None, tuple(devices))

    @property
    def size(self) -> int:
        """The number of cells, which is that of devices."""
        return math.prod(self.dimensions)

    @property
    def last_device(self) -> int:
        """The largest device number."""
        return self.size - 1 if self.digits is not None else max(self.devices)

    def cell_of(self, device: int) -> tuple[int, ...] | None:
        """The cell of `device`; None if it is in none.

        >>> TileAssignment.iota((4, 2), (2, 4), (1, 0)).cell_of(6)
        (2, 1)
        """
        place = self._place_of(device)
        if place is None:
            return None
        cell = []
        for size in reversed(self.dimensions):
            place, coordinate = divmod(place, size)
            cell.append(coordinate)
        return tuple(reversed(cell))

    def _place_of(self, device: int) -> int | None:
        if self.digits is None:
            return self._places.get(device)
        if not 0 <= device < self.size:
            return None
        place = 0
        for size, stride in self.digits:
            place = place * size + device // stride % size
        return place

    def device_in(self, cell: Sequence[int]) -> int:
        """The device in a cell; omitted trailing coordinates are 0.

        >>> TileAssignment.iota((4, 2), (2, 4), (1, 0)).device_in((2, 1))
        6
        """
        place = 0
        for size, coordinate in itertools.zip_longest(self.dimensions, cell, fillvalue=0):
            place = place * size + coordinate
        if self.digits is None:
            return self.devices[place]
        device = 0
        for size, stride in reversed(self.digits):
            place, digit = divmod(place, size)
            device += digit * stride
        return device

    @lazy
    def _places(self) -> dict[int, int]:
        return {device: place for place, device in enumerate(self.devices)}

    def array(self, longest: int = MAX_LISTED) -> npt.NDArray[np.int64]:
        """The device numbers as an array of the grid's dimensions.

        UnsupportedError for an iota of more than `longest` devices.
        """
        if self.digits is None:
            return np.array(self.devices, np.int64).reshape(self.dimensions)
        if self.size > longest:
            raise UnsupportedError(f"a list of {self.size} devices is longer than {longest}")
        numbers = np.zeros(1, np.int64)
        for size, stride in self.digits:
            numbers = np.add.outer(numbers, np.arange(size, dtype=np.int64) * stride).reshape(-1)
        return numbers.reshape(self.dimensions)

    def reshaped(self, dimensions: Sequence[int]) -> TileAssignment:
        """The same devices in the same row-major order."""
        return TileAssignment(tuple(dimensions), self.digits, self.devices)

    def transposed(self, order: Sequence[int]) -> TileAssignment:
        """The grid with its dimensions in another order; a list if that is no iota."""
        dimensions = tuple(self.dimensions[k] for k in order)
        moved = [k for k in order if self.dimensions[k] > 1]
        if moved == sorted(moved):
            return self.reshaped(dimensions)
        split = None if self.digits is None else split_digits(self.digits, self.dimensions)
        if split is not None:
            return TileAssignment(dimensions, _merged(digit for k in moved for digit in split[k]))
        return TileAssignment(dimensions, None, tuple(self.array(MAX_UNEVEN).transpose(order).reshape(-1).tolist()))

    def sorted_last(self) -> TileAssignment:
        """The grid with devices ascending along its last dimension, as XLA sorts replicas."""
        *rest, last = self.dimensions
        split = None if self.digits is None else split_digits(self.digits, (math.prod(rest), last))
        if split is not None:
            major, minor = split
            minor = sorted(minor, key=lambda digit: digit.stride, reverse=True)
            return TileAssignment(self.dimensions, _merged((*major, *minor)))
        return TileAssignment(
            self.dimensions, None, tuple(np.sort(self.array(MAX_UNEVEN), axis=-1).reshape(-1).tolist())
        )

    @property
    def iota_form(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The iota's reshape and transpose lists; not for a list."""
        digits = self.digits or (Digit(1, 1),)
        by_stride = sorted(digits, key=lambda digit: digit.stride, reverse=True)
        place = {digit: k for k, digit in enumerate(by_stride)}
        return tuple(digit.size for digit in by_stride), tuple(place[digit] for digit in digits)

    def __str__(self) -> str:
        return f"[{_join(self.dimensions)}]{'' if self.digits is None else '<='}{self.device_text()}"

    def device_text(self) -> str:
        """The text of only the devices: ``[2,4]T(1,0)``, ``[8]`` or ``3,2,1,0``."""
        if self.digits is None:
            return _join(self.devices)
        return iota_text(*self.iota_form)


def iota_text(reshape: Sequence[int], transpose: Sequence[int]) -> str:
    """The devices of an iota as XLA prints them.

    >>> iota_text((2, 4), (1, 0)), iota_text((8,), (0,))
    ('[2,4]T(1,0)', '[8]')
    """
    return f"[{_join(reshape)}]" + (f"T({_join(transpose)})" if len(reshape) > 1 else "")


def device_number(device: int) -> int:
    """The number, unchanged; LayoutError if it is negative."""
    if device < 0:
        raise LayoutError(f"a device number is at least 0, found {device}")
    return device


def split_digits(digits: Sequence[Digit], dimensions: Sequence[int]) -> list[list[Digit]] | None:
    """Split the digits by the dimensions of a grid; None if the sizes do not divide.

    >>> split_digits([Digit(8, 1)], (2, 4))
    [[Digit(size=2, stride=4)], [Digit(size=4, stride=1)]]
    """
    split: list[list[Digit]] = []
    waiting = list(reversed(digits))
    for dimension in dimensions:
        own = []
        while dimension > 1:
            size, stride = waiting.pop()
            if dimension % size == 0:
                own.append(Digit(size, stride))
                dimension //= size
            elif size % dimension == 0:
                rest = size // dimension
                own.append(Digit(dimension, stride * rest))
                waiting.append(Digit(rest, stride))
                dimension = 1
            else:
                return None
        split.append(own)
    return split


def _merged(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    kept: list[Digit] = []
    for digit in digits:
        if digit.size == 1:
            continue
        if kept and kept[-1].stride == digit.size * digit.stride:
            digit = Digit(kept.pop().size * digit.size, digit.stride)
        kept.append(digit)
    return tuple(kept)


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        if size < 1:
            raise LayoutError(f"[{_shown(sizes)}] needs sizes of at least 1, found {size}")
        count *= size
        if count >= 1 << 63:
            raise LayoutError(f"[{_shown(sizes)}] has more than 2**63 cells")
    return count


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _shown(numbers: Sequence[int]) -> str:
    """A list for an error message, cut if it is long."""
    return _join(numbers) if len(numbers) <= 16 else f"{_join(numbers[:16])},..."
