"""Compiled kernels on disk, one file each, under a name that says all that its code depends on.

The name has the hash of the sources that a kernel is put together from, of the versions of Python, Numba and llvmlite,
of the level to which they optimise, and of the CPU. So code of another state is never found, an upgrade that leaves
these sources alone finds what is there, and several versions and CPUs may share a folder. Sources are read when they
are imported: code of what this process runs must not get the name of what a later upgrade put there. A file is there
whole or not at all, behind a hash of its code.

`NUMBA_CACHE_DIR` names the folder; else it is ``__pycache__`` beside the sources, or the user's cache folder where that
one cannot be written. Code is looked for in both.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import pickle
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.misc.appdirs import AppDirs

from strided.kernels.compile_process import saving
from strided.kernels.llvm import tuned_cpu

SWITCH = "STRIDED_CACHE"
"""Environment variable that turns the cache off where it is ``0``."""

#: Files of one kernel that are kept, those used last: code of other versions and CPUs.
_MOST_KEPT = 16
#: Of the hash in front of the code.
_DIGEST_BYTES = 32
_PACKAGE = __name__.rpartition(".")[0]


class DiskCache:
    """What Numba's dispatchers ask for compiled code, in place of Numba's own cache.

    Another process may have handed it over. Anything wrong with it, a file or a folder is a miss.

    Attributes
    ----------
    made : bytes
        The code to hand over, if it was compiled here.
    """

    def __init__(
        self, kernel: str, sources: bytes, arguments: tuple[Any, ...], folders: Sequence[Path], code: bytes = b""
    ) -> None:
        self._kernel, self._sources, self._arguments, self._folders = kernel, sources, arguments, folders
        self._code, self.made = code, b""
        self.cache_path = folders  # Numba's statistics show it

    def holds(self, context: Any) -> bool:
        """Whether there is a file of the code."""
        state = self._state(context)
        return any(_whole(_read(path), state) for path in self._files(state))

    def load_overload(self, _: Any, context: Any) -> Any:
        """The code, ready to run, or None."""
        context.refresh()
        code, self._code = self._code, b""
        state = self._state(context)
        with suppress(Exception):  # whatever an empty one may raise as it is unpickled
            return _rebuilt(context, _whole(code, state))
        for path in self._files(state):
            with suppress(Exception):
                found = _rebuilt(context, _whole(_read(path), state))
                with suppress(OSError):  # another user's
                    os.utime(path)
                return found
        return None

    def save_overload(self, _: Any, compiled: Any) -> None:
        """Keep code in the first folder that can be written."""
        try:
            code = serialize.dumps(compiled._reduce())
        except RuntimeError:  # no code: Ctrl-C came while LLVM called back, and exceptions get lost there
            raise KeyboardInterrupt from None
        state = self._state(compiled.target_context)
        self.made = _digest(code, state) + code
        for path in self._files(state):
            with suppress(OSError), saving:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, self.made)
                with suppress(OSError):  # another process was first
                    _drop_oldest(path, self._kernel)
                return

    def _state(self, context: Any) -> bytes:
        """The hash of all that the code depends on."""
        compiler = sys.version, numba.__version__, llvmlite.__version__
        passes = int(numba.config.OPT), numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE
        state = repr((compiler, passes, context.codegen().magic_tuple(), tuned_cpu(), self._arguments)).encode()
        return hashlib.sha256(self._sources + state).digest()

    def _files(self, state: bytes) -> list[Path]:
        name = f"{self._kernel}-{state.hex()[:32]}.nbc"
        return [folder / name for folder in self._folders] if self._sources else []


def folders() -> list[Path]:
    """Where code may lie, and is written if it can be; none if the cache is off."""
    if os.environ.get(SWITCH) == "0":
        return []
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR) / "strided"]
    # XDG_CACHE_HOME counts only if it is absolute; without HOME, whoever has no account has no such folder.
    users = AppDirs("strided", appauthor=False).user_cache_dir, os.path.expanduser("~/.cache/strided")
    return [Path(__file__).parent / "__pycache__", *[Path(path) for path in users if os.path.isabs(path)][:1]]


def writable_folder() -> Path | None:
    """The first of these folders that can be written."""
    for folder in folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            # Not by `tempfile`: before Python 3.13 it tries two billion names where Windows allows none.
            written = folder / uuid.uuid4().hex
            written.touch(exist_ok=False)
            written.unlink()
            return folder
    return None


def _digest(code: bytes, state: bytes) -> bytes:
    return hashlib.sha256(state + code).digest()


def _whole(made: bytes, state: bytes) -> bytes:
    """The code behind its hash, or nothing: damaged code, or another version's, would be run all the same."""
    digest, code = made[:_DIGEST_BYTES], made[_DIGEST_BYTES:]
    return code if _digest(code, state) == digest else b""


def _rebuilt(context: Any, code: bytes) -> Any:
    return CompileResult._rebuild(context, *pickle.loads(code))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""  # to be opened, a FIFO waits for a writer
    except OSError:
        return b""


def _write(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    written = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        written.write_bytes(data)
        os.replace(written, path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def _drop_oldest(written: Path, kernel: str) -> None:
    """Keep the newest files of a kernel, and that just written, even if the clock was ahead when others were."""
    # What a process wrote that was killed over it counts, too.
    others = {*written.parent.glob(f"{kernel}-*.nbc*")} - {written}
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[: 1 - _MOST_KEPT]:
        path.unlink(missing_ok=True)


# --- sources ----------------------------------------------------------------------------------------------------------


@cache
def hash_of_sources(module: str) -> bytes:
    """The hash of the sources of a module, which is being imported, and of those in this package that it imports.

    It is empty where there are no sources.
    """
    digest = hashlib.sha256()
    try:
        for name in sorted(_needed(module)):
            digest.update(_source(name).encode())
            digest.update(repr(_imported(name).constants).encode())
    except OSError:
        return b""
    return digest.digest()


def _needed(module: str) -> set[str]:
    """A module and all those in this package that it imports, directly or not, but this one: it shapes no code."""
    found, waiting = {__name__}, [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imported(name).modules
    return found - {__name__}


class _Imported(NamedTuple):
    """What a module imports from this package."""

    modules: list[str]
    constants: list[tuple[str, Any]]
    """Of the package itself, which was imported long before: names and values."""


@cache
def _imported(module: str) -> _Imported:
    imports = [node for node in ast.walk(ast.parse(_source(module))) if isinstance(node, ast.ImportFrom)]
    found = _Imported([], [])
    for node in imports:
        if node.module == _PACKAGE:
            for name in (alias.name for alias in node.names):
                if f"{_PACKAGE}.{name}" in sys.modules:
                    found.modules.append(f"{_PACKAGE}.{name}")
                else:
                    found.constants.append((name, getattr(sys.modules[_PACKAGE], name)))
        elif node.module and node.module.startswith(_PACKAGE):
            found.modules.append(node.module)
    return found


@cache
def _source(module: str) -> str:
    """The text of a module. It is read once: there may be another one when the next module asks for it."""
    return inspect.getsource(sys.modules[module])
