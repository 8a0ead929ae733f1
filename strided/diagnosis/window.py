"""The cost of reading a part of an array: which bytes are read, and how many of them are wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.arrays.buffer_spec import BufferSpec, spec_of
from strided.arrays.keys import Flag, IndexRange, normalise
from strided.diagnosis.byte_ranges import byte_ranges
from strided.escape import visible
from strided.layout import AnyShape
from strided.runtime.aliases import Table
from strided.wording import counted, times_text

#: The most ranges that are printed.
_SHOWN = 12


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The bytes to read for the elements of a key.

    Attributes
    ----------
    shape, key : str
        The buffer's shape, and the key.
    ranges : ndarray of int64
        The ranges of `byte_ranges`.
    wanted_bytes : int
        Bytes of the selected elements, packed as in the buffer.
    """

    shape: str
    key: str
    ranges: Table
    wanted_bytes: int

    @property
    def read_bytes(self) -> int:
        """Bytes of all ranges."""
        return int((self.ranges[:, 1] - self.ranges[:, 0]).sum())

    @property
    def is_one_piece(self) -> bool:
        """Whether there is only one range."""
        return len(self.ranges) <= 1

    def __str__(self) -> str:
        number, read, wanted = len(self.ranges), self.read_bytes, self.wanted_bytes
        times = f", {times_text(read / wanted)} times as many" if wanted and read != wanted else ""
        pieces = f", {'in one piece' if self.is_one_piece else 'not in one piece'}" if number else ""
        shown = [(f"{start}:{stop}", stop - start) for start, stop in self.ranges[:_SHOWN].tolist()]
        width = max((len(text) for text, _ in shown), default=0)
        lines = [
            self.shape,
            f"  window  {visible(self.key)}",
            f"  bytes   {read:,} read for {wanted:,} wanted{times}",
            f"  ranges  {counted(number, 'range')}{pieces}",
            *(f"    {text:<{width}}  {counted(size, 'byte')}" for text, size in shown),
        ]
        return "\n".join(lines + [f"    and {number - _SHOWN:,} more"] * (number > _SHOWN))

    def to_dict(self) -> dict[str, Any]:
        """The window in types that JSON has."""
        return {
            "shape": self.shape,
            "key": self.key,
            "count": len(self.ranges),
            "read_bytes": self.read_bytes,
            "wanted_bytes": self.wanted_bytes,
            "is_one_piece": self.is_one_piece,
            "ranges": self.ranges.tolist(),
        }


def window(shape: str | AnyShape | BufferSpec, key: Any, gap: int = 0, text: str | None = None) -> Window:
    """The bytes to read for the elements of a key; `text` is the key to show. Arguments as for `byte_ranges`.

    >>> print(window("bf16[17,300]{1,0:T(8,128)(2,1)}", (9, slice(200, 204)), gap=2, text="9, 200:204"))
    bf16[17,300]{1,0:T(8,128)(2,1)}
      window  9, 200:204
      bytes   14 read for 8 wanted, 1.75 times as many
      ranges  1 range, in one piece
        8482:8496  14 bytes
    """
    spec = spec_of(shape)
    ranges = byte_ranges(spec, key, gap)
    items = normalise(key, spec.dimensions).items
    spans = [item.size for item in items if isinstance(item, IndexRange)]
    others = (item for item in items if item is not None and not isinstance(item, IndexRange))
    shape_of_others = np.broadcast_shapes(*((int(i.value),) if isinstance(i, Flag) else np.shape(i) for i in others))
    elements = math.prod([*spans, *shape_of_others])
    return Window(str(spec), str(key) if text is None else text, ranges, -(-elements * spec.element_bits // 8))
