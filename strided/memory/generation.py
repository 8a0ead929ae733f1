"""Which TPUs a program was compiled for, as far as its layouts tell."""

from __future__ import annotations

from collections.abc import Iterable

from strided.errors import StridedError
from strided.layout import Shape
from strided.memory.buffers import Buffer
from strided.tpu.default_layout import default_layout


def generation_of(buffers: Iterable[Buffer]) -> str:
    """The one whose tiles more of the vectors and scalars have: "v2", as v3, or "v5e", as all from v4 on.

    In layouts of higher rank the compiler chooses tiles by use too.
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
