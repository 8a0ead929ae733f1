"""The values that a memory report consists of. Each reader (`from_assignment`, `from_module`, `from_text`) fills them.

A *buffer* is the bytes at one offset of one allocation, which several values may use one after another. Its name, shape
and sizes are those of the largest value in it at the peak; if that is unknown, or there is none, of the largest value.
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
    """The first and the last position in `MemoryReport.schedule` at which a buffer is in use."""

    start: int
    stop: int


def usage_of(uses: Iterable[tuple[LiveRange, int]], places: int) -> list[int]:
    """Bytes in use at each position of a schedule, from live ranges and sizes.

    >>> usage_of([(LiveRange(0, 1), 8), (LiveRange(1, 3), 4)], 4)
    [8, 12, 4, 4]
    """
    changes = [0] * (places + 1)
    for (start, stop), size in uses:
        changes[start] += size
        changes[stop + 1] -= size
    return list(accumulate(changes[:-1]))


def peak_of(usage: Sequence[int]) -> tuple[int, int | None]:
    """The peak usage, and the first position at which it occurs; (0, None) for an empty schedule.

    >>> peak_of([8, 12, 4, 12]), peak_of([])
    ((12, 1), (0, None))
    """
    peak = max(usage, default=0)
    return peak, usage.index(peak) if usage else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a buffer comes from; unknown attributes are empty or 0.

    Attributes
    ----------
    op_name : str
        JAX's name for the operation: ``"jit(f)/dot_general"``.
    file : str
    line : int
    argument : str
        The argument of the program that the buffer contains.

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
    """A change to the program that reduces its memory usage.

    Attributes
    ----------
    kind : str
        "transpose", "merge", "split", "pad-to", "dtype", "layout" or "vectorize".
    before, after : Shape
        Shapes with their layouts.
    saved_bytes : int
        Bytes saved at the peak; for a verified cure, the difference of the compiler's totals.
    jax : str
        The change as one line of JAX code.
    certainty : str
        "computed" by the rule for default layouts; "verified" by a compilation; "estimate" for values inside a
        program, whose layouts the compiler chooses by use.
    compiled_bytes : tuple of int, or None
        The compiler's totals before and after the change, if it was verified.
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
        Name of the value in it, or its position in a text that does not name values.
    kind : str
        "argument", "result", "constant" or "temporary"; empty if unknown.
    shape : Shape, TupleShape or None
        Shape with layout; None if unknown.
    shapes : tuple of shapes
        All shapes that explain its size: there may be several if the source prints no layouts. The first is `shape`.
    bytes, unpadded_bytes : int
        Sizes with and without padding.
    is_rounded : bool
        Whether `bytes` comes from a rounded number, and no layout gives the exact one.
    is_explained : bool
        Whether a shape or a number distinguishes padding from data; if not, all bytes count as data.
    live : LiveRange or None
    is_at_peak : bool
        Whether it is in use at the peak, as far as is known.
    is_donated : bool
        Whether a result takes the memory of this argument; cures must then apply to both.
    source : Source
    cures : tuple of Cure
        Sorted by saved bytes, largest first.
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
        """`shape`, if it is that of a single tiled array without dynamic dimensions; otherwise None."""
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
    """Bytes of a shape's values without padding; for a tuple, of its table, with 4 bytes per pointer.

    On CPU and GPU, where layouts have no tiles, a pointer has 8 bytes; this is assumed if that gives exactly `size`.

    >>> from strided import parse
    >>> unpadded_bytes_of(parse("bf16[5,131]{1,0:T(8,128)(2,1)}")), unpadded_bytes_of(parse("(f32[1000], s32[])"))
    (1310, 8)
    """
    if not isinstance(shape, TupleShape):
        return shape.unpadded_byte_size
    is_wide = size == 8 * len(shape) and not any(has_tiles(unbuffered(one)) for _, one in shape.leaves())
    return (8 if is_wide else 4) * len(shape)


def has_tiles(shape: Shape) -> bool:
    """Whether a shape has a tiled layout, as on TPUs."""
    return shape.layout is not None and bool(shape.layout.tiles)
