"""Data of a layout for a page, with which its script computes addresses."""

from __future__ import annotations

from typing import Any

from strided.addressing.index_expr import Combined, Coordinate, IndexExpr, Quotient, Remainder
from strided.errors import UnsupportedError
from strided.inspect.describe import rows_of
from strided.inspect.explain import expression
from strided.layout import Shape
from strided.layout.sizes import has_addresses, sizes, tile_of

#: JavaScript's integers are exact up to this.
_EXACT = 1 << 53


def layout_data(shape: Shape, bitorder: str = "little") -> dict[str, Any]:
    """What a page needs to compute any address of a shape, in types that JSON has.

    Raises
    ------
    UnsupportedError
        The shape has no addresses (not an array, unknown size, split layout), or offsets reach 2**53 bits.
    """
    if shape.layout is None or not has_addresses(shape):
        raise UnsupportedError(f"{shape} has no addresses that could be drawn")
    expansion, known = shape.expansion, sizes(shape)
    prefix = shape.layout.dynamic_shape_metadata_prefix_bytes
    if expansion.address_elements * shape.element_bits >= _EXACT:
        raise UnsupportedError(f"{shape} is too large for a page: it takes {shape.byte_size} bytes")
    return {
        "text": str(shape),
        "element_type": shape.element_type,
        "dimensions": list(shape.dimensions),
        "minor_to_major": list(shape.layout.minor_to_major),
        "element_bits": shape.element_bits,
        "is_big_endian_packed": bitorder == "big",
        "prefix_bytes": prefix,
        "byte_size": shape.buffer_byte_size - prefix,
        "slots": expansion.address_elements,
        "grid_elements": expansion.grid_elements,
        "padding_share": known.padding_share,
        "padded_dimensions": [max(n, m) for n, m in zip(known.padded_dimensions, shape.dimensions, strict=True)],
        "tile_sizes": [_sizes_of_tiles(shape, level) for level in range(2)],
        "facts": [list(row) for row in rows_of(shape)],
        "parts": [
            {"expression": _as_lists(expr), "text": expression(expr), "bound": bound, "stride": stride}
            for expr, bound, stride in zip(expansion.exprs, expansion.bounds, expansion.strides, strict=True)
        ],
        "tiles": [
            {
                "prefix": tile.prefix,
                "added": tile.added,
                "entries": list(tile.entries),
                "bounds": [list(bounds) for bounds in tile.bounds],
                "owners": list(tile.owners),
            }
            for tile in expansion.applied
        ],
    }


def _sizes_of_tiles(shape: Shape, level: int) -> list[int | None]:
    """The size of a tile at a level in each dimension; None for a dimension that it does not cut by itself."""
    assert shape.layout is not None
    found = tile_of(shape, level) if len(shape.layout.tiles) > level else {}
    return [found.get(dimension) for dimension in range(shape.rank)]


def _as_lists(expr: IndexExpr) -> list[Any]:
    match expr:
        case Coordinate(dimension):
            return ["d", dimension]
        case Quotient(of, divisor):
            return ["/", _as_lists(of), divisor]
        case Remainder(of, divisor):
            return ["%", _as_lists(of), divisor]
        case Combined(major, minor, size):
            return ["*+", _as_lists(major), _as_lists(minor), size]
    return ["0"]
