"""Everything that Numba compiles, and the only place that knows Numba.

Importing this package loads nothing: `load` imports the module of a kernel when one is first wanted, which takes about
0.2 s, and Numba compiles the kernel, or finds it in its cache on disk.

Kernels take flat arrays of bytes, integers and tables of integers. They decide nothing, allocate nothing, raise
nothing and release the GIL.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

_HOMES = {
    "loop_nest": ("nest8", "nest16", "nest32", "nest64", "nest_bits"),
    "gather_scatter": ("gather", "scatter", "add_digits", "gather_points", "gather_sums"),
    "interleave": ("rows", "deinterleave16", "deinterleave8", "interleave16", "interleave8"),
    "subbyte": ("deinterleave_bits", "interleave_bits", "unpack", "pack"),
    "transpose": ("transpose8", "transpose16", "transpose32", "transpose64"),
    "transpose_runs": ("transpose_runs",),
    "contiguous": ("copy", "fill"),
    "varint": ("decode_varints32", "decode_varints64", "encode_varints"),
}
#: The module of every kernel.
HOMES = {name: module for module, names in _HOMES.items() for name in names}

#: Bytes of scratch memory that a kernel takes at most; each thread hands in its own.
SCRATCH_BYTES = 1 << 18
#: Bytes of a target's row up to which transpositions put rows that follow each other together before they write them.
SHORT_ROW_BYTES = 1 << 10
#: Kinds of steps that `gather_points` takes.
CHECK, SPLIT, DIVIDE, SHIFT = range(4)


@cache
def load(name: str) -> Callable[..., Any]:
    """The kernel of this name, compiled: calling it costs no more than Numba's own dispatch."""
    kernel = getattr(importlib.import_module(f"strided.kernels.{HOMES[name]}"), name)
    compiled: Callable[..., Any] = kernel.compiled
    return compiled


def is_loaded() -> bool:
    """Whether this process has loaded Numba, so that no kernel waits for that."""
    return "strided.kernels.compile" in sys.modules
