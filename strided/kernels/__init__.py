"""Everything that Numba compiles, and the only place that knows Numba.

Importing this package loads nothing: `load` imports the module of a kernel when one is first wanted, which takes about
0.2 s, and Numba compiles the kernel, or finds it in its cache on disk, when it is first called.

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
    "nest": "general",
    "nest_bits": "general",
    "gather": "general",
    "scatter": "general",
}


@cache
def load(name: str) -> Callable[..., Any]:
    """The kernel of this name."""
    kernel: Callable[..., Any] = getattr(importlib.import_module(f"strided.kernels.{_HOMES[name]}"), name)
    return kernel


def is_loaded() -> bool:
    """Whether this process has Numba loaded, so that a kernel costs no wait for it."""
    return "strided.kernels.general" in sys.modules
