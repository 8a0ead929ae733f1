"""Shapes of HLO lines, by their text.

A module prints few shapes many times, and fewer layouts still. So shapes are kept by their text, and what XLA prints,
without blanks or sizes known at run time only, is put together from a layout that is kept as well. Everything else is
`strided.layout.parser`'s to read; where both can, they agree.
"""

from __future__ import annotations

import re
from functools import lru_cache

from strided.dumps.hlo.lexer import skip_space
from strided.errors import StridedError
from strided.layout import AnyShape, Layout, Shape, TupleShape, parser
from strided.layout.element_types import ELEMENT_TYPES

_TYPES = "|".join(sorted((name for name, kind in ELEMENT_TYPES.items() if kind.is_array), key=len, reverse=True))
_SIZES = r"(?:\d{1,18}(?:,\d{1,18})*)?"
_TILES = r"T(?:\(\d{1,9}(?:,\d{1,9})*\))+"
_ATTRIBUTES = rf":(?:{_TILES})?(?:L\(\d{{1,9}}\))?(?:E\(\d{{1,3}}\))?(?:S\(\d{{1,3}}\))?"
_LAYOUT = rf"\{{(?!\}})(?:\d{{1,4}}(?:,\d{{1,4}})*)?(?:{_ATTRIBUTES})?\}}"
_ARRAY = rf"({_TYPES})\[({_SIZES})\]({_LAYOUT})?"
_PLAIN = re.compile(_ARRAY)
#: A tuple's pieces. The separator takes the comment in which XLA counts elements along.
_PIECE = re.compile(rf"{_ARRAY}|(\()|(\))|, (?:/\*index=\d+\*/)?")


@lru_cache(maxsize=1 << 15)
def shape_of(text: str) -> AnyShape | None:
    """The shape that `text` is; None where it is none.

    >>> print(shape_of("(f32[2,3]{1,0:T(2,128)}, pred[])"))
    (f32[2,3]{1,0:T(2,128)}, pred[])
    """
    try:
        if plain := _PLAIN.fullmatch(text):
            return _array(plain)
        if text.startswith("(") and (whole := _tuple(text)) is not None:
            return whole
        shape, end = parser.parse_prefix(text, lenient=True)
        return shape if skip_space(text, end) == len(text) else None
    except StridedError:
        return None


def _array(found: re.Match[str]) -> Shape:
    element_type, sizes, layout, *_ = found.groups()
    dimensions = tuple(map(int, sizes.split(","))) if sizes else ()
    return Shape(element_type, dimensions, None if layout is None else _layout(layout))


@lru_cache(maxsize=1 << 12)
def _layout(text: str) -> Layout:
    layout: Layout = parser.parse(text)
    return layout


def _tuple(text: str) -> TupleShape | None:
    """A tuple as XLA prints it; None where anything is out of the ordinary."""
    open_tuples: list[list[AnyShape]] = []
    position, separated = 0, True
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None:
            return None
        position = piece.end()
        if piece[4]:
            open_tuples.append([])
            separated = True
        elif piece[5]:
            if not open_tuples or (separated and open_tuples[-1]):
                return None
            whole = TupleShape(open_tuples.pop())
            if not open_tuples:
                return whole if position == len(text) else None
            open_tuples[-1].append(whole)
            separated = False
        elif piece[1]:
            if not separated or not open_tuples:
                return None
            open_tuples[-1].append(_array(piece))
            separated = False
        elif separated:
            return None
        else:
            separated = True
    return None
