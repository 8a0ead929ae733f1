"""Read and write shapes and layouts in protobuf form: ShapeProto, LayoutProto, ProgramShapeProto.

They are written byte for byte as by XLA. Messages of older releases (with padded dimensions, until 2018) and of newer
ones (unknown fields are skipped) are read, too. Sparse arrays are refused, as XLA now does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strided.dumps.protobuf.wire import (
    MAX_DEPTH,
    Field,
    bytes_field,
    fields,
    integer_field,
    integers_field,
    join,
    merged,
)
from strided.errors import DumpError, StridedError
from strided.layout import UNBOUNDED, AnyShape, BufferShape, Layout, Shape, SplitConfig, Tile, TupleShape
from strided.layout.element_types import element_type, element_type_of_number
from strided.layout.layout import order_in_space
from strided.runtime.cache import BoundedCache

#: PrimitiveType numbers of tuples and buffers.
TUPLE, BUFFER = 13, 34

#: DimLevelType of a dense dimension; all others are of sparse arrays.
_DENSE = 0

#: Short messages are cached, because modules repeat few shapes many times.
_KNOWN_BYTES, _KNOWN_SHAPES = 256, 4096
_known = BoundedCache[bytes, Shape | BufferShape](_KNOWN_SHAPES)


@dataclass(frozen=True)
class ProgramShape:
    """A program's parameters and result; `result` is None if the message has none."""

    parameters: tuple[AnyShape, ...] = ()
    result: AnyShape | None = None
    parameter_names: tuple[str, ...] = ()


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_shape(view: memoryview, at: int = 0, depth: int = 0) -> AnyShape:
    """Read a ShapeProto; `at` is its offset in the file, for errors, `depth` its nesting in other shapes.

    DumpError for an invalid message or shape.

    >>> str(read_shape(memoryview(bytes.fromhex("10101a0203052a070a020001800101"))))
    'bf16[3,5]{0,1}'
    """
    if depth > MAX_DEPTH:
        raise DumpError(f"ShapeProto: shapes nested more than {MAX_DEPTH} deep", position=at)
    if len(view) > _KNOWN_BYTES:
        return _read_shape(view, at, depth)
    key = bytes(view)
    known = _known.get(key)
    if known is not None:
        return known
    shape = _read_shape(view, at, depth)
    if not isinstance(shape, TupleShape):  # the depth of tuples is checked each time
        _known.keep(key, shape)
    return shape


def _read_shape(view: memoryview, at: int, depth: int) -> AnyShape:
    number, layouts = 0, []
    dimensions: list[int] = []
    dynamic: list[int] = []
    inner: list[AnyShape] = []
    for field in fields(view, "ShapeProto", at):
        match field.number:
            case 2:
                number = field.integer("ShapeProto.element_type")
            case 3:
                dimensions += field.integers("ShapeProto.dimensions")
            case 4:
                inner.append(read_shape(field.view("ShapeProto.tuple_shapes"), field.at, depth + 1))
            case 5:
                layouts.append(field.view("ShapeProto.layout"))
                at_layout = field.at
            case 6:
                dynamic += field.integers("ShapeProto.is_dynamic_dimension")
    try:
        if number == TUPLE:
            return TupleShape(inner)
        if number == BUFFER:
            if len(inner) != 1 or not isinstance(inner[0], Shape):
                raise DumpError(f"ShapeProto: a buffer holds one array, found {len(inner)} shapes", position=at)
            return BufferShape(inner[0])
        name = element_type_of_number(number).name
        if not element_type(name).is_array:
            return Shape(name, dimensions)  # refuses what is not empty
        layout = read_layout(merged(layouts), at_layout) if layouts else None
        if layout is not None and dimensions and not layout.minor_to_major:
            layout = replace(layout, minor_to_major=order_in_space((), len(dimensions), layout.memory_space))
        return Shape(name, tuple(dimensions), layout, dynamic=_dynamic(dimensions, dynamic, at))
    except DumpError:
        raise
    except StridedError as error:
        raise DumpError(f"ShapeProto: {error}", position=at) from error


def _dynamic(dimensions: list[int], flags: list[int], at: int) -> tuple[bool, ...]:
    if len(flags) > len(dimensions):
        raise DumpError(
            f"ShapeProto: {len(flags)} flags is_dynamic_dimension for {len(dimensions)} dimensions", position=at
        )
    flags = flags + [0] * (len(dimensions) - len(flags))  # older writers omit flags if all are false
    return tuple(bool(flag) or size == UNBOUNDED for flag, size in zip(flags, dimensions, strict=True))


def read_layout(view: memoryview, at: int = 0) -> Layout:
    """Read a LayoutProto.

    DumpError for an invalid message, or if it is no valid layout of a dense array.

    >>> str(read_layout(memoryview(bytes.fromhex("0a02010032040a020204"))))
    '{1,0:T(2,4)}'
    """
    order: list[int] = []
    padded: list[int] = []
    tiles, splits, numbers = [], [], {}
    for field in fields(view, "LayoutProto", at):
        number = field.number
        if number == 1:
            order += field.integers("LayoutProto.minor_to_major")
        elif number == 2:
            padded += field.integers("LayoutProto.padded_dimensions")
        elif number == 6:
            tiles.append(_read_tile(field))
        elif number == 9:
            if any(level != _DENSE for level in field.integers("LayoutProto.dim_level_types")):
                raise _sparse("dimensions that are not dense", field.at)
        elif number == 10:
            raise _sparse("a physical shape", field.at)
        elif number == 17:
            splits.append(_read_split(field))
        elif number in _LAYOUT_NUMBERS:
            numbers[number] = field.integer(f"LayoutProto.{_LAYOUT_NUMBERS[number]}")
    if any(numbers.get(number) for number in (11, 12)):
        raise _sparse("an index or pointer type", at)
    if numbers.get(4, 1) != 1:
        raise DumpError(f"LayoutProto.format {numbers[4]}: only dense arrays (1) can be read", position=at)
    try:
        return Layout(
            tuple(order),
            tuple(tiles),
            element_size_in_bits=numbers.get(7, 0),
            memory_space=(numbers.get(8, 0) + 128) % 256 - 128,  # XLA keeps the low eight bits
            dynamic_shape_metadata_prefix_bytes=max(numbers.get(15, 0), 0),
            tail_padding_alignment_in_elements=numbers.get(16, 0) or 1,
            split_configs=tuple(splits),
            padded_dimensions=tuple(padded),
            padding_value=numbers.get(3, 0),  # type: ignore[arg-type]  # becomes a PaddingValue
        )
    except (StridedError, ValueError) as error:
        raise DumpError(f"LayoutProto: {error}", position=at) from error


_LAYOUT_NUMBERS = {
    3: "padding_value",
    4: "format",
    7: "element_size_in_bits",
    8: "memory_space",
    11: "index_primitive_type",
    12: "pointer_primitive_type",
    15: "dynamic_shape_metadata_prefix_bytes",
    16: "tail_padding_alignment_in_elements",
}


def _sparse(what: str, at: int) -> DumpError:
    """The error for a feature of sparse layouts."""
    message = f"LayoutProto: only sparse arrays have {what}, and XLA no longer has sparse arrays"
    return DumpError(message, position=at)


def _read_tile(outer: Field) -> Tile:
    sizes: list[int] = []
    for field in fields(outer.view("LayoutProto.tiles"), "TileProto", outer.at):
        if field.number == 1:
            sizes += field.integers("TileProto.dimensions")
    return Tile(sizes)


def _read_split(outer: Field) -> SplitConfig:
    dimension, indices = 0, []
    for field in fields(outer.view("LayoutProto.split_configs"), "SplitConfigProto", outer.at):
        if field.number == 1:
            dimension = field.integer("SplitConfigProto.dimension")
        elif field.number == 2:
            indices += field.integers("SplitConfigProto.split_indices")
    return SplitConfig(dimension, tuple(indices))


def read_program_shape(view: memoryview, at: int = 0) -> ProgramShape:
    """Read a ProgramShapeProto. DumpError for an invalid message."""
    parameters, names = [], []
    messages: dict[int, Field] = {}
    for field in fields(view, "ProgramShapeProto", at):
        match field.number:
            case 1:
                parameters.append(read_shape(field.view("ProgramShapeProto.parameters"), field.at))
            case 2:
                join(messages, field, "ProgramShapeProto.result")
            case 3:
                names.append(field.text("ProgramShapeProto.parameter_names"))
    found = messages.get(2)
    result = None if found is None else read_shape(found.view("ProgramShapeProto.result"), found.at)
    return ProgramShape(tuple(parameters), result, tuple(names))


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_shape(shape: AnyShape, depth: int = 0) -> bytes:
    """Write a ShapeProto; `depth` is its nesting in other shapes.

    DumpError for shapes nested more than 100 deep, which no protobuf parser reads.

    >>> write_shape(Shape("bf16", (3, 5))).hex()
    '10101a0203052a070a02010080010132020000'
    """
    if depth > MAX_DEPTH:
        raise DumpError(f"shapes nested more than {MAX_DEPTH} deep have no ShapeProto that can be read")
    match shape:
        case TupleShape():
            inner = (bytes_field(4, write_shape(element, depth + 1)) for element in shape)
            return integer_field(2, TUPLE) + b"".join(inner)
        case BufferShape():
            return integer_field(2, BUFFER) + bytes_field(4, write_shape(shape.shape, depth + 1))
        case Shape():
            return (
                integer_field(2, element_type(shape.element_type).number)
                + integers_field(3, shape.dimensions)
                + (b"" if shape.layout is None else bytes_field(5, write_layout(shape.layout)))
                + integers_field(6, [int(flag) for flag in shape.dynamic])
            )


def write_layout(layout: Layout) -> bytes:
    """Write a LayoutProto.

    >>> write_layout(Layout((0,), memory_space=5)).hex()
    '0a01004005800101'
    """
    return b"".join(
        (
            integers_field(1, layout.minor_to_major),
            integers_field(2, layout.padded_dimensions),
            integer_field(3, layout.padding_value),
            *(bytes_field(6, integers_field(1, tile)) for tile in layout.tiles),
            integer_field(7, layout.element_size_in_bits),
            integer_field(8, layout.memory_space),
            integer_field(15, layout.dynamic_shape_metadata_prefix_bytes),
            integer_field(16, layout.tail_padding_alignment_in_elements),
            *(
                bytes_field(17, integer_field(1, split.dimension) + integers_field(2, split.split_indices))
                for split in layout.split_configs
            ),
        )
    )
