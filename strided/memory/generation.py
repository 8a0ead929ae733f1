"""Infers from the layouts for which TPU generation a program was compiled."""

from __future__ import annotations

from collections.abc import Iterable

from strided.errors import StridedError
from strided.layout import Shape
from strided.memory.buffers import Buffer
from strided.tpu.default_layout import default_layout


def generation_of(buffers: Iterable[Buffer]) -> str:
    """The generation whose default tiles most vectors and scalars have: "v2" (as v3) or "v5e" (as all from v4 on).

    Arrays of higher rank are ignored, because the compiler also chooses their tiles by use.
    """
    votes = 0
    for buffer in buffers:
        shape = buffer.tiled_shape
        if shape is not None and shape.rank < 2:
            votes += _has_tiles_of(shape, "v2") - _has_tiles_of(shape, "v5e")
    return "v2" if votes > 0 else "v5e"


def _has_tiles_of(shape: Shape, generation: str) -> bool:
    try:
        return shape.layout is not None and shape.layout.tiles == default_layout(shape, generation).tiles
    except StridedError:
        return False
