"""Layouts and shapes: frozen values that check and print themselves.

XLA's words. A *layout* says in which order the dimensions of an array lie in memory (`minor_to_major`, the fastest
varying first), into which tiles they are cut, how many bits an element takes, and in which memory the buffer is. A
*shape* is an element type, dimensions and a layout. JAX lists dimensions the other way round (``major_to_minor``); here
it is always minor to major.

Values validate themselves by XLA's own rules (``LayoutUtil::ValidateLayoutForShape``, ``ShapeUtil::ValidateShape``),
and ``str()`` gives XLA's canonical text.
"""

from __future__ import annotations

from strided.addressing.tiling import COMBINE
from strided.layout.layout import MEMORY_SPACES, Layout, PaddingValue, SplitConfig, Tile
from strided.layout.shape import UNBOUNDED, Shape
from strided.layout.tuples import AnyShape, BufferShape, TupleShape
from strided.layout.validation import FieldError

__all__ = [
    "COMBINE",
    "MEMORY_SPACES",
    "UNBOUNDED",
    "AnyShape",
    "BufferShape",
    "FieldError",
    "Layout",
    "PaddingValue",
    "Shape",
    "SplitConfig",
    "Tile",
    "TupleShape",
]
