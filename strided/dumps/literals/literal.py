"""Read XLA's literals: arrays, tuples and tokens with their values.

Two encodings:

* ``LiteralProto``: a ShapeProto, and the values in the field of their type. Types up to 16 bits are one run of bytes,
  at least one an element; other floats and complex numbers are packed fixed-width numbers; bools are varints of one
  byte. All of these come out as views of the file. Integers of 32 and 64 bits are varints, decoded when asked for.
* The runtime's own form (``Literal::Serialize``), which unoptimized snapshots use: the length of a ShapeProto (int64,
  little endian), the ShapeProto, then for every leaf, depth first, the sizes of its dimensions (int32, only if one is
  dynamic) and its values, little endian. Types below eight bits, pred included, are packed from the low bits up.

Both hold elements in *physical* order, by the literal's own `minor_to_major`; tiles, padding and ``E(n)`` are ignored.
Dynamic dimensions are stored up to their bounds; the array has only the elements in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.dumps.protobuf import schema, wire
from strided.dumps.protobuf.file_bytes import FileBytes, View, loaded
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.protobuf.varints import decode_varints
from strided.dumps.protobuf.wire import BYTES, FIXED32, FIXED64, MAX_DEPTH, VARINT, Field
from strided.errors import DumpError, StridedError
from strided.layout import UNBOUNDED, AnyShape, Layout, Shape, TupleShape
from strided.layout.element_types import ELEMENT_TYPES, element_type
from strided.runtime.lazy import lazy

#: The fields of a LiteralProto besides its values.
SHAPE, TUPLE_LITERALS, DYNAMIC_SIZES = 1, 10, 34

#: Limits of an ndarray; dimensions of size 0 do not count.
_MAX_RANK, _MAX_BYTES = 64, 2**63 - 1


class _ValueField(NamedTuple):
    """The field of a LiteralProto for the values of one element type."""

    name: str
    number: int
    kind: int  # wire type of an unpacked number; BYTES for a bytes field
    dtype: np.dtype[Any]  # of one number


@cache
def value_fields() -> dict[str, _ValueField]:
    """The fields of a LiteralProto for values, by element type."""
    declared = schema.messages()["LiteralProto"]
    names = {element.name: f"{element.name}s" for element in ELEMENT_TYPES.values() if element.is_array}
    return {
        element: _ValueField(name, declared[name].number, *_NUMBERS[declared[name].type])
        for element, name in names.items()
    }


@cache
def _kinds() -> dict[int, int]:
    return {field.number: field.kind for field in value_fields().values()}


_NUMBERS: dict[str, tuple[int, np.dtype[Any]]] = {
    "bytes": (BYTES, np.dtype(np.uint8)),
    "bool": (VARINT, np.dtype(np.bool_)),
    "int32": (VARINT, np.dtype(np.int32)),
    "int64": (VARINT, np.dtype(np.int64)),
    "uint32": (VARINT, np.dtype(np.uint32)),
    "uint64": (VARINT, np.dtype(np.uint64)),
    "float": (FIXED32, np.dtype(np.float32)),
    "double": (FIXED64, np.dtype(np.float64)),
}


class _Content(NamedTuple):
    shape: AnyShape
    load: Callable[[], Any]
    elements: tuple[Literal, ...] = ()


class Literal:
    """A literal of a file. Shape and value are read on demand.

    >>> from strided.dumps.literals.writer import write_literal
    >>> literal = Literal.of_proto(write_literal(np.float32([[1, 2], [3, 4]])))
    >>> str(literal.shape), np.asarray(literal.value).tolist()
    ('f32[2,2]{1,0}', [[1.0, 2.0], [3.0, 4.0]])
    """

    def __init__(self, read: Callable[[], _Content]) -> None:
        self._read = read

    @classmethod
    def of_proto(cls, data: Any, at: int = 0) -> Literal:
        """The literal in a LiteralProto; `at` is its offset in the file, for errors."""
        view = _view_of(data)
        return cls(lambda: _read_proto(view, at, 0))

    @classmethod
    def of_serialized(cls, data: Any, at: int = 0) -> Literal:
        """The literal in the runtime's form; `at` is its offset in the file, for errors."""
        view = _view_of(data)
        return cls(lambda: _read_serialized(view, at))

    @lazy
    def _content(self) -> _Content:
        return self._read()

    @property
    def shape(self) -> AnyShape:
        """The shape with the values' layout; dynamic dimensions have their bounds. Errors as for `value`."""
        return self._content.shape

    @property
    def elements(self) -> tuple[Literal, ...]:
        """The literals of a tuple; empty for other literals."""
        return self._content.elements

    @lazy
    def value(self) -> Any:
        """The value: a LayoutArray, a tuple of values, or None for a token.

        Raises
        ------
        DumpError
            The bytes are no literal, or do not have as many values as the shape needs.
        """
        return self._content.load()

    def __repr__(self) -> str:
        return f"<Literal {self.shape}>"


def _view_of(data: Any) -> View:
    return data if isinstance(data, FileBytes) else wire.as_view(data)


def _tuple(elements: list[_Content]) -> _Content:
    literals = tuple(Literal(lambda content=content: content) for content in elements)  # type: ignore[misc]
    shape = TupleShape([content.shape for content in elements])
    return _Content(shape, lambda: tuple(literal.value for literal in literals), literals)


# ---- LiteralProto ----------------------------------------------------------------------------------------------------


class _Run:
    """The values of one field: a view of the file if they are contiguous, else a copy."""

    __slots__ = ("at", "payload")

    def __init__(self, field: Field) -> None:
        self.at = field.at
        self.payload: View | bytearray = field.value if field.kind == BYTES else bytearray()
        if field.kind != BYTES:
            self.add(field)

    def add(self, field: Field) -> None:
        if not isinstance(self.payload, bytearray):
            self.payload = bytearray(loaded(self.payload))
        self.payload += wire.varint(field.value) if field.kind == VARINT else loaded(field.value)


def _read_proto(view: View, at: int, depth: int) -> _Content:
    if depth > MAX_DEPTH:
        raise DumpError(f"LiteralProto: tuples nested more than {MAX_DEPTH} deep", position=at)
    shapes: list[View] = []
    inner: list[_Content] = []
    sizes: list[int] = []
    runs: dict[int, _Run] = {}
    kinds = _kinds()
    for field in wire.fields(view, "LiteralProto", at):
        number = field.number
        if number in kinds:
            _gather(runs, field, kinds[number])
        elif number == SHAPE:
            shapes.append(field.view("LiteralProto.shape"))
            shape_at = field.at
        elif number == TUPLE_LITERALS:
            inner.append(_read_proto(field.view("LiteralProto.tuple_literals"), field.at, depth + 1))
        elif number == DYNAMIC_SIZES:
            sizes += field.integers("LiteralProto.dynamic_sizes")
    if not shapes:
        raise DumpError("LiteralProto: no shape", position=at)
    shape = read_shape(loaded(wire.merged(shapes)), shape_at)
    if isinstance(shape, TupleShape):
        if len(inner) != len(shape):
            raise DumpError(f"LiteralProto: {len(inner)} literals in a tuple of {len(shape)}", position=at)
        return _tuple(inner)
    if not isinstance(shape, Shape):
        raise DumpError(f"LiteralProto: {shape} has no literals", position=at)
    if shape.layout is None:
        return _Content(shape, lambda: None)
    dense = _dense(shape, at)
    return _Content(dense, lambda: _in_use(_proto_array(dense, runs, at), sizes, at))


def _gather(runs: dict[int, _Run], field: Field, kind: int) -> None:
    """Add one occurrence of a value field; of a bytes field, the last one wins."""
    if field.kind not in (BYTES, kind):
        field.view("LiteralProto's values")  # raises
    if field.number not in runs or kind == BYTES:
        runs[field.number] = _Run(field)
    else:
        runs[field.number].add(field)


def _dense(shape: Shape, at: int) -> Shape:
    """The shape with only an order of dimensions as its layout, as a literal has."""
    if UNBOUNDED in shape.dimensions:
        raise DumpError(f"LiteralProto: {shape} has a dimension of unknown size", position=at)
    sizes = [size or 1 for size in shape.dimensions]
    if shape.rank > _MAX_RANK or math.prod(sizes) * shape.dtype.itemsize > _MAX_BYTES:
        raise DumpError(f"LiteralProto: {shape.text()[:80]} is more than an ndarray can be", position=at)
    assert shape.layout is not None
    return shape.with_layout(Layout(shape.layout.minor_to_major))


def _proto_array(shape: Shape, runs: dict[int, _Run], at: int) -> LayoutArray:
    element, field = element_type(shape.element_type), value_fields()[shape.element_type]
    run, wanted = runs.get(field.number), f"LiteralProto.{field.name}"
    payload, place = (memoryview(b""), at) if run is None else (loaded(run.payload), run.at)
    if field.kind == VARINT and not (element.name == "pred" and _are_bools(payload, shape.size)):
        wanted = f"{wanted} of {shape}"
        payload = wire.as_view(decode_varints(payload, field.dtype, wanted, place, count=shape.size))
    return _array(payload, shape, wanted, place)


def _are_bools(payload: memoryview, count: int) -> bool:
    """Whether the varints are bools of one byte each, as all writers make them."""
    return len(payload) == count and bool(np.frombuffer(payload, np.uint8).max(initial=0) <= 1)


def _array(payload: View, shape: Shape, wanted: str, at: int) -> LayoutArray:
    needed = -(-shape.size * shape.element_bits // 8)
    if len(payload) != needed:
        raise DumpError(f"{wanted}: {shape} needs {needed} bytes, found {len(payload)}", position=at)
    try:
        return LayoutArray(loaded(payload), shape)
    except StridedError as error:
        raise DumpError(f"{wanted}: {error}", position=at) from error


def _in_use(array: LayoutArray, sizes: list[int], at: int) -> LayoutArray:
    """The part of a dynamic array that is in use; all of it if sizes are missing, as in protos before 2026."""
    shape = array.xla_shape
    if not sizes or not shape.is_dynamic:
        return array
    bounds = zip(sizes, shape.dimensions, shape.dynamic, strict=False)
    if len(sizes) != shape.rank or any(dynamic and not 0 <= size <= bound for size, bound, dynamic in bounds):
        raise DumpError(f"dynamic sizes {sizes[:8]} in a literal of the shape {shape}", position=at)
    return front(array, sizes)


def front(array: LayoutArray, sizes: Sequence[int]) -> LayoutArray:
    """A view of a dynamic array's first elements."""
    keys = (slice(size if dynamic else None) for size, dynamic in zip(sizes, array.xla_shape.dynamic, strict=True))
    part: LayoutArray = array[tuple(keys)] if array.ndim else array
    return part


# ---- the runtime's form ----------------------------------------------------------------------------------------------


def _read_serialized(view: View, at: int) -> _Content:
    head = wire.take(view, 0, 8, "the length of a literal's shape", at)
    length = int.from_bytes(loaded(head), "little", signed=True)
    shape = read_shape(loaded(wire.take(view, 8, length, "the shape of a literal", at)), at + 8)
    content, end = _serialized(shape, view, 8 + length, at)
    if end != len(view):
        raise DumpError(f"a literal of {len(view)} bytes; its shape {shape} needs {end}", position=at)
    return content


def _serialized(shape: AnyShape, view: View, position: int, at: int) -> tuple[_Content, int]:
    """The literal whose values begin at `position`, and their end."""
    if isinstance(shape, TupleShape):
        elements = []
        for element in shape:
            content, position = _serialized(element, view, position, at)
            elements.append(content)
        return _tuple(elements), position
    if not isinstance(shape, Shape):
        raise DumpError(f"a literal: {shape} has no literals", position=at + position)
    if shape.layout is None:
        return _Content(shape, lambda: None), position
    packed, place = _packed(_dense(shape, at + position)), at + position
    sizes: list[int] = []
    if packed.is_dynamic:
        raw = wire.take(view, position, 4 * packed.rank, f"the dynamic sizes of {packed}", at)
        sizes, position = np.frombuffer(loaded(raw), "<i4").tolist(), position + 4 * packed.rank
    length = -(-packed.size * packed.element_bits // 8)
    payload = wire.take(view, position, length, f"the values of {packed}", at)
    content = _Content(packed, lambda: _in_use(_array(payload, packed, "a literal", place), sizes, place))
    return content, position + length


def _packed(shape: Shape) -> Shape:
    """The shape as the runtime serialises it, with elements of 1, 2 and 4 bits packed."""
    element, layout = element_type(shape.element_type), shape.layout
    assert layout is not None
    if element.bits not in (1, 2, 4):
        return shape
    return shape.with_layout(Layout(layout.minor_to_major, element_size_in_bits=element.bits))
