"""How kernels are compiled: without the GIL, for one set of argument types, and kept on disk (`disk_cache`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import numba
import numpy as np
import numpy.ma  # Numba does at the first call, when forks no longer wait
from llvmlite import ir
from numba import types
from numba.core import codegen, compiler, compiler_machinery, lowering, typed_passes, untyped_passes

from strided.kernels import disk_cache
from strided.kernels.disk_cache import DiskCache
from strided.runtime.lazy import lazy

#: Argument types. Arrays that are only read may be read-only.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
WRITABLE = types.Array(types.uint8, 1, "C")
LIST = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
NUMBER = types.int64

#: Zero as a NUMBER: functions given a literal are compiled once more for it.
ZERO = np.int64(0)

# Without NRT nothing counts references. Its atomic increments in inner loops made streaming stores three times slower.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "debug": False}
_SWITCHING = RLock()


@contextmanager
def _compiler_on() -> Iterator[None]:
    """Within this, Numba compiles, and checks no bounds, whatever ``NUMBA_DISABLE_JIT`` and ``NUMBA_BOUNDSCHECK`` say.

    These are meant for the functions of whoever sets them, to follow them with a debugger. Kernels are put together
    from pieces of LLVM: they are nothing without the compiler. And what is kept on disk is the same for all.
    """
    with _SWITCHING:
        before = numba.config.DISABLE_JIT, numba.config.BOUNDSCHECK
        numba.config.DISABLE_JIT, numba.config.BOUNDSCHECK = 0, None
        try:
            yield
        finally:
            numba.config.DISABLE_JIT, numba.config.BOUNDSCHECK = before


def _njit(**options: Any) -> Any:
    decorate = numba.njit(**options, **_OPTIONS)

    def decorated(function: Any) -> Any:
        with _compiler_on():
            return decorate(function)

    return decorated


class _PartLibrary(codegen.JITCodeLibrary):
    """Code that is only linked into kernels: optimised with these, and no machine code by itself.

    That halves the time to compile. Parts raise nothing, so nothing asks for their environments.
    """

    @property
    def codegen(self) -> Any:
        return _NoEnvironments(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def finalize(self) -> None:
        self._finalized = True


class _SeparateLibrary(_PartLibrary):
    """The same for what must not be inlined, whatever LLVM thinks of it."""

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions:
            if not function.is_declaration:
                function.attributes.add("noinline")
        super().add_ir_module(module)


class _KernelLibrary(codegen.JITCodeLibrary):
    """The code of a kernel, into which each part is linked once."""

    def finalize(self) -> None:
        # LLVM leaves out what nothing that is there calls: each comes behind all that may call it.
        self._linking_libraries = [*reversed(_called(self, {}))]
        super().finalize()

    def _finalize_final_module(self) -> None:
        declared = [each.name for each in self._final_module.functions if each.is_declaration]
        left_out = [name for name in declared if name.startswith(("_ZN", "strided_"))]
        if left_out:
            raise RuntimeError(f"not linked: {', '.join(left_out)}")
        super()._finalize_final_module()


def _called(library: Any, found: dict[Any, None]) -> dict[Any, None]:
    """The libraries that one calls, and those that its parts call: each before all that call it."""
    for each in library._linking_libraries:
        if each not in found:
            if isinstance(each, _PartLibrary):
                _called(each, found)
            found[each] = None
    return found


class _NoEnvironments:
    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None: ...


class _Lower(lowering.Lower):
    """Makes LLVM's code of a kernel, and of two functions that call it: with Python's objects, and with a record."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        super().create_cpython_wrapper(release_gil)
        kind = self.context.call_conv.get_function_type(self.fndesc.restype, self.fndesc.argtypes)
        taken = [ir.PointerType] * 2 + [(ir.PointerType, ir.IntType)] * words_of(self.fndesc.argtypes)
        if len(kind.args) != len(taken) or not all(map(isinstance, kind.args, taken)):
            raise RuntimeError(f"this version of Numba hands arguments over in another way: {kind}")
        module = self.library.create_ir_module(self.fndesc.unique_name)
        integer = ir.IntType(64)
        entry = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [integer.as_pointer()]), _name_of_entry(self.fndesc.llvm_func_name)
        )
        builder = ir.IRBuilder(entry.append_basic_block())
        given = [builder.alloca(pointer.pointee) for pointer in kind.args[:2]]
        for k, wanted in enumerate(kind.args[2:]):
            number = builder.load(builder.gep(entry.args[0], [integer(k)]))
            given.append(builder.inttoptr(number, wanted) if isinstance(wanted, ir.PointerType) else number)
        builder.call(ir.Function(module, kind, self.fndesc.llvm_func_name), given)
        builder.ret_void()
        self.library.add_ir_module(module)


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):
    _name = "strided_lowering"

    @property
    def lowering_class(self) -> type[lowering.Lower]:
        return _Lower


def words_of(arguments: Sequence[Any]) -> int:
    """The int64 as which compiled code takes arguments of these types: see `records`."""
    arrays = (kind.ndim for kind in arguments if isinstance(kind, types.Array))
    others = (kind for kind in arguments if not isinstance(kind, types.Array))
    return sum(5 + 2 * ndim for ndim in arrays) + sum(kind.count if hasattr(kind, "count") else 1 for kind in others)


def _name_of_entry(kernel: str) -> str:
    """What the function is called that calls a kernel with the arguments in a record (`records`)."""
    return f"strided_entry.{kernel}"


#: Those of Numba's passes that find something to do. Kernels have no closures, array expressions, exceptions, nothing
#: whose references are counted, ...
_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    _Lowering,
    typed_passes.NoPythonBackend,
)


class _KernelCompiler(compiler.CompilerBase):
    _library: type[codegen.JITCodeLibrary] = _KernelLibrary

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library, *rest)
        self.state.library = self._library(self.state.targetctx.codegen(), "strided")
        self.state.library.enable_object_caching()

    def define_pipelines(self) -> list[Any]:
        manager = compiler.PassManager("strided")
        for each in _PASSES:
            manager.add_pass(each, each.__name__)
        manager.finalize()
        return [manager]


class _PartCompiler(_KernelCompiler):
    _library = _PartLibrary


class _SeparateCompiler(_KernelCompiler):
    _library = _SeparateLibrary


part = _njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_PartCompiler)
"""Decorate a function that kernels are put together from."""

separate = _njit(forceinline=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_SeparateCompiler)
"""The same for one that stays a function of its own: inlined, it would take registers from the loops around it."""


class Kernel:
    """A function that is compiled when first called, or before by `compiled`.

    Attributes
    ----------
    arguments : tuple of Numba types
        What it takes, always the same.
    """

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._dispatcher = _njit(pipeline_class=_KernelCompiler)(function)
        self._sources = disk_cache.hash_of_sources(function.__module__)
        self._lock = RLock()  # a signal's handler may come while `entry` has it

    @lazy
    def compiled(self) -> Any:
        """The machine code, as a function of the same arguments."""
        return self.compile()

    def compile(self, folders: Sequence[Path] | None = None, code: bytes = b"") -> Any:
        """The machine code, as it was handed over or from the folders of the cache, else compiled and kept there."""
        with self._lock, _compiler_on():
            if not self._dispatcher.signatures:
                self._dispatcher._cache = self._cache(folders, code)
                self._dispatcher.compile(self.arguments)
                self._dispatcher.disable_compile()
        return self._dispatcher

    def code(self, folders: Sequence[Path]) -> bytes:
        """The machine code for `compile` in another process; nothing if it was in a folder, where that one looks."""
        made: bytes = self.compile(folders)._cache.made
        return made

    @lazy
    def entry(self) -> tuple[int, int]:
        """The address of a C function that takes the address of the arguments, and the int64 that these are."""
        (overload,) = self.compiled.overloads.values()
        found: int = overload.library.get_pointer_to_function(_name_of_entry(overload.fndesc.llvm_func_name))
        if not found:
            raise RuntimeError(f"{self.__name__} has no entry for records")
        return found, words_of(self.arguments)

    def is_on_disk(self) -> bool:
        """Whether there is machine code for `compile` to take."""
        return self._cache(None).holds(self._dispatcher.targetctx)

    def folder(self) -> Path | None:
        """Where its machine code can be kept, or None."""
        return disk_cache.writable_folder()

    def _cache(self, folders: Sequence[Path] | None, code: bytes = b"") -> DiskCache:
        found = disk_cache.folders() if folders is None else folders
        return DiskCache(self.__name__, self._sources, self.arguments, found, code)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


def kernel(*arguments: Any) -> Any:
    """Decorate a kernel that takes arguments of these types."""
    return lambda function: Kernel(function, arguments)
