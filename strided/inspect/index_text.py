"""Parse a NumPy index written as text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from strided.errors import NotationError

_EXPECTED = "expected integers, slices, '...', None or lists of integers, as between NumPy's brackets"
#: Text that no index has, and of which Python would warn: strings, and numbers directly followed by letters.
_NOT_IN_INDEX = re.compile(r"""["']|\b(?!(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9_]+)\b)[0-9]""")


def parse_index(text: str) -> Any:
    """Parse what stands between NumPy's brackets. Brackets inside make a list: "[1, 2]" is rows 1 and 2.

    NumPy's own brackets may be included where they cannot be a list's: around slices, ``...`` and ``None``.

    Parameters
    ----------
    text : str
        As in ``"9, 200:204"``.

    Returns
    -------
    int, bool, slice, None, ..., list or tuple
        A key for `LayoutArray` and ndarray.

    Raises
    ------
    TypeError
        `text` is not a string.
    NotationError
        Anything but integers, truth values, slices, ``...``, ``None`` and lists of integers or truth values; an integer
        of more than 64 bits.

    >>> parse_index("9, 200:204"), parse_index("[..., -1]"), parse_index("[0, 2]"), parse_index("0, 2")
    ((9, slice(200, 204, None)), (Ellipsis, -1), [0, 2], (0, 2))
    """
    if not isinstance(text, str):
        raise TypeError(f"expected the text of an index, as in '9, 200:204', not {type(text).__name__}")
    stripped = text.strip()
    if not stripped:
        return ()
    for source in () if _NOT_IN_INDEX.search(text) else (f"[{stripped}]", stripped if stripped.startswith("[") else ""):
        try:
            tree = ast.parse(f"_{source}", mode="eval").body
            if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
                key = _value(tree.slice)
                break
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            pass
    else:
        raise NotationError(_EXPECTED, text=text, position=0)
    if (number := next(_too_large(key), None)) is not None:
        shown = str(number) if number.bit_length() < 256 else "this"  # Python refuses to print very long integers
        words = f"{shown} is an index of no array: it does not fit a signed 64-bit integer"
        raise NotationError(words, text=text, position=max(0, text.find(shown)))
    return key


def _too_large(key: Any) -> Iterator[int]:
    """The integers of a key that are too large for NumPy; those of slices may have any size."""
    for each in key if isinstance(key, (tuple, list)) else (key,):
        if isinstance(each, list):
            yield from _too_large(each)
        elif type(each) is int and not -(2**63) <= each < 2**63:
            yield each


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
            return [_entry(item) for item in items]
        case ast.Attribute(ast.Name("np" | "numpy"), "newaxis") | ast.Name("newaxis"):
            return None
        case _:
            raise TypeError


def _entry(node: ast.expr) -> Any:
    """The value of an entry of a list: an integer, a bool, or a list of them."""
    value = _value(node)
    if not isinstance(value, (int, list)):
        raise TypeError
    return value
