"""Write values as a LiteralProto, which `literal` reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.dumps.literals.literal import DYNAMIC_SIZES, SHAPE, TUPLE_LITERALS, front, value_fields
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.shapes import write_shape
from strided.dumps.protobuf.varints import encode_varints
from strided.dumps.protobuf.wire import MAX_DEPTH, VARINT, Buffer
from strided.errors import DumpError
from strided.layout import AnyShape, Layout, Shape, TupleShape
from strided.layout.element_types import ElementType, element_type
from strided.layout.layout import descending
from strided.runtime.aliases import Bytes


def write_literal(value: Any) -> bytes:
    """The LiteralProto of a LayoutArray, an array-like, None (a token), or a tuple or list of these.

    A LayoutArray keeps its dimension order, but not its tiles and padding; views and ndarrays are written row-major.
    UnsupportedError if XLA lacks the type; DumpError for tuples nested more than 100 deep.

    >>> write_literal(np.uint8([1, 2])).hex()
    '0a1010061a01022a060a01008001013201001a020102'
    """
    return b"".join(literal_pieces(value))


def literal_pieces(value: Any) -> list[Buffer]:
    """The pieces that `write_literal` joins. Values that are in order are not copied."""
    return _pieces(value, 0)[1]


def _pieces(value: Any, depth: int) -> tuple[AnyShape, list[Buffer]]:
    if depth > MAX_DEPTH:
        raise DumpError(f"tuples nested more than {MAX_DEPTH} deep have no LiteralProto that can be read")
    if value is None:
        token = Shape("token", ())
        return token, [wire.bytes_field(SHAPE, write_shape(token))]
    if isinstance(value, (tuple, list)):
        inner = [_pieces(element, depth + 1) for element in value]
        shape = TupleShape([s for s, _ in inner])
        parts = [wire.bytes_field(SHAPE, write_shape(shape))]
        return shape, parts + [piece for _, pieces in inner for piece in message_pieces(TUPLE_LITERALS, pieces)]
    dense, values, sizes = _values(value)
    head = wire.bytes_field(SHAPE, write_shape(dense))
    tail = wire.integers_field(DYNAMIC_SIZES, sizes)
    if not dense.size:
        return dense, [head, tail]
    field = value_fields()[dense.element_type]
    if field.kind == VARINT and dense.element_type != "pred":
        payload: Buffer = encode_varints(values.view(field.dtype))
    else:
        payload = wire.as_view(_low_bits(values, element_type(dense.element_type)))
    return dense, [head, *message_pieces(field.number, [payload]), tail]


def message_pieces(number: int, pieces: list[Buffer]) -> list[Buffer]:
    """A length-delimited field around pieces."""
    return [wire.bytes_head(number, sum(map(len, pieces))), *pieces]


def _values(value: Any) -> tuple[Shape, Bytes, tuple[int, ...]]:
    """The shape of an array's literal, its bytes, and for a dynamic array the sizes in use."""
    if not isinstance(value, LayoutArray):
        value = LayoutArray.from_numpy(np.asarray(value))
    whole: LayoutArray = value
    sizes: tuple[int, ...] = ()
    if value.xla_shape.is_dynamic:
        # Skip the metadata prefix.
        behind = replace(value.layout, dynamic_shape_metadata_prefix_bytes=0)
        whole = LayoutArray(value.buffer, value.xla_shape.with_layout(behind), bitorder=value.bitorder)
        if front(whole, value.shape).address_map == value.address_map:
            sizes = value.shape
        else:
            whole = value
    order = descending(whole.ndim) if whole.is_view else whole.layout.minor_to_major
    dense = Shape(whole.element_type, whole.shape, Layout(order), dynamic=whole.xla_shape.dynamic if sizes else ())
    if whole.is_view or whole.xla_shape != dense:
        whole = whole.to_layout(Layout(order))
    return dense, whole.buffer, sizes


def _low_bits(values: Bytes, element: ElementType) -> Bytes:
    """Values with unused high bits cleared, as XLA stores them; types of whole bytes are unchanged."""
    if element.name == "pred":
        return np.not_equal(values, 0).view(np.uint8)
    return np.bitwise_and(values, np.uint8((1 << element.bits) - 1)) if element.packs else values
