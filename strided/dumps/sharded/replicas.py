"""Compare the replicas of a tile on several devices bit by bit."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.arrays.base import Array
from strided.arrays.layout_array import LayoutArray
from strided.dumps.sharding.sharding import Index
from strided.runtime.threads import get_num_threads, run
from strided.wording import counted

#: Elements of a replica to compare at a time.
_CHUNK_ELEMENTS = 1 << 21

#: The most lines of a printed report.
_SHOWN = 20


@dataclass(frozen=True)
class ReplicaDifference:
    """A device whose replica of a tile differs from the others.

    Attributes
    ----------
    device, reference : int
        The device, and one of the largest group of devices that agree; of groups of equal size, the one with the lowest
        device.
    window : tuple of slice
        The tile's slices of the global array.
    count : int
        The number of elements that differ.
    index : tuple of int
        The index of the first of them, in the global array.
    value, expected : object
        The values of `device` and `reference` there.
    """

    device: int
    reference: int
    window: Index
    count: int
    index: tuple[int, ...]
    value: Any
    expected: Any

    def __str__(self) -> str:
        first = ", ".join(map(str, self.index))
        value, expected = str(self.value), str(self.expected)
        if value == expected:  # two NaNs may print alike
            value, expected = _bits_shown(self.value), _bits_shown(self.expected)
        return (
            f"device {self.device} differs from device {self.reference} in {counted(self.count, 'element')} "
            f"of {window_text(self.window)}, first at [{first}]: {value} instead of {expected}"
        )


@dataclass(frozen=True)
class ReplicaReport:
    """The result of comparing replicas: the number of tiles `compared`, and the differences."""

    compared: int
    differences: tuple[ReplicaDifference, ...]

    @property
    def agree(self) -> bool:
        """Whether all replicas are equal bit by bit."""
        return not self.differences

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that differ from the others."""
        return tuple(sorted({one.device for one in self.differences}))

    def __str__(self) -> str:
        if not self.compared:
            return "no tile is held by several devices"
        if self.agree:
            return f"the copies of {'the only tile' if self.compared == 1 else f'all {self.compared} tiles'} agree"
        tiles = len({str(one.window) for one in self.differences})
        lines = [f"{tiles} of {self.compared} tiles differ between their copies"]
        lines += [f"  {one}" for one in self.differences[:_SHOWN]]
        if len(self.differences) > _SHOWN:
            lines.append(f"  ... and {len(self.differences) - _SHOWN} more")
        return "\n".join(lines)


def window_text(window: Index) -> str:
    """The text of a window of the global array, in brackets.

    >>> window_text((slice(0, 8), slice(128, 256)))
    '[0:8, 128:256]'
    """
    return f"[{', '.join(f'{s.start}:{s.stop}' for s in window)}]"


def compare_tiles(
    tiles: Sequence[tuple[Index, Sequence[int]]], copy_of: Callable[[int, tuple[int, ...]], LayoutArray | Array]
) -> ReplicaReport:
    """Compare the replicas of each tile bit by bit, so that identical NaNs are equal.

    A tile is a window of the global array and the devices that hold replicas. `copy_of` returns a device's replica, of
    the window's size; it is called for each use, so that only as many files are open as threads read.
    """
    sizes = [tuple(s.stop - s.start for s in window) for window, _ in tiles]
    digests: dict[tuple[int, int], bytes] = {}

    def read(tile: int, device: int) -> None:
        digests[tile, device] = _digest(copy_of(device, sizes[tile]))

    run(read, [(k, device) for k, (_, devices) in enumerate(tiles) for device in devices], threads=get_num_threads())
    differences: list[ReplicaDifference] = []
    for k, (window, devices) in enumerate(tiles):
        groups: dict[bytes, list[int]] = {}
        for device in devices:
            groups.setdefault(digests[k, device], []).append(device)
        agreeing = max(groups.values(), key=lambda group: (len(group), -min(group)))
        reference = min(agreeing)
        for device in sorted({*devices} - {*agreeing}):
            copy, expected = copy_of(device, sizes[k]), copy_of(reference, sizes[k])
            differences.append(_difference(device, copy, reference, expected, window))
    return ReplicaReport(len(tiles), tuple(differences))


def _chunks(copy: LayoutArray | Array) -> list[tuple[Any, ...]]:
    """Keys that cut a replica into pieces of bounded size along its first axes."""
    if not copy.ndim or copy.size <= _CHUNK_ELEMENTS:
        return [(...,)]
    rows = max(1, _CHUNK_ELEMENTS * copy.shape[0] // copy.size)
    if rows == 1 and copy.ndim > 1 and copy.size // copy.shape[0] > _CHUNK_ELEMENTS:
        return [(k, *key) for k in range(copy.shape[0]) for key in _chunks(copy[0])]
    return [(slice(k, k + rows),) for k in range(0, copy.shape[0], rows)]


def _bits(values: Any) -> Array:
    """Values as bytes, a row for each element."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def _bits_shown(value: Any) -> str:
    """A scalar with its bits, the highest first.

    >>> _bits_shown(np.uint16(0x7FC1).view(np.float16))
    'nan (0x7fc1)'
    """
    octets = np.asarray(value).tobytes()
    return f"{value} (0x{octets[::-1].hex() if sys.byteorder == 'little' else octets.hex()})"


def _digest(copy: LayoutArray | Array) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for key in _chunks(copy):
        digest.update(_bits(np.asarray(copy[key])).data)
    return digest.digest()


def _difference(
    device: int, copy: LayoutArray | Array, reference: int, expected: LayoutArray | Array, window: Index
) -> ReplicaDifference:
    count, first, before = 0, -1, 0
    for key in _chunks(copy):
        differs = np.any(_bits(np.asarray(copy[key])) != _bits(np.asarray(expected[key])), axis=-1)
        if first < 0 and differs.any():
            first = before + int(differs.argmax())
        count += int(np.count_nonzero(differs))
        before += differs.size
    local = tuple(int(k) for k in np.unravel_index(first, copy.shape)) if copy.ndim else ()
    index = tuple(k + s.start for k, s in zip(local, window, strict=True))
    return ReplicaDifference(device, reference, window, count, index, copy[local][()], expected[local][()])
