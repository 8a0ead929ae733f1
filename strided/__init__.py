"""Read buffers in any XLA layout as NumPy arrays.

>>> import numpy as np
>>> import strided as sd
>>> raw = np.array([0, 3, 1, 4, 2, 5, -1, -1], np.float32).tobytes()
>>> sd.LayoutArray(raw, "f32[2,3]{0,1:T(2,2)}")
LayoutArray([[0., 1., 2.],
             [3., 4., 5.]], dtype=float32, f32[2,3]{0,1:T(2,2)})

Importing this package loads NumPy and ml_dtypes only. Readers of dumps are loaded when a name of theirs is first used,
the compiled kernels with the first large conversion.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from strided.array import LayoutArray
from strided.array import open_array as open
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
from strided.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from strided.dumps.allocations.assignment import read_allocations
    from strided.dumps.folder.catalogue import open_dump
    from strided.dumps.hlo import read_hlo
    from strided.dumps.literals.snapshot import read_snapshot, write_snapshot
    from strided.dumps.recognise import read_dump
    from strided.dumps.sharding.sharding import Sharding
    from strided.dumps.shards.assemble import assemble, shard
    from strided.export import convert_file, save_npy
    from strided.npy import load_npy

__version__ = "0.1.0"

#: Names whose rooms are loaded on first use.
_LAZY = {
    "Sharding": "strided.dumps.sharding.sharding",
    "assemble": "strided.dumps.shards.assemble",
    "convert_file": "strided.export",
    "load_npy": "strided.npy",
    "open_dump": "strided.dumps.folder.catalogue",
    "read_allocations": "strided.dumps.allocations.assignment",
    "read_dump": "strided.dumps.recognise",
    "read_hlo": "strided.dumps.hlo",
    "read_snapshot": "strided.dumps.literals.snapshot",
    "save_npy": "strided.export",
    "shard": "strided.dumps.shards.assemble",
    "write_snapshot": "strided.dumps.literals.snapshot",
}

__all__ = [
    "COMBINE",
    "UNBOUNDED",
    "BufferShape",
    "BufferSizeError",
    "DumpError",
    "DumpWarning",
    "Layout",
    "LayoutArray",
    "LayoutError",
    "NotationError",
    "NotationWarning",
    "PaddingValue",
    "Shape",
    "Sharding",
    "SplitConfig",
    "StridedError",
    "StridedWarning",
    "Tile",
    "TupleShape",
    "UnsupportedError",
    "assemble",
    "convert_file",
    "get_num_threads",
    "load_npy",
    "open",
    "open_dump",
    "parse",
    "read_allocations",
    "read_dump",
    "read_hlo",
    "read_snapshot",
    "save_npy",
    "set_num_threads",
    "shard",
    "write_snapshot",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'strided' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
