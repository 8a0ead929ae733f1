"""The layout that the TPU compiler gives to a parameter whose layout the program does not specify.

The rule is not published. It was inferred from what libtpu 0.0.51 chose for parameters of identity functions, compiled
ahead of time for all seven generations. It reproduces all 7,311 observed layouts, of ranks 0 to 6. Other releases may
choose otherwise, and for values inside a program the compiler considers how they are used.

Memory is addressed in words of 32 bits. Narrower elements of neighbouring rows share a word: 2, 4, 8 or 16 rows for
elements of 16, 8, 4 or 2 bits. A tile has 128 columns. Its number of rows is:

- the least power of two that holds the dimension, up to 8 or the rows of one word; at least the rows of one word, on v2
  and v3 of two words;
- from v4 on, for elements of 8 bits or fewer, the rows of eight words if that divides the dimension.

Any two dimensions may be tiled: the pair that takes the least memory; of equal pairs, the last dimensions.
"""

from __future__ import annotations

import itertools

from strided.errors import UnsupportedError
from strided.layout import AnyShape, Layout, Tile
from strided.layout.element_types import element_type
from strided.layout.layout import descending
from strided.layout.parser import array_shape

#: The generations of TPUs whose layouts are known.
GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x")
#: These never pack elements, and their tiles have at least 1,024 bytes.
_FIRST = frozenset({"v2", "v3"})
#: Element types of which no layout was observed.
_UNOBSERVED = frozenset({"s1", "u1", "f6e3m2fn", "f6e2m3fn"})
#: Columns of a tile: the lanes of a TPU's vector registers.
COLUMNS = 128


def check_generation(generation: str) -> None:
    """Raise UnsupportedError for a generation of TPUs whose default layouts are not known."""
    if generation not in GENERATIONS:
        raise UnsupportedError(f"no default layouts are known for {generation!r}, only for {', '.join(GENERATIONS)}")


def default_layout(shape: str | AnyShape, generation: str = "v5e") -> Layout:
    """The layout that the TPU compiler chooses for a parameter of this element type and these dimensions.

    The rule is not published. It was inferred from 7,311 layouts that libtpu 0.0.51 chose, and reproduces all of them;
    other releases may choose otherwise.

    Parameters
    ----------
    shape : str or Shape
        Element type and dimensions; its layout is ignored.
    generation : str, optional
        The TPU: ``"v2"``, ``"v3"``, ``"v4"``, ``"v5e"``, ``"v5p"``, ``"v6e"`` or ``"tpu7x"``. From v4 on all choose
        alike.

    Raises
    ------
    NotationError
        The text is not a shape.
    LayoutError
        `shape` is a layout alone.
    UnsupportedError
        No layout was observed: for another generation, 1-bit and 6-bit types, dynamic dimensions. Also for tuples,
        tokens and opaque values.

    Examples
    --------
    >>> import strided as sd
    >>> str(sd.tpu.default_layout("bf16[2,3,17,300]"))
    '{3,0,2,1:T(2,128)(2,1)}'
    >>> shape = sd.parse_shape("s4[128,1024]")
    >>> for generation in ("v3", "v6e"):
    ...     layout = sd.tpu.default_layout(shape, generation)
    ...     print(layout, shape.with_layout(layout).byte_size)
    {1,0:T(8,128)(4,1)} 131072
    {1,0:T(64,128)(8,1)E(4)} 65536
    """
    check_generation(generation)
    shape = array_shape(shape)
    if shape.is_dynamic:
        raise UnsupportedError(f"no default layouts are known for dynamic dimensions, as in {shape.text(layout=False)}")
    if shape.element_type in _UNOBSERVED:
        raise UnsupportedError(f"no default layouts are known for {shape.element_type}")
    kind = element_type(shape.element_type)
    bits = kind.storage_bits if kind.name == "pred" else kind.bits
    first = generation in _FIRST
    packed_bits = 0 if first or bits >= 8 else bits
    row_major = descending(shape.rank)
    if 0 in shape.dimensions:
        return Layout(row_major, element_size_in_bits=packed_bits)

    rows_of_word = max(1, 32 // (packed_bits or kind.storage_bits))
    least, most = 2 * rows_of_word if first else rows_of_word, max(8, 32 // bits)
    words = (Tile((rows_of_word, 1)),) if rows_of_word > 1 else ()
    if shape.rank < 2:
        n = COLUMNS * least if shape.rank == 0 else _power_of_two(shape.size, COLUMNS * least, COLUMNS * most)
        inner = (Tile((COLUMNS,)), *words) if shape.rank and words else ()
        return Layout(row_major, (Tile((n,)), *inner), element_size_in_bits=packed_bits)

    def rows(n: int) -> int:
        """Rows of a tile if the second most minor dimension has size `n`, for choosing the order."""
        is_tall = rows_of_word >= 4 and not first and n % (8 * rows_of_word) == 0
        return 8 * rows_of_word if is_tall else _power_of_two(n, min(8, least), 8)

    def size(pair: tuple[int, int]) -> int:
        """Slots of the buffer if this pair of dimensions is tiled."""
        columns, n = (shape.dimensions[d] for d in pair)
        return shape.size // (columns * n) * rounded_up(columns, COLUMNS) * rounded_up(n, rows(n))

    # Of equal pairs, `min` takes the first: the last dimensions.
    minor, second = min(itertools.permutations(row_major, 2), key=size)
    order = (minor, second, *(d for d in row_major if d not in (minor, second)))
    # Tiles of 2 bits have sixteen rows on all generations. The order is chosen as if they had eight.
    tile = Tile((max(rows(shape.dimensions[second]), 32 // bits), COLUMNS))
    return Layout(order, (tile, *words), element_size_in_bits=packed_bits)


def _power_of_two(n: int, least: int, most: int) -> int:
    """The least power of two that is `n` or more, clipped to the range from `least` to `most`."""
    return min(max(1 << (n - 1).bit_length(), least), most)


def rounded_up(n: int, multiple: int) -> int:
    """`n` rounded up to a multiple of a number."""
    return -(-n // multiple) * multiple
