"""The text of a layout: the braces, and the attributes in them.

::

    layout     = "{" [int {"," int}] [":" attributes] "}"
    attributes = ["D(" level {"," level} ")"] ["T" tile {tile}] ["L(" int ")"] ["#(" type ")"] ["*(" type ")"]
                 ["E(" int ")"] ["S(" int ")"] ["SC" split {split}] ["P(" shape ")"] ["M(" int ")"]
    tile       = "(" (int | "*") {"," (int | "*")} ")"
    split      = "(" int ":" [int {"," int}] ")"
    level      = ("D" | "C" | "S" | "H") ["+"] ["~"]

XLA's parser ignores errors *inside* an attribute as long as it can parse what follows: it reads ``T(2,2}`` as
``T(2,2)``. This parser reads such text in the same way, and notes the error as a *slip*.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from strided.addressing.tiling import COMBINE
from strided.layout import SplitConfig, Tile
from strided.layout.element_types import ELEMENT_TYPES
from strided.layout.lexer import Lexer

_LEVELS = frozenset("DCSH")

_T = TypeVar("_T")


def layout_fields(lexer: Lexer, places: dict[str, int]) -> dict[str, Any]:
    """The fields of a layout. Stores their positions in `places`."""
    lexer.expect("{", "'{' before a layout")
    places["minor_to_major"] = lexer.start
    order = lexer.integers("a dimension number") if lexer.is_integer() else []
    fields: dict[str, Any] = {"minor_to_major": tuple(order)}
    if lexer.take(":"):
        _attributes(lexer, fields, places)
    lexer.expect("}", "'}' at the end of the layout")
    return fields


def _attributes(lexer: Lexer, fields: dict[str, Any], places: dict[str, int]) -> None:
    """The attributes after the colon, each at most once and in this order."""
    if lexer.take("D"):
        _level_types(lexer)
    if _begins(lexer, "T", "tiles", places):
        fields["tiles"] = _each(lexer, _tile)
    _integer_attribute(lexer, "L", "tail_padding_alignment_in_elements", fields, places)
    _sparse_type(lexer, "#", "an index type")
    _sparse_type(lexer, "*", "a pointer type")
    _integer_attribute(lexer, "E", "element_size_in_bits", fields, places)
    _integer_attribute(lexer, "S", "memory_space", fields, places)
    space = fields.get("memory_space", 0)
    if not -128 <= space <= 127:
        fields["memory_space"] = wrapped = (space + 128) % 256 - 128
        words = f"XLA stores a memory space in 8 signed bits: S({space}) wraps around to S({wrapped})"
        lexer.slip(words, places["memory_space"])
    if _begins(lexer, "SC", "split_configs", places):
        fields["split_configs"] = _each(lexer, _split)
    if lexer.token == "P":
        lexer.fail("only a sparse array has a physical shape, and XLA has no sparse arrays any more", lexer.start)
    name = "dynamic_shape_metadata_prefix_bytes"
    _integer_attribute(lexer, "M", name, fields, places)
    if fields.get(name, 0) < 0:
        lexer.slip(f"a metadata prefix of {fields.pop(name)} bytes", places[name])


def _begins(lexer: Lexer, letters: str, name: str, places: dict[str, int]) -> bool:
    """Whether an attribute with these letters comes next. If so, go past the letters and store the position."""
    if lexer.token != letters:
        return False
    places[name] = lexer.start
    lexer.advance()
    return True


def _integer_attribute(lexer: Lexer, letter: str, name: str, fields: dict[str, Any], places: dict[str, int]) -> None:
    if not _begins(lexer, letter, name, places) or not _takes(lexer, "(", f"'(' after {letter!r}"):
        return
    value = _integer(lexer, f"an integer in {letter}(...)")
    if value is not None:
        fields[name] = value
        _takes(lexer, ")", f"')' after {letter}({value}")


def _takes(lexer: Lexer, token: str, wanted: str) -> bool:
    """Go past `token` and return True. If another token comes next, note a slip and return False."""
    if not lexer.take(token):
        lexer.slip(f"expected {wanted}")
        return False
    return True


def _integer(lexer: Lexer, wanted: str) -> int | None:
    """Read a 64-bit integer. If something else comes next, note a slip and return None."""
    value = lexer.integer()
    if value is None:
        lexer.slip(f"expected {wanted}")
    return value


def _listed(lexer: Lexer, read: Callable[[], _T | None], end: str) -> tuple[list[_T], bool]:
    """The values up to ``)``, and whether that was reached: a slip ends them, which `read` reports as None."""
    values: list[_T] = []
    if lexer.token != ")":
        while True:
            value = read()
            if value is None:
                return values, False
            values.append(value)
            if not lexer.take(","):
                break
    return values, _takes(lexer, ")", end)


def _level_types(lexer: Lexer) -> None:
    """Dimension level types, which XLA reads and drops."""

    def level() -> str | None:
        if lexer.token not in _LEVELS:
            lexer.slip("expected a dimension level type, one of D C S H")
            return None
        found = lexer.advance()
        lexer.take("+")
        lexer.take("~")
        return found

    if _takes(lexer, "(", "'(' after 'D'"):
        _listed(lexer, level, "')' after the dimension level types")


def _each(lexer: Lexer, read: Callable[[Lexer], tuple[_T | None, bool]]) -> tuple[_T, ...]:
    """All tiles or splits, up to the first one with a slip."""
    found: list[_T] = []
    while True:
        one, whole = read(lexer)
        if one is not None:
            found.append(one)
        if not whole or lexer.token != "(":
            return tuple(found)


def _tile(lexer: Lexer) -> tuple[Tile, bool]:
    """A tile of the sizes before the first slip, and whether it had no slip."""

    def size() -> int | None:
        start = lexer.start
        found = COMBINE if lexer.take("*") else _integer(lexer, "a tile size")
        if found == COMBINE and lexer.text[start] != "*":
            lexer.slip("a tile size must be 1 or more, or '*'", start)
        return found

    if not _takes(lexer, "(", "'(' before a tile"):
        return Tile(), False
    sizes, whole = _listed(lexer, size, "')' or ',' after a tile size")
    return Tile(sizes), whole


def _split(lexer: Lexer) -> tuple[SplitConfig | None, bool]:
    """A split of the indices before the first slip (None without a dimension), and whether it had no slip."""
    if not _takes(lexer, "(", "'(' before a split"):
        return None, False
    dimension = _integer(lexer, "the number of the physical dimension that is split")
    if dimension is None:
        return None, False
    if not _takes(lexer, ":", "':' after the dimension of a split"):
        return SplitConfig(dimension, ()), False
    indices, whole = _listed(lexer, partial(_integer, lexer, "a split index"), "')' or ',' after a split index")
    return SplitConfig(dimension, tuple(indices)), whole


def _sparse_type(lexer: Lexer, sign: str, what: str) -> None:
    """Index and pointer types, which only sparse arrays have. XLA ignores every error here."""
    start = lexer.start
    if not lexer.take(sign):
        return
    if not lexer.take("("):
        lexer.slip(f"expected '(' after {sign!r}")
    if lexer.token in ELEMENT_TYPES:
        lexer.fail(f"only a sparse array has {what}, and XLA has no sparse arrays any more", start)
    lexer.slip(f"expected {what}")
    lexer.take(")")
