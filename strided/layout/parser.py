"""Parser for XLA's text of shapes and layouts.

The grammar (white space and comments, ``/* */`` and ``//``, may stand between any two tokens)::

    shape      = array | tuple | buffer
    array      = type "[" [size {"," size}] "]" [layout]
    size       = int | "<=" int | "?"
    tuple      = "(" [shape {"," shape}] ")"
    buffer     = "b" "(" array ")"
    layout     = see `layout_text`

Text in this grammar with valid values (see `layout`) is accepted exactly as by XLA. Slips, which are errors that XLA
does not notice, are read as XLA reads them, with a `NotationWarning`; ``strict=True`` refuses them. `parse` does not
recurse and takes linear time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from strided.addressing.address_map import MAX_NDIM
from strided.errors import LayoutError, NotationError, NotationWarning, UnsupportedError, excerpt, warn
from strided.layout import UNBOUNDED, AnyShape, BufferShape, FieldError, Layout, Shape, TupleShape
from strided.layout.element_types import ELEMENT_TYPES, element_types_meant
from strided.layout.layout import order_in_space
from strided.layout.layout_text import layout_fields
from strided.layout.lexer import Lexer
from strided.layout.tuples import unbuffered
from strided.layout.validation import INT64_MAX, check_order
from strided.wording import did_you_mean

#: XLA's own limit on nested shapes.
_MAX_DEPTH = 32768
#: The most characters of a text that is cached.
_CACHED_LENGTH = 1024

#: An array whose end can be found without parsing it, as is nearly always possible. ``(?!)`` is needed before Python
#: 3.11.5, which otherwise continues behind braces that do not match.
_ARRAY = re.compile(r"[a-z][a-z0-9]*+\[[0-9,<=?]*+\](?:\{[^{}/\0]*+\}|(?!))?+(?!\s*+[{/])")

_SHAPE_LIKE = re.compile(r"\s*(\{|\(?\s*(?:(?:torch|np|numpy|jnp)\.)?[A-Za-z]\w*\[)")

_T = TypeVar("_T")


def parse(text: str, *, strict: bool = False) -> AnyShape | Layout:
    """The shape or layout that XLA's text describes.

    Parameters
    ----------
    text : str
        A shape (``"f32[3,5]{1,0:T(8,128)}"``), a tuple of shapes, or a layout alone (``"{1,0:T(8,128)}"``).
    strict : bool, optional
        Refuse malformed text that XLA accepts. By default it is read as XLA reads it, with a NotationWarning.

    Returns
    -------
    Shape, TupleShape, BufferShape or Layout

    Raises
    ------
    NotationError
        Any other text. The error shows the position and what was expected.
    TypeError
        `text` is not a string.

    Examples
    --------
    >>> parse("bf16[3,5]{1,0:T(8,128)(2,1)}").byte_size
    2048
    >>> str(parse("(f32[2], s32[])"))
    '(f32[2]{0}, s32[])'
    >>> parse("{0,1}").minor_to_major
    (0, 1)
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text such as 'f32[3,5]', not {type(text).__name__}")
    found, slip = (_read if len(text) > _CACHED_LENGTH else _read_cached)(text)
    if slip is not None:
        message, position = slip
        if strict:
            raise NotationError(message, text=text, position=position)
        _warn(text, message, position)
    return found


def parse_shape(text: str, *, strict: bool = False) -> Shape:
    """The shape of one array, from XLA's text.

    Parameters
    ----------
    text : str
        A shape; row-major if the text has no layout.
    strict : bool, optional
        As for `parse`.

    Raises
    ------
    NotationError
        Any other text, also tuples, buffers and layouts alone.
    TypeError
        `text` is not a string.

    >>> parse_shape("bf16[3,5]{1,0:T(8,128)(2,1)}").byte_size
    2048
    """
    return _of_kind(Shape, "the shape of one array", text, strict)


def parse_layout(text: str, *, strict: bool = False) -> Layout:
    """A layout alone, from XLA's text.

    Parameters
    ----------
    text : str
        A layout with its braces: ``"{0,1:T(8,128)}"``.
    strict : bool, optional
        As for `parse`.

    Raises
    ------
    NotationError
        Any other text, also shapes.
    TypeError
        `text` is not a string.

    >>> parse_layout("{0,1:T(8,128)}").minor_to_major
    (0, 1)
    """
    return _of_kind(Layout, "a layout alone", text, strict)


def is_shape(text: str) -> bool:
    """Whether a text looks like a shape or layout, valid or not. Indices and usual file names do not.

    >>> is_shape("f32[3,,5]"), is_shape("x.npy"), is_shape("[0, 1]")
    (True, False, False)
    """
    return _SHAPE_LIKE.match(text) is not None


def layout_of(layout: str | Layout) -> Layout:
    """A layout from text or a value. Errors as for `parse_layout`."""
    return parse_layout(layout) if isinstance(layout, str) else layout


def _of_kind(kind: type[_T], expected: str, text: str, strict: bool) -> _T:
    found = parse(text, strict=strict)
    if not isinstance(found, kind):
        raise NotationError(f"expected {expected}", text=text, position=0)
    return found


def _read(text: str) -> tuple[AnyShape | Layout, tuple[str, int] | None]:
    """The shape or layout in a text, and the first slip or None."""
    lexer = Lexer(text)
    found: AnyShape | Layout
    if lexer.token == "{":
        places = {"": lexer.start}
        found = _built(lexer, places, lambda: Layout(**layout_fields(lexer, places)))
    else:
        found = _shape(lexer)
    if lexer.token:
        lexer.fail("expected the end of the text")
    return found, lexer.slips[0] if lexer.slips else None


#: Conversions to a layout given as text parse the same few texts again and again.
_read_cached = lru_cache(maxsize=1024)(_read)


def _warn(text: str, message: str, position: int) -> None:
    warn(f"{message}; read as XLA reads it{excerpt(text, position)}", NotationWarning)


def parse_prefix(text: str, pos: int = 0, *, lenient: bool = False) -> tuple[AnyShape, int]:
    """The shape at ``text[pos]``, after white space, and where it ends.

    With `lenient` there are no warnings for slips. Raises NotationError as `parse` does.

    >>> shape, end = parse_prefix("%a = f32[2]{0} add(%b, %c)", 5)
    >>> str(shape), end
    ('f32[2]{0}', 14)
    """
    lexer = Lexer(text, pos)
    found = _shape(lexer)
    if lexer.slips and not lenient:
        _warn(text, *lexer.slips[0])
    return found, lexer.end


# --- shapes -----------------------------------------------------------------------------------------------------------


def _shape(lexer: Lexer) -> AnyShape:
    """Any shape. Not recursive: tuples may nest deeper than Python's recursion limit."""
    stack: list[list[AnyShape]] = []
    while True:
        if lexer.token == "(":
            if len(stack) == _MAX_DEPTH:
                lexer.fail(f"tuples nest deeper than {_MAX_DEPTH}", lexer.start)
            lexer.advance()
            stack.append([])
            if lexer.token != ")":
                continue
        else:
            found = _array_or_buffer(lexer)
            if not stack:
                return found
            stack[-1].append(found)
            if lexer.take(","):
                continue
        while stack:
            lexer.expect(")", "')' or ',' in a tuple")
            done = TupleShape(stack.pop())
            if not stack:
                return done
            stack[-1].append(done)
            if lexer.take(","):
                break


def _array_or_buffer(lexer: Lexer) -> AnyShape:
    if lexer.token == "b" and lexer.peek() == "(":
        lexer.advance()
        lexer.advance()
        start = lexer.start
        if lexer.token in ("(", "b"):
            lexer.fail("a buffer holds one array", start)
        inner = _array(lexer)
        if inner.layout is None:
            lexer.fail("a buffer holds one array", start)
        lexer.expect(")", "')' after the array of a buffer")
        return BufferShape(inner)
    plain = _ARRAY.match(lexer.text, lexer.start)
    if plain and len(plain[0]) <= _CACHED_LENGTH and (cached := _array_cached(plain[0])) is not None:
        lexer.go_to(plain.end())
        return cached
    return _array(lexer)


@lru_cache(maxsize=4096)
def _array_cached(text: str) -> Shape | None:
    """The shape of an array, or None for an error or slip. Cached because long tuples repeat few shapes."""
    lexer = Lexer(text)
    try:
        found = _array(lexer)
    except NotationError:
        return None
    return None if lexer.token or lexer.slips else found


def _array(lexer: Lexer) -> Shape:
    places = {"": lexer.start}
    if lexer.token not in ELEMENT_TYPES:
        question = did_you_mean(element_types_meant(lexer.token))
        lexer.fail(f"expected an element type{f' ({question})' * bool(question)}")
    name = lexer.advance()
    places["dimensions"] = lexer.start
    sizes, dynamic = _sizes(lexer)
    layout: dict[str, Any] | None = None
    if lexer.token == "{":
        following = lexer.peek()
        if following == ":" or following.lstrip("-").isdigit():
            places["layout"] = lexer.start
            layout = layout_fields(lexer, places)

    def build() -> Shape:
        if layout is not None and not ELEMENT_TYPES[name].is_array:
            raise FieldError("layout", f"{name}[] has no layout")
        if layout is not None:
            layout["minor_to_major"] = order_in_space(
                layout["minor_to_major"], len(sizes), layout.get("memory_space", 0)
            )
            check_order(layout["minor_to_major"], len(sizes))  # a clearer error than that of Layout
        return Shape(name, sizes, None if layout is None else Layout(**layout), dynamic=dynamic)

    return _built(lexer, places, build)


def _built(lexer: Lexer, places: dict[str, int], build: Callable[[], _T]) -> _T:
    """Call `build` and return its value; a LayoutError becomes a NotationError at the position of its field."""
    try:
        return build()
    except LayoutError as error:
        field = error.field if isinstance(error, FieldError) else ""
        lexer.fail(str(error), places.get(field, places[""]))


def _sizes(lexer: Lexer) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    lexer.expect("[", "'[' after the element type")
    if plain := lexer.plain_integers():
        sizes = [(size, False) for size in plain]
    else:
        sizes = [] if lexer.token == "]" else lexer.listed(lambda: _size(lexer))
    lexer.expect("]", "']' or ',' after a dimension size")
    return tuple(size for size, _ in sizes), tuple(dynamic for _, dynamic in sizes)


def _size(lexer: Lexer) -> tuple[int, bool]:
    """The size of a dimension, and whether it is dynamic."""
    start = lexer.start
    if lexer.take("?"):
        return UNBOUNDED, True
    dynamic = lexer.take("<=")
    size = lexer.required_integer("the bound of a dimension" if dynamic else "a dimension size")
    if size < 0 and not (dynamic and size == UNBOUNDED):
        lexer.fail(f"the size of a dimension is 0 or more, not {size}", start)
    return size, dynamic


def any_shape(shape: str | AnyShape) -> AnyShape:
    """A shape from text or a value.

    NotationError for text that is not a shape, LayoutError for a layout alone, TypeError for anything else.
    """
    found = parse(shape) if isinstance(shape, str) else shape
    if isinstance(found, Layout):
        raise LayoutError(f"{found} is a layout alone; write the shape with it, as in 'f32[3,5]{found}'")
    if not isinstance(found, (Shape, BufferShape, TupleShape)):
        raise TypeError(_not_a_shape(shape))
    return found


def array_shape(shape: str | AnyShape) -> Shape:
    """The shape of one array that NumPy can represent, from text or a value.

    Errors as for `any_shape`; also UnsupportedError for a shape that is not that of one array, or that has more or
    larger dimensions than NumPy allows.
    """
    found = single_shape(shape)
    if found.rank > MAX_NDIM:
        raise UnsupportedError(f"an array of {found.rank} dimensions: NumPy allows {MAX_NDIM} at most")
    # Shape has checked that the bytes fit 64 bits. NumPy's check leaves out sizes of 0: do the same.
    if 0 in found.dimensions and math.prod(n for n in found.dimensions if n > 0) * found.dtype.itemsize > INT64_MAX:
        raise UnsupportedError(f"{found.text(layout=False)}: NumPy has no array of such sizes, not even an empty one")
    return found


def single_shape(shape: str | AnyShape) -> Shape:
    """The shape of one array of any rank; errors as for `array_shape`."""
    parsed: Shape | TupleShape = unbuffered(any_shape(shape))
    if isinstance(parsed, TupleShape):
        raise UnsupportedError(f"{parsed} is a tuple: every element has a buffer of its own, wrap them one by one")
    if parsed.layout is None:
        raise UnsupportedError(f"{parsed} holds no values")
    return parsed


def _not_a_shape(found: object) -> str:
    advice = "write it with its element type, as in 'f32[3,5]'"
    if isinstance(found, (bytes, bytearray, memoryview)) or isinstance(getattr(found, "__array_interface__", 0), dict):
        advice = "the buffer comes first, then its shape"
    return f"shape must be text or a Shape, not {type(found).__name__}; {advice}"
