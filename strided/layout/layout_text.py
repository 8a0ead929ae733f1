"""The text of a layout: its braces, and the attributes in them.

::

    layout     = "{" [int {"," int}] [":" attributes] "}"
    attributes = ["D(" level {"," level} ")"] ["T" tile {tile}] ["L(" int ")"] ["#(" type ")"] ["*(" type ")"]
                 ["E(" int ")"] ["S(" int ")"] ["SC" split {split}] ["P(" shape ")"] ["M(" int ")"]
    tile       = "(" (int | "*") {"," (int | "*")} ")"
    split      = "(" int ":" [int {"," int}] ")"
    level      = ("D" | "C" | "S" | "H") ["+"] ["~"]

XLA's parser ignores failures *inside* an attribute as long as what follows happens to fit: ``T(2,2}`` reads as
``T(2,2)``. Here such a slip is read in the same way, and noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strided.addressing.tiling import COMBINE
from strided.layout import SplitConfig, Tile
from strided.layout.element_types import ELEMENT_TYPES
from strided.layout.lexer import Lexer

_LEVELS = frozenset("DCSH")


def layout_fields(lexer: Lexer, places: dict[str, int]) -> dict[str, Any]:
    """The fields of a layout; their positions go into `places`."""
    lexer.expect("{", "'{' before a layout")
    places["minor_to_major"] = lexer.start
    order = lexer.integers("a dimension number") if lexer.is_integer() else []
    fields: dict[str, Any] = {"minor_to_major": tuple(order)}
    if lexer.take(":"):
        _attributes(lexer, fields, places)
    lexer.expect("}", "'}' at the end of the layout")
    return fields


def _attributes(lexer: Lexer, fields: dict[str, Any], places: dict[str, int]) -> None:
    """What may follow the colon, each at most once and in this order."""
    if lexer.take("D"):
        _level_types(lexer)
    if lexer.token == "T":
        places["tiles"] = lexer.start
        lexer.advance()
        fields["tiles"] = _tiles(lexer)
    _integer_attribute(lexer, "L", "tail_padding_alignment_in_elements", fields, places)
    _sparse_type(lexer, "#", "an index type")
    _sparse_type(lexer, "*", "a pointer type")
    _integer_attribute(lexer, "E", "element_size_in_bits", fields, places)
    _integer_attribute(lexer, "S", "memory_space", fields, places)
    space = fields.get("memory_space", 0)
    if not -128 <= space <= 127:
        fields["memory_space"] = wrapped = (space + 128) % 256 - 128
        words = f"XLA holds a memory space in 8 signed bits: S({space}) wraps around to S({wrapped})"
        lexer.slip(words, places["memory_space"])
    if lexer.token == "SC":
        places["split_configs"] = lexer.start
        lexer.advance()
        fields["split_configs"] = _splits(lexer)
    if lexer.token == "P":
        lexer.fail("only a sparse array has a physical shape, and XLA has no sparse arrays any more", lexer.start)
    name = "dynamic_shape_metadata_prefix_bytes"
    _integer_attribute(lexer, "M", name, fields, places)
    if fields.get(name, 0) < 0:
        lexer.slip(f"a metadata prefix of {fields.pop(name)} bytes", places[name])


def _integer_attribute(lexer: Lexer, letter: str, name: str, fields: dict[str, Any], places: dict[str, int]) -> None:
    if lexer.token != letter:
        return
    places[name] = lexer.start
    lexer.advance()
    if not _takes(lexer, "(", f"'(' after {letter!r}"):
        return
    value = lexer.integer()
    if value is None:
        lexer.slip(f"expected an integer in {letter}(...)")
        return
    fields[name] = value
    _takes(lexer, ")", f"')' after {letter}({value}")


def _takes(lexer: Lexer, token: str, wanted: str) -> bool:
    """Go past `token`. If another comes next, that is a slip, and False."""
    if not lexer.take(token):
        lexer.slip(f"expected {wanted}")
        return False
    return True


def _is_list(lexer: Lexer, read: Callable[[], bool], end: str) -> bool:
    """Whether a list could be read up to its closing bracket; a slip ends it."""
    if lexer.token != ")":
        while True:
            if not read():
                return False
            if not lexer.take(","):
                break
    return _takes(lexer, ")", end)


def _level_types(lexer: Lexer) -> None:
    """Dimension level types, which XLA reads and drops."""

    def read() -> bool:
        if lexer.token not in _LEVELS:
            lexer.slip("expected a dimension level type, one of D C S H")
            return False
        lexer.advance()
        lexer.take("+")
        lexer.take("~")
        return True

    if _takes(lexer, "(", "'(' after 'D'"):
        _is_list(lexer, read, "')' after the dimension level types")


def _tiles(lexer: Lexer) -> tuple[Tile, ...]:
    tiles: list[Tile] = []
    while True:
        sizes: list[int] = []
        whole = _tile(lexer, sizes)
        tiles.append(Tile(sizes))
        if not whole or lexer.token != "(":
            return tuple(tiles)


def _tile(lexer: Lexer, sizes: list[int]) -> bool:
    """Whether a whole tile could be read; its sizes, or the first of them, go into `sizes`."""

    def read() -> bool:
        start = lexer.start
        size = COMBINE if lexer.take("*") else lexer.integer()
        if size is None:
            lexer.slip("expected a tile size")
            return False
        if size == COMBINE and lexer.text[start] != "*":
            lexer.slip("a tile size must be 1 or more, or '*'", start)
        sizes.append(size)
        return True

    return _takes(lexer, "(", "'(' before a tile") and _is_list(lexer, read, "')' or ',' after a tile size")


def _splits(lexer: Lexer) -> tuple[SplitConfig, ...]:
    splits: list[SplitConfig] = []
    while True:
        indices: list[int] = []
        dimension, whole = _split(lexer, indices)
        if dimension is not None:
            splits.append(SplitConfig(dimension, tuple(indices)))
        if not whole or lexer.token != "(":
            return tuple(splits)


def _split(lexer: Lexer, indices: list[int]) -> tuple[int | None, bool]:
    """The dimension of a split, or None, and whether the whole split could be read."""

    def read() -> bool:
        index = lexer.integer()
        if index is None:
            lexer.slip("expected a split index")
            return False
        indices.append(index)
        return True

    if not _takes(lexer, "(", "'(' before a split"):
        return None, False
    dimension = lexer.integer()
    if dimension is None:
        lexer.slip("expected the number of the physical dimension that is split")
        return None, False
    whole = _takes(lexer, ":", "':' after the dimension of a split")
    return dimension, whole and _is_list(lexer, read, "')' or ',' after a split index")


def _sparse_type(lexer: Lexer, sign: str, what: str) -> None:
    """Index and pointer types, which only sparse arrays have. XLA goes on after every failure here."""
    start = lexer.start
    if not lexer.take(sign):
        return
    if not lexer.take("("):
        lexer.slip(f"expected '(' after {sign!r}")
    if lexer.token in ELEMENT_TYPES:
        lexer.fail(f"only a sparse array has {what}, and XLA has no sparse arrays any more", start)
    lexer.slip(f"expected {what}")
    lexer.take(")")
