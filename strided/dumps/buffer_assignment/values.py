"""Allocations and the values in them.

Most values are arrays of their shape's size. `Value.kind` distinguishes:

===========  =====================================================================================================
array        size and shape agree
element      one element at the start of a larger slot (the TPU compiler gives a bare scalar a whole tile), or of a
             slot smaller than its tile
dynamic      the array's bytes after a prefix of metadata, as the layout's ``M(n)`` says
tuple        a table of pointers: 8 bytes each on CPU, 4 on TPU, in multiples of 32, 512 or 1024 bytes
token        nothing
opaque       known only to the device's libraries
mismatch     size and shape disagree, so the order of the elements is not known
unknown      the dump has no shape, or an invalid one
===========  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import SupportsIndex

from strided.errors import NotationError, UnsupportedError
from strided.escape import visible
from strided.layout import AnyShape, Layout, Shape, Tile, TupleShape
from strided.layout.parser import parse
from strided.layout.tuples import unbuffered
from strided.runtime.argument_checks import whole

#: The kinds that can be read as arrays.
READABLE = frozenset(["array", "element", "dynamic"])

#: The text's words for properties of allocations.
FLAGS = {
    "constant": "is_constant",
    "thread-local": "is_thread_local",
    "maybe-live-out": "maybe_live_out",
    "preallocated-temp": "is_preallocated_temp",
}

#: The tile of 32-bit arrays on TPU, which the text may leave out.
_USUAL_TILE = Tile((8, 128))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> AnyShape | None:
    try:
        shape = parse(text)
    except NotationError:
        return None
    return None if isinstance(shape, Layout) else shape


def label_of(name: str, index: tuple[int, ...] | None) -> str:
    """The dump's name of an instruction, or of an element of its tuple: ``fusion``, ``fusion{0}``."""
    return name if index is None else f"{name}{{{','.join(map(str, index))}}}"


@dataclass(frozen=True)
class Value:
    """The result of an instruction, or of one element of its tuple, and where it lies in an allocation.

    Attributes
    ----------
    id : int
    name : str
        The name of the instruction.
    index : tuple of int, or None
        The ShapeIndex of the element, ``()`` for the tuple itself; None if the result is no tuple.
    offset, size : int
        In bytes; the offset is within the allocation.
    memory_space : int
    is_phi : bool
        Whether it is any of several values, such as the state of a loop.
    shape_text : str
        Its shape in the text; empty for protos.
    """

    id: int
    name: str
    index: tuple[int, ...] | None
    offset: int
    size: int
    memory_space: int = 0
    is_phi: bool = False
    shape_text: str = ""
    _shape: AnyShape | None = field(default=None, repr=False)

    @property
    def shape(self) -> AnyShape | None:
        """The shape with its layout; None if the dump has no valid one."""
        return _parsed(self.shape_text) if self.shape_text else self._shape

    @property
    def label(self) -> str:
        """The name as the dump shows it."""
        return label_of(self.name, self.index)

    @property
    def kind(self) -> str:
        """One of the kinds in the table of this module."""
        shape = self.shape
        if shape is None:
            return "unknown"
        if isinstance(shape, TupleShape):
            return "tuple"
        shape = unbuffered(shape)
        if shape.layout is None:
            return shape.element_type
        try:
            return self._array_kind(shape, shape.layout)
        except UnsupportedError:
            return "unknown"

    def _array_kind(self, shape: Shape, layout: Layout) -> str:
        needed = shape.byte_size
        if self.size == needed:
            return "array"
        if not shape.is_dynamic and shape.size == 1 and self.size * 8 >= shape.element_bits:
            return "element"
        prefix = layout.dynamic_shape_metadata_prefix_bytes
        return "dynamic" if prefix > 0 and self.size == needed + prefix else "mismatch"

    @property
    def problem(self) -> str | None:
        """Why it cannot be read as an array, or None if it can."""
        kind, shape = self.kind, self.shape
        if kind in READABLE:
            return None
        if kind == "tuple" and isinstance(shape, TupleShape):
            pointers = "1 pointer" if len(shape) == 1 else f"{len(shape)} pointers"
            return f"a tuple: a table of {pointers} in {self.size} bytes"
        if kind in ("token", "opaque"):
            return f"{'an' if kind == 'opaque' else 'a'} {kind} has no elements that could be read"
        if kind == "unknown" or not isinstance(shape, Shape):
            text = self.shape_text
            return f"no shape: {text[:80]!r}" if text else "the dump gives no shape with addresses"
        return f"its size is {self.size} bytes, its shape needs {shape.byte_size}{self._why(shape)}"

    def _why(self, shape: Shape) -> str:
        more = self.size - shape.byte_size
        if shape.is_dynamic and more > 0:
            return f": the other {more} bytes hold its dynamic sizes, and the layout does not say where they lie"
        layout = shape.layout
        if layout is not None and not layout.tiles and not shape.is_dynamic:
            if shape.with_layout(replace(layout, tiles=(_USUAL_TILE,))).byte_size == self.size:
                return f": it has its size in tiles of {_USUAL_TILE}, which its layout does not name"
        return ""

    @property
    def array_shape(self) -> Shape | None:
        """The shape by which its bytes are read; None if there is a `problem`."""
        kind, shape = self.kind, self.shape
        shape = unbuffered(shape)
        if kind not in READABLE or not isinstance(shape, Shape) or shape.layout is None:
            return None
        if kind == "element":  # a single element lies at the start, whatever the tiles
            return shape.with_layout(replace(shape.layout, tiles=(), tail_padding_alignment_in_elements=1))
        return shape

    def __str__(self) -> str:
        phi = " (phi)" if self.is_phi else ""
        shown = self.shape_text or str(self.shape or "?")
        place = f"(size={self.size},offset={self.offset})"
        return visible(f"value: <{self.id} {self.label}{phi} @{self.memory_space}> {place}: {shown}")


@dataclass(frozen=True)
class Allocation:
    """A piece of memory, and the values that it holds at some time. Prints as XLA does.

    Attributes
    ----------
    index, size : int
        Its number, and its size in bytes.
    values : tuple of Value
    memory_space : int
        XLA's color: 0 is the device's main memory.
    page : int or None
    parameter_number : int or None
        The entry parameter that it holds, of a tuple the element at `parameter_shape_index`.
    parameter_shape_index : tuple of int
    parameter_shape, output_shape : str
        Shapes without layouts, if the text has them.
    is_constant, is_thread_local, maybe_live_out, is_preallocated_temp : bool
    is_parameter_aliased_with_output : bool
        Only from protos.
    peak_values : tuple of int
        Ids of the values that are alive when it is fullest; only from protos.
    others : tuple of str
        Unknown words of the text.
    """

    index: int
    size: int
    values: tuple[Value, ...] = ()
    memory_space: int = 0
    page: int | None = None
    parameter_number: int | None = None
    parameter_shape_index: tuple[int, ...] = ()
    parameter_shape: str = ""
    output_shape: str = ""
    is_constant: bool = False
    is_thread_local: bool = False
    maybe_live_out: bool = False
    is_preallocated_temp: bool = False
    is_parameter_aliased_with_output: bool = False
    peak_values: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    def values_at(self, byte: SupportsIndex) -> tuple[Value, ...]:
        """The values that use a byte at some time."""
        at = whole(byte, "byte")
        return tuple(value for value in self.values if value.offset <= at < value.offset + value.size)

    def overlaps(self) -> Iterator[tuple[Value, Value]]:
        """The pairs of values that share bytes; only one is alive at a time."""
        open_values: list[Value] = []
        for value in sorted((value for value in self.values if value.size), key=lambda value: value.offset):
            open_values = [other for other in open_values if other.offset + other.size > value.offset]
            for other in open_values:
                yield other, value
            open_values.append(value)

    def describe(self) -> str:
        """The first line of XLA's text, without the colon."""
        words = [f"allocation {self.index}: size {self.size}"]
        if self.memory_space:
            words.append(f"color {self.memory_space}")
        if self.page is not None:
            words.append(f"page {self.page}")
        if self.parameter_number is not None:
            index = ",".join(map(str, self.parameter_shape_index))
            words.append(f"parameter {self.parameter_number}, shape |{self.parameter_shape}| at ShapeIndex {{{index}}}")
        if self.output_shape:
            words.append(f"output shape is |{self.output_shape}|")
        words += [word for word, name in FLAGS.items() if getattr(self, name)]
        return visible(", ".join([*words, *self.others]))

    def __str__(self) -> str:
        return "\n ".join([f"{self.describe()}:", *map(str, self.values)])
