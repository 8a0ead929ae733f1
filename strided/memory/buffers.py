"""The values that a report on memory is made of. They hold no reader: each reader fills them.

A *buffer* is a slot: bytes at one offset of one allocation, which one value after another may use. Its name, its shape
and its sizes are those of the largest value that it holds at the peak; where that is not known, or there is none, of
the largest of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from strided.escape import visible
from strided.layout import AnyShape, Shape, TupleShape
from strided.layout.tuples import unbuffered
from strided.wording import size_text, times_text


class LiveRange(NamedTuple):
    """The first and the last place of `MemoryReport.schedule` at which a buffer is in use."""

    start: int
    stop: int


def usage_of(uses: Iterable[tuple[LiveRange, int]], places: int) -> list[int]:
    """Bytes in use at each place of a schedule, of the ranges and sizes of all that is used.

    >>> usage_of([(LiveRange(0, 1), 8), (LiveRange(1, 3), 4)], 4)
    [8, 12, 4, 4]
    """
    changes = [0] * (places + 1)
    for (start, stop), size in uses:
        changes[start] += size
        changes[stop + 1] -= size
    return list(accumulate(changes[:-1]))


def peak_of(usage: Sequence[int]) -> tuple[int, int | None]:
    """The most that is in use, and the first place at which it is; of no places 0 and None.

    >>> peak_of([8, 12, 4, 12]), peak_of([])
    ((12, 1), (0, None))
    """
    peak = max(usage, default=0)
    return peak, usage.index(peak) if usage else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who made a buffer; what is not known is empty or 0.

    Attributes
    ----------
    op_name : str
        JAX's name for the operation: ``"jit(f)/dot_general"``.
    file : str
    line : int
    argument : str
        The argument of the program that it holds.

    >>> print(Source(op_name="jit(f)/mul", file="/home/me/model.py", line=7))
    jit(f)/mul at model.py:7
    """

    op_name: str = ""
    file: str = ""
    line: int = 0
    argument: str = ""

    def __bool__(self) -> bool:
        return bool(self.op_name or self.file or self.argument)

    def __str__(self) -> str:
        name = f"argument {self.argument}" if self.argument else self.op_name
        place = f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else ""
        return visible(" at ".join(part for part in (name, place) if part))

    def to_dict(self) -> dict[str, Any]:
        """The known attributes."""
        found = {"op_name": self.op_name, "file": self.file, "line": self.line, "argument": self.argument}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """A change to the program that takes less memory.

    Attributes
    ----------
    kind : str
        "transpose", "merge", "split", "pad-to", "dtype", "layout" or "vectorize".
    before, after : Shape
        With their layouts.
    saved_bytes : int
        Fewer in use where most are; a verified cure has the difference of the compiler's totals.
    jax : str
        What to write, in one line.
    certainty : str
        "computed" by the compiler's own rule; "verified" by a compilation; "estimate" for what lies inside a program,
        where the compiler chooses layouts by use.
    compiled_bytes : tuple of int, or None
        The compiler's totals of the program before and after the change, if it was verified.
    """

    kind: str
    before: AnyShape
    after: AnyShape
    saved_bytes: int
    jax: str
    certainty: str
    compiled_bytes: tuple[int, int] | None = None

    def __str__(self) -> str:
        found = f"{self.kind}: {self.before} -> {self.after} saves {size_text(self.saved_bytes)} ({self.certainty})"
        if self.compiled_bytes is not None:
            found += "; compiled: {:,} -> {:,} bytes".format(*self.compiled_bytes)
        return f"{found}: {visible(self.jax)}"

    def to_dict(self) -> dict[str, Any]:
        """The attributes, shapes as text."""
        return {
            "kind": self.kind,
            "before": str(self.before),
            "after": str(self.after),
            "saved_bytes": self.saved_bytes,
            "jax": self.jax,
            "certainty": self.certainty,
            "compiled_bytes": None if self.compiled_bytes is None else list(self.compiled_bytes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One buffer of a program.

    Attributes
    ----------
    name : str
        Of the value that it holds, or of its place in a text that names no values.
    kind : str
        "argument", "result", "constant" or "temporary"; empty if the source does not tell.
    shape : Shape, TupleShape or None
        With the layout; None if nothing is said of it.
    shapes : tuple of shapes
        All that explain its size: several where the source prints no layouts. The first is `shape`.
    bytes, unpadded_bytes : int
        With and without padding.
    is_rounded : bool
        Whether `bytes` comes from a rounded figure that no layout gives back.
    is_explained : bool
        Whether a shape or a figure tells padding from data; without them all bytes pass for data.
    live : LiveRange or None
    is_at_peak : bool
        Whether it is held at the peak, as far as is known.
    is_donated : bool
        Whether a result takes the memory of this argument: then a cure is one for both.
    source : Source
    cures : tuple of Cure
        Those that save most come first.
    """

    name: str
    bytes: int
    unpadded_bytes: int
    kind: str = ""
    shape: AnyShape | None = None
    shapes: tuple[AnyShape, ...] = ()
    is_rounded: bool = False
    is_explained: bool = True
    live: LiveRange | None = None
    is_at_peak: bool = True
    is_donated: bool = False
    source: Source = Source()
    cures: tuple[Cure, ...] = ()

    @property
    def expansion(self) -> float:
        """Bytes divided by bytes without padding."""
        return self.bytes / self.unpadded_bytes if self.unpadded_bytes else 1.0

    @property
    def padding_bytes(self) -> int:
        """Bytes of padding."""
        return self.bytes - self.unpadded_bytes

    @property
    def tiled_shape(self) -> Shape | None:
        """`shape`, if it is that of one array of fixed sizes in tiles."""
        if not isinstance(self.shape, Shape) or self.shape.is_dynamic:
            return None
        return self.shape if has_tiles(self.shape) else None

    @property
    def wasted_bytes(self) -> int:
        """Bytes of padding at the program's peak."""
        return self.padding_bytes if self.is_at_peak else 0

    def __str__(self) -> str:
        about = "about " if self.is_rounded else ""
        more = f"  {self.source}" if self.source else ""
        shape = "?" if self.shape is None else self.shape
        return visible(f"{self.name}: {shape}, {about}{self.bytes:,} bytes, {times_text(self.expansion)} x{more}")

    def to_dict(self) -> dict[str, Any]:
        """The attributes, shapes as text."""
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": None if self.shape is None else str(self.shape),
            "shapes": [str(shape) for shape in self.shapes],
            "bytes": self.bytes,
            "unpadded_bytes": self.unpadded_bytes,
            "expansion": round(self.expansion, 6),
            "wasted_bytes": self.wasted_bytes,
            "is_rounded": self.is_rounded,
            "is_explained": self.is_explained,
            "live": None if self.live is None else list(self.live),
            "is_at_peak": self.is_at_peak,
            "is_donated": self.is_donated,
            "source": self.source.to_dict(),
            "cures": [cure.to_dict() for cure in self.cures],
        }


def unpadded_bytes_of(shape: Shape | TupleShape, size: int | None = None) -> int:
    """Bytes of a shape's values without padding; of a tuple, those of its table, which has 4 for each pointer.

    XLA for CPU and GPU, whose layouts have no tiles, takes 8: a table of just that `size` has no padding.

    >>> from strided import parse
    >>> unpadded_bytes_of(parse("bf16[5,131]{1,0:T(8,128)(2,1)}")), unpadded_bytes_of(parse("(f32[1000], s32[])"))
    (1310, 8)
    """
    if not isinstance(shape, TupleShape):
        return shape.unpadded_byte_size
    is_wide = size == 8 * len(shape) and not any(has_tiles(unbuffered(one)) for _, one in shape.leaves())
    return (8 if is_wide else 4) * len(shape)


def has_tiles(shape: Shape) -> bool:
    """Whether a shape has a layout with tiles, as TPUs have them."""
    return shape.layout is not None and bool(shape.layout.tiles)
