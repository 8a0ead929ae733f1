"""A NumPy index written as text."""

from __future__ import annotations

import ast
from typing import Any

from strided.errors import NotationError

_EXPECTED = "expected integers, slices, '...', None or lists of integers, as between NumPy's brackets"


def parse_index(text: str) -> Any:
    """The key that a text between NumPy's brackets means. Brackets around the whole text are dropped.

    Raises
    ------
    NotationError
        Anything but integers, slices, ``...``, ``None`` and lists of integers.

    >>> parse_index("9, 200:204"), parse_index("[..., -1]"), parse_index("[[0, 2]]")
    ((9, slice(200, 204, None)), (Ellipsis, -1), [0, 2])
    """
    if not isinstance(text, str):
        raise TypeError(f"expected the text of an index, as in '9, 200:204', not {type(text).__name__}")
    stripped = text.strip()
    source = stripped if stripped.startswith("[") and _closes_last(stripped) else f"[{stripped}]"
    if source == "[]":
        return ()
    try:
        tree = ast.parse(f"_{source}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotationError(_EXPECTED, text=text, position=0) from None
    if not isinstance(tree, ast.Subscript):
        raise NotationError(_EXPECTED, text=text, position=0)
    try:
        return _value(tree.slice)
    except (TypeError, RecursionError):
        raise NotationError(_EXPECTED, text=text, position=0) from None


def _closes_last(text: str) -> bool:
    """Whether the first bracket of a text is closed by the last character."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return place == len(text) - 1
    return False


def _value(node: ast.expr | None) -> Any:
    match node:
        case None:
            return None
        case ast.Constant(value) if value is None or value is ... or type(value) in (int, bool):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(value)) if type(value) is int:
            return -value
        case ast.Slice(lower, upper, step):
            return slice(_value(lower), _value(upper), _value(step))
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Attribute(ast.Name("np" | "numpy"), "newaxis") | ast.Name("newaxis"):
            return None
        case _:
            raise TypeError
