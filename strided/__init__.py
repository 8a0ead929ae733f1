"""Read buffers in any XLA layout as NumPy arrays.

>>> import strided as sd
"""

from __future__ import annotations

from strided.errors import (
    BufferSizeError,
    DumpError,
    DumpWarning,
    LayoutError,
    NotationError,
    NotationWarning,
    StridedError,
    StridedWarning,
    UnsupportedError,
)
from strided.layout import (
    COMBINE,
    UNBOUNDED,
    BufferShape,
    Layout,
    PaddingValue,
    Shape,
    SplitConfig,
    Tile,
    TupleShape,
)
from strided.notation import parse
