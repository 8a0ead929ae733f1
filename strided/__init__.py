"""Read buffers in any XLA layout as NumPy arrays.

>>> import numpy as np
>>> import strided as sd
>>> raw = np.array([0, 3, 1, 4, 2, 5, -1, -1], np.float32).tobytes()
>>> sd.LayoutArray(raw, "f32[2,3]{0,1:T(2,2)}")
LayoutArray([[0., 1., 2.],
             [3., 4., 5.]], dtype=float32, f32[2,3]{0,1:T(2,2)})

`open` maps a file, `LayoutArray` wraps a buffer, `parse` reads the text of a shape, and `open_dump` opens a folder of
XLA's dumps. `strided.inspect` answers questions about layouts, `strided.tpu` knows which ones the TPU compiler chooses,
`strided.errors` lists what may be raised, and `strided.interop` hands arrays to dask, JAX, torch and Numba.

Importing this package loads only NumPy and ml_dtypes. Readers of dumps, `strided.inspect` and `strided.tpu` are loaded
when they are first used, compiled kernels with the first large conversion.
"""

from __future__ import annotations

from strided.runtime import command_start as _command_start  # isort: split

import importlib
import sys
from typing import TYPE_CHECKING, Any

from strided.runtime.missing import advising as _advising

with _advising("strided"):
    for _library in ("numpy", "ml_dtypes"):  # all below needs both
        importlib.import_module(_library)

from strided import errors
from strided.arrays.layout_array import LayoutArray
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
from strided.interop import register as _register_partners
from strided.layout import COMBINE, UNBOUNDED, BufferShape, Layout, PaddingValue, Shape, SplitConfig, Tile, TupleShape
from strided.layout.parser import parse, parse_layout, parse_shape
from strided.opening import open_array as open
from strided.runtime.notebook import RENDERERS
from strided.runtime.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from strided import inspect, testing, tpu
    from strided.diagnosis.difference import diff
    from strided.dumps.buffer_assignment.assignment import read_allocations
    from strided.dumps.detect import read_dump
    from strided.dumps.directory.dump import open_dump
    from strided.dumps.hlo import read_hlo
    from strided.dumps.sharded.assemble import assemble, shard
    from strided.dumps.sharding.sharding import Sharding
    from strided.dumps.snapshots.snapshot import read_snapshot
    from strided.dumps.snapshots.writer import write_snapshot
    from strided.explorer import explore
    from strided.io.convert_file import convert_file, save_npy, save_safetensors
    from strided.io.npy import load_npy
    from strided.memory.copies import layout_copies
    from strided.memory.memory_report import memory_report

_register_partners()
RENDERERS.update(
    Shape=("strided.inspect.html", "shape_as_html"),
    BufferShape=("strided.inspect.html", "shape_as_html"),
    TupleShape=("strided.inspect.html", "tuple_as_html"),
    Layout=("strided.inspect.html", "layout_as_html"),
)

__version__ = "0.1.0"

#: Packages and names that are loaded when they are first used.
_LAZY_PACKAGES = ("inspect", "testing", "tpu")
_LAZY = {
    "Sharding": "strided.dumps.sharding.sharding",
    "assemble": "strided.dumps.sharded.assemble",
    "convert_file": "strided.io.convert_file",
    "layout_copies": "strided.memory.copies",
    "diff": "strided.diagnosis.difference",
    "explore": "strided.explorer",
    "load_npy": "strided.io.npy",
    "memory_report": "strided.memory.memory_report",
    "open_dump": "strided.dumps.directory.dump",
    "read_allocations": "strided.dumps.buffer_assignment.assignment",
    "read_dump": "strided.dumps.detect",
    "read_hlo": "strided.dumps.hlo",
    "read_snapshot": "strided.dumps.snapshots.snapshot",
    "save_npy": "strided.io.convert_file",
    "save_safetensors": "strided.io.convert_file",
    "shard": "strided.dumps.sharded.assemble",
    "write_snapshot": "strided.dumps.snapshots.writer",
}

#: What other libraries call things, and what to use here instead.
_WRAP = "LayoutArray(buffer, shape) wraps bytes, LayoutArray.from_numpy(values, layout) makes a buffer of values"
_OPEN = "open(path, shape) opens raw bytes, open(path) a .npy or .safetensors file, open_dump(folder) XLA's dumps"
_INSTEAD = {
    "array": _WRAP, "asarray": _WRAP, "ndarray": _WRAP, "frombuffer": _WRAP, "from_numpy": _WRAP, "from_dlpack": _WRAP,
    "load": _OPEN, "fromfile": _OPEN, "memmap": _OPEN, "read": _OPEN,
    "save": "save_npy(path, array) writes a .npy file, save_safetensors(path, arrays) several arrays",
}  # fmt: skip

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
    "diff",
    "errors",
    "explore",
    "get_num_threads",
    "inspect",
    "layout_copies",
    "load_npy",
    "memory_report",
    "open",
    "open_dump",
    "parse",
    "parse_layout",
    "parse_shape",
    "read_allocations",
    "read_dump",
    "read_hlo",
    "read_snapshot",
    "save_npy",
    "save_safetensors",
    "set_num_threads",
    "shard",
    "testing",
    "tpu",
    "write_snapshot",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY_PACKAGES:
        return importlib.import_module(f"strided.{name}")
    if name not in _LAZY:
        advice = f"; strided.{_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(
            f"module 'strided' has no attribute {name!r}{advice}", name=name, obj=sys.modules[__name__]
        )
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


_command_start.done()
