"""What is known of a shape: ``bf16[17,?]``, ``[17,300]``, ``bf16``, or a whole shape as a claim to be checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from strided.errors import LayoutError, NotationError, UnsupportedError
from strided.layout import UNBOUNDED, AnyShape, Layout, Shape
from strided.layout.element_types import element_type
from strided.layout.index_util import refuse_split
from strided.layout.parser import array_shape, parse_shape

#: Stands for the type that a text leaves out.
_ANY_TYPE = "u8"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a shape; None is unknown.

    Attributes
    ----------
    element_type : str or None
    dimensions : tuple of (int or None), or None
        None instead of a size is ``?``.
    claim : Layout or None
        A layout to be checked.
    """

    element_type: str | None = None
    dimensions: tuple[int | None, ...] | None = None
    claim: Layout | None = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The dimensions, if all of them are known."""
        if self.dimensions is None:
            return None
        known = tuple(n for n in self.dimensions if n is not None)
        return known if len(known) == len(self.dimensions) else None

    def __str__(self) -> str:
        if self.dimensions is None:
            return self.element_type or "nothing but the size"
        sizes = ",".join("?" if n is None else str(n) for n in self.dimensions)
        return f"{self.element_type or ''}[{sizes}]{self.claim or ''}"


def known_of(shape: str | AnyShape | None) -> Known:
    """What a text or a shape says. NotationError for other texts; LayoutError for an array without elements.

    >>> print(known_of("bf16[17,?]"), known_of("[17,300]"), known_of("s4"), known_of("f32[5]{0}"))
    bf16[17,?] [17,300] s4 f32[5]{0}
    """
    if shape is None:
        return Known()
    if not isinstance(shape, str):
        parsed, has_type, has_layout = array_shape(shape), True, True
    else:
        text = shape.strip()
        if re.fullmatch(r"[A-Za-z]\w*", text):
            return Known(_named(text))
        has_type, has_layout = not text.startswith("["), "{" in text
        parsed = _parsed(text, "" if has_type else _ANY_TYPE)
    if parsed.layout is None:
        raise UnsupportedError(f"{parsed} is no array: it has no bytes")
    refuse_split(array_shape(parsed), parsed.layout)
    if 0 in parsed.dimensions:
        raise LayoutError(f"{parsed.text(layout=False)} has no elements, so every layout explains them")
    dimensions = tuple(None if n == UNBOUNDED else n for n in parsed.dimensions)
    return Known(parsed.element_type if has_type else None, dimensions, parsed.layout if has_layout else None)


def _parsed(text: str, missing_type: str) -> Shape:
    """The shape that a text describes, in front of which its type may be missing."""
    try:
        return parse_shape(missing_type + text)
    except NotationError as error:
        if text.startswith("("):
            array_shape(text)  # UnsupportedError for a tuple
        place = None if error.position is None else max(0, error.position - len(missing_type))
        raise NotationError(error.message, text=text, position=place) from None


def _named(name: str) -> str:
    try:
        if element_type(name).is_array:
            return name
        raise UnsupportedError(f"{name} has no values")
    except UnsupportedError as error:
        raise NotationError(str(error), text=name, position=0) from None
