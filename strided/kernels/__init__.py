"""Everything that Numba compiles, and the only place that knows Numba.

Importing this package loads nothing. `load` imports the module of a kernel, and with it Numba, which takes half a
second, and takes the kernel from disk or compiles it. `wanted` does not wait: it has that done in the background,
while NumPy does the work.

Kernels take flat arrays of bytes, integers and tables of integers. They decide nothing but which of several
ways with the same result they go, allocate nothing, raise nothing and release the GIL. docs/maintainers.md says which
module does what, and what kernels may touch.
"""

from __future__ import annotations

import atexit
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from strided.errors import StridedWarning, warn
from strided.kernels import background
from strided.runtime import limits
from strided.runtime.locks import at_fork

_HOMES = {
    "run_tasks": ("run_tasks",),
    "loop_nest": ("nest8", "nest16", "nest32", "nest64", "nest_bits"),
    "gather_scatter": ("gather", "scatter", "add_digits", "gather_points", "gather_sums"),
    "interleave": ("rows", "deinterleave16", "deinterleave8", "interleave16", "interleave8"),
    "exchange_rows": ("exchange16", "exchange8", "exchange4", "exchange2", "exchange1"),
    "short_rows": ("short_rows",),
    "interleave_bits": ("deinterleave_bits", "interleave_bits"),
    "packed_runs": ("unpack", "pack"),
    "packed_words": ("pack_words",),
    "transpose": ("transpose8", "transpose16", "transpose32", "transpose64", "transpose_pairs"),
    "transpose_words": (
        "transpose_words16",
        "transpose_words8",
        "transpose_words4",
        "transpose_words2",
        "transpose_words1",
    ),
    "transpose_few": ("transpose_few8", "transpose_few16", "transpose_few32", "transpose_few64"),
    "transpose_runs": ("transpose_runs",),
    "transpose_cut": ("transpose_cut32",),
    "contiguous": ("copy", "fill"),
    "varint": ("decode_varints32", "decode_varints64", "encode_varints"),
}
#: The module of every kernel.
HOMES = {name: module for module, names in _HOMES.items() for name in names}

#: Bytes of scratch memory that a kernel takes at most; each thread hands in its own.
SCRATCH_BYTES = 3 << 17
#: Bytes of a target's row up to which transpositions put rows that follow each other together before they write them.
SHORT_ROW_BYTES = 1 << 10
#: Kinds of steps that `gather_points` takes.
CHECK, SPLIT, DIVIDE, SHIFT, FETCH = range(5)
#: Elements that it locates before it takes any of them, and those that one FETCH asks for.
POINTS, FETCHED = 128, 16
#: Bytes of a source up to which it is in the cache of a core, as blocks of staged copies are, with an eighth for lines
#: between their rows: nothing is asked for.
NEAR = 9 << 17
#: Bytes of a source above which it may lie beyond all caches, so that single elements, and rows of blocks of staged
#: copies, are asked for before they are taken.
CACHED = 1 << 23


_loaded: dict[str, Callable[..., Any]] = {}


class NotCompiled(Exception):
    """A kernel is wanted that is still being compiled; `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def load(name: str, code: bytes = b"") -> Callable[..., Any]:
    """The kernel of this name, compiled: calling it costs no more than Numba's own dispatch.

    It is the code that another process made, if that is given, or is loaded from disk, or compiled here.

    Raises
    ------
    MemoryError
        So little address space is left that LLVM might end the process.
    """
    kernel = _loaded.get(name)
    if kernel is None:
        with background.undisturbed():
            own = kernel_of(name)
            background.refuse_to_crash(lambda: bool(code) or own.is_on_disk())
            kernel = _loaded[name] = own.compile(code=code)
    return kernel


def wanted(name: str) -> Callable[..., Any]:
    """The kernel of this name, if it is ready, or if limits say to wait for it.

    Raises
    ------
    NotCompiled
        It is not, but is being compiled in the background.
    """
    if is_ready(name):
        return load(name)
    raise NotCompiled(name)


def entries_of(names: Sequence[str]) -> list[tuple[int, int]]:
    """The addresses at which `run_tasks` calls kernels with records of their arguments, and the int64 that these are.

    Raises
    ------
    NotCompiled
        One of them, or `run_tasks`, is not ready. All are being compiled.
    """
    missing = [name for name in ("run_tasks", *names) if not is_ready(name)]
    if missing:
        raise NotCompiled(missing[0])
    for name in names:
        load(name)
    return [kernel_of(name).entry for name in names]


def is_ready(name: str) -> bool:
    """Whether `load` takes no time, or is to be waited for; else it is compiled in the background from now on."""
    if name in _loaded:
        return True
    if limits.current.compile_first:
        # A finalizer or a signal's handler may convert in the thread that loads one: it cannot wait for itself.
        return not background.is_loading()
    if (error := _compiler.failed.pop(name, None)) is not None:
        warn(
            f"kernels cannot be compiled, so NumPy converts instead, several times as slowly: {error!r}", StridedWarning
        )
    _compiler.ask(name)
    return name in _loaded


def kernel_of(name: str) -> Any:
    """The kernel of this name, perhaps not compiled. MemoryError where Numba finds too little to be imported."""
    with background.undisturbed():  # two threads that import Numba may each find half of it
        if not is_loaded():
            background.refuse_to_load()
        return getattr(importlib.import_module(f"strided.kernels.{HOMES[name]}"), name)


def loaded() -> tuple[str, ...]:
    """The names of the kernels that are ready, sorted."""
    return tuple(sorted(_loaded))


def is_loaded() -> bool:
    """Whether this process has loaded Numba, so that no kernel waits for that."""
    return "strided.kernels.compile" in sys.modules


_compiler = background.Compiler(load)
atexit.register(lambda: _compiler.close())


def _forget_compiler() -> None:
    """In a forked child: the thread and the process belong to the parent."""
    global _compiler
    _compiler.leave_to_parent()
    _compiler = background.Compiler(load)


at_fork(after_in_child=_forget_compiler)
