"""Describe a shape as text for people, or as a dict for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeVar

from strided.arrays.buffer_spec import spec_of
from strided.errors import StridedError, UnsupportedError
from strided.layout import UNBOUNDED, AnyShape, BufferShape, Layout, Shape, TupleShape
from strided.layout.parser import any_shape
from strided.layout.sizes import Sizes, sizes, tile_of
from strided.layout.tuples import unbuffered
from strided.runtime.argument_checks import whole
from strided.wording import counted, times_text, wrapped

T = TypeVar("T")


def facts(shape: AnyShape | str) -> dict[str, Any]:
    """The properties of a shape, in types that JSON has. Unknown sizes are None.

    Parameters
    ----------
    shape : str, Shape, TupleShape or BufferShape
        XLA's text, or its parsed value.

    Returns
    -------
    dict
        ``byte_size`` counts padding, ``value_bytes`` does not; ``size`` and ``strides`` count elements. A tuple has
        ``elements``, a list of such dicts.

    Raises
    ------
    NotationError
        The text is not a shape.
    LayoutError
        The text is a layout without a shape.

    >>> found = facts("bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> found["byte_size"], found["padding_bytes"], found["tiles"]
    (18432, 8232, [[8, 128], [2, 1]])
    """
    shape = any_shape(shape)
    found: dict[str, Any] = {"shape": str(shape)}
    if isinstance(shape, TupleShape):
        leaves = [{"index": list(index), **facts(leaf)} for index, leaf in shape.leaves()]
        each = [leaf["byte_size"] for leaf in leaves]
        found["byte_size"] = None if None in each else sum(each)
        return found | {"elements": leaves}
    if isinstance(shape, BufferShape):
        return facts(shape.shape) | found
    found |= {"element_type": shape.element_type, "dimensions": [_or_none(n) for n in shape.dimensions]}
    if shape.layout is None:
        return found | {"byte_size": 0}
    layout = shape.layout
    found |= {
        "dynamic": list(shape.dynamic),
        "minor_to_major": list(layout.minor_to_major),
        "tiles": [[_or_none(t) for t in tile] for tile in layout.tiles],
        "element_bits": shape.element_bits,
        "memory_space": layout.memory_space,
        "tail_padding_alignment_in_elements": layout.tail_padding_alignment_in_elements,
    }
    known = _if_any(sizes, shape)
    found["byte_size"] = None if known is None else known.total_bytes
    if known is not None:
        found |= {
            "size": known.elements,
            "value_bytes": known.value_bytes,
            "padding_bytes": known.padding_bytes,
            "padding_share": round(known.padding_share, 6),
            "padded_dimensions": list(known.padded_dimensions),
            "strides": strides(shape),
        }
    return found


def describe(shape: AnyShape | str, *, width: SupportsIndex = 80) -> str:
    """Describe a shape in words, in lines of at most `width` columns; a tuple, with a line for each array.

    NotationError for text that is no shape, LayoutError for a layout without a shape.

    >>> print(describe("f32[3,5]{0,1}"))
    f32[3,5]{0,1}
      elements  15 (3 x 5) of 4 bytes, float32 in NumPy
      order     dimension 0 (y) is minor, 1 (x) is major
      strides   1, 3 elements; 4, 12 bytes
      memory    60 bytes, no padding, in HBM (S(0))
    """
    shape, width = any_shape(shape), whole(width, "width")
    if isinstance(shape, TupleShape):
        return _describe_tuple(shape)
    array = unbuffered(shape)
    lines = wrapped(str(shape), width, "")
    for label, text in rows_of(array):
        lines += wrapped(f"  {label:<8}  {text}", width, " " * 12)
    return "\n".join(lines)


def _describe_tuple(shape: TupleShape) -> str:
    leaves = [(index, leaf, size_of(leaf)) for index, leaf in shape.leaves()]
    total = counted(sum(size or 0 for _, _, size in leaves), "byte")
    least = "at least " if any(size is None for _, _, size in leaves) else ""
    lines = [f"a tuple of {len(shape)}: {counted(len(leaves), 'array')}, {least}{total}"]
    for index, leaf, size in leaves:
        shown = "size not known" if size is None else counted(size, "byte")
        lines.append(f"  {{{','.join(map(str, index))}}}  {leaf}  {shown}")
    return "\n".join(lines)


def size_of(shape: Shape | BufferShape | TupleShape) -> int | None:
    """Bytes that XLA allocates for a shape; None if unknown."""
    return _if_any(getattr, shape, "byte_size")


def rows_of(shape: Shape) -> Iterator[tuple[str, str]]:
    """The lines of `describe`, each as a label and a text."""
    if shape.layout is None:
        yield "elements", "none: a value of this type is not an array"
        return
    layout, known, refusal = shape.layout, None, ""
    try:
        known = sizes(shape)
    except StridedError as error:
        refusal = str(error)
    bits = shape.element_bits
    unit = counted(bits // 8, "byte") if bits >= 8 else f"{counted(bits, 'bit')}, packed"
    count = " x ".join("?" if n == UNBOUNDED else f"{n:,}" for n in shape.dimensions)
    number = "an unknown number" if known is None else f"{known.elements:,}"
    yield "elements", f"{number}{f' ({count})' if shape.rank > 1 else ''} of {unit}, {shape.dtype.name} in NumPy"
    bounded = [d for d, on in enumerate(shape.dynamic) if on and shape.dimensions[d] != UNBOUNDED]
    if bounded:
        yield "dynamic", f"dimensions {', '.join(map(str, bounded))}: laid out in full"
    if shape.rank > 1:
        yield "order", order_in_words(shape)
    if known is None:
        yield "memory", f"unknown size, in {layout.memory_space_name}"
        if UNBOUNDED not in shape.dimensions:
            yield "caution", f"{refusal}: no sizes, no addresses"
        return
    if layout.tiles:
        yield "tiles", tiles_in_words(shape)
    elif steps := strides(shape):
        yield "strides", _strides_in_words(steps, bits)
    if known.padded_dimensions != shape.dimensions and known.total_bytes:
        yield "stored", f"as {' x '.join(f'{n:,}' for n in known.padded_dimensions)}, the rest is padding"
    yield "memory", f"{_memory_in_words(known)}, in {layout.memory_space_name}"
    yield from _special_rows(shape, layout)


def _strides_in_words(steps: Sequence[int], bits: int) -> str:
    """Strides in elements, and also in bytes if elements take whole bytes.

    >>> _strides_in_words([300, 1], 16), _strides_in_words([1], 4)
    ('300, 1 elements; 600, 2 bytes', '1 element')
    """
    one = "element" if steps == [1] else "elements"
    unit = "byte" if steps == [1] and bits == 8 else "bytes"
    in_bytes = f"; {', '.join(f'{s * bits // 8:,}' for s in steps)} {unit}" if bits % 8 == 0 else ""
    return f"{', '.join(f'{s:,}' for s in steps)} {one}{in_bytes}"


def _memory_in_words(known: Sizes) -> str:
    if not known.padding_bytes:
        return f"{counted(known.total_bytes, 'byte')}, no padding"
    times = f", {times_text(known.growth)} times the values" if known.value_bytes else ""
    return (
        f"{known.total_bytes:,} bytes: {known.value_bytes:,} of values, {known.padding_bytes:,} of padding "
        f"({known.padding_share:.1%}{times})"
    )


def _special_rows(shape: Shape, layout: Layout) -> Iterator[tuple[str, str]]:
    try:
        spec_of(shape)
    except UnsupportedError as error:
        yield "caution", f"{error}: values are not read"
    if layout.tail_padding_alignment_in_elements > 1:
        yield "tail", f"rounded up to a multiple of {layout.tail_padding_alignment_in_elements:,} elements"
    for split in layout.split_configs:
        cuts = ", ".join(map(str, split.split_indices))
        yield "split", f"physical dimension {split.dimension} is cut at {cuts}; the memory is that of the largest piece"
    if layout.dynamic_shape_metadata_prefix_bytes:
        yield "prefix", f"{layout.dynamic_shape_metadata_prefix_bytes:,} bytes of dynamic sizes in front"
    if shape.address_byte_size > shape.byte_size and not layout.split_configs:
        yield (
            "caution",
            f"a later tile divides unevenly: addresses reach {shape.address_byte_size:,} bytes, "
            "beyond what XLA allocates",
        )


def order_in_words(shape: Shape) -> str:
    """Which dimension varies fastest and which slowest, in words.

    >>> from strided import parse
    >>> order_in_words(parse("f32[2,3,5]{1,2,0}"))
    'dimension 1 (y) is minor, then 2 (x), 0 (z) is major'
    """
    assert shape.layout is not None
    order = shape.layout.minor_to_major
    names = [f"{d} ({letter})" if (letter := shape.dimension_letter(d)) else str(d) for d in order]
    middle = f" then {', '.join(names[1:-1])}," if len(names) > 2 else ""
    return f"dimension {names[0]} is minor,{middle} {names[-1]} is major"


def tiles_in_words(shape: Shape) -> str:
    """The tiles of a layout, in words.

    >>> from strided import parse
    >>> tiles_in_words(parse("bf16[17,300]{1,0:T(8,128)(2,1)}"))
    '(8,128), 3 x 3 of them, 1,024 elements each; inside each, tiles of (2,1)'
    """
    layout = shape.layout
    assert layout is not None
    first, *later = layout.tiles
    text = str(first)
    cut = tile_of(shape)
    if cut and len(cut) == len(first):
        text += f", {' x '.join(f'{-(-shape.dimensions[d] // t):,}' for d, t in cut.items())} of them"
    text += f", {math.prod(max(1, t) for t in first):,} elements each"
    if any(t < 0 for t in first):
        text += " ('*' merges a dimension into the next)"
    for tile in later:
        text += f"; inside each, tiles of {tile}" if len(tile) <= len(first) else f"; of these again tiles of {tile}"
    return text


def strides(shape: Shape) -> list[int] | None:
    """The stride of each dimension in elements; None if tiles make it vary.

    >>> from strided import parse
    >>> strides(parse("f32[3,5]{0,1}")), strides(parse("f32[3,5]{0,1:T(2,2)}"))
    ([1, 3], None)
    """
    return _if_any(lambda: [shape.stride_of(d) for d in range(shape.rank)])


def _if_any(ask: Callable[..., T], *arguments: Any) -> T | None:
    """What `ask` returns; None if it raises StridedError."""
    try:
        return ask(*arguments)
    except StridedError:
        return None


def _or_none(size: int) -> int | None:
    """A size; None for a dimension's ``?`` or a tile's ``*``."""
    return None if size < 0 else size
