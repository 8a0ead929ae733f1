"""Shapes of HLO lines, by their text: a module prints few shapes many times."""

from __future__ import annotations

from functools import lru_cache

from strided.dumps.hlo.lexer import skip_space
from strided.errors import StridedError
from strided.layout import AnyShape, parser


@lru_cache(maxsize=1 << 15)
def shape_of(text: str) -> AnyShape | None:
    """The shape that `text` is; None if it is none.

    >>> print(shape_of("(f32[2,3]{1,0:T(2,128)}, pred[])"))
    (f32[2,3]{1,0:T(2,128)}, pred[])
    """
    try:
        shape, end = parser.parse_prefix(text, lenient=True)
    except StridedError:
        return None
    return shape if skip_space(text, end) == len(text) else None
