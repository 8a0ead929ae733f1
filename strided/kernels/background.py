"""Kernels compiled in the background, so that no conversion waits for a compiler.

A thread takes all kernels that are asked for. It loads Numba, and those from disk that are there; a process of its own
(`compile_process`) compiles the others and hands them over. (A thread that compiled would hold the GIL much of the
time; forks and the end of the interpreter would have to wait for it. It does so only where that process cannot be
started, or finds that it cannot compile. What kills that process would kill this one, too: NumPy goes on.)

Forks wait while Numba or a kernel is loaded, half a second at most. So does the end of the interpreter: LLVM must not
be torn down under the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Any

from strided.kernels import compile_process
from strided.kernels.compile_process import CompileProcess, Crashed, command_of
from strided.runtime.locks import Lock, hold_forks, importing, own_lock

#: Seconds before Numba is loaded: whatever ends sooner does without.
_PATIENCE = 0.05
#: Seconds that a fork waits at most; later than that something is wrong that waiting does not mend.
_FORK_SECONDS = 30
#: Seconds between looks at whether the thread has ended. What waits for it could be torn apart by Ctrl-C.
_LOOK_SECONDS = 0.01
#: Bytes of address space that must be left for code to be loaded: with 24 MB, LLVM ended the process.
_LOADED_BYTES = 1 << 27
#: Those that Numba takes as it is imported, with LLVM: 190 MB.
_NUMBA_BYTES = 3 << 26
#: Those that a process which compiles may take: it takes 0.4 GB, and where NumPy finds too little, OpenBLAS asks for it
#: again and again, for ever.
_COMPILED_BYTES = 1 << 30

_llvm = own_lock(threading.RLock)


class Compiler:
    """What this process had compiled beside it.

    Attributes
    ----------
    failed : dict from str to Exception
        Kernels that could not be compiled, and why.
    """

    def __init__(self, load: Callable[[str, bytes], Any]) -> None:
        self.failed: dict[str, Exception] = {}
        self._load = load
        self._asked: dict[str, bool] = {}
        self._serving = threading.Lock()  # held by the thread that has them compiled
        self._child: CompileProcess | None = None
        # A signal's handler, or a finalizer, may want a kernel wherever this module is.
        self._lock = threading.RLock()
        self._closed = threading.Event()

    def ask(self, name: str) -> None:
        """Have the kernel of this name compiled, unless it was asked for before."""
        with self._lock:
            is_begun = self._closed.is_set() or self._asked.setdefault(name, False)
        if is_begun or self._serving.locked():
            return
        _hold_forks()
        # Of several threads one stays. Where none can be started, the kernel may be asked for again.
        with suppress(RuntimeError):
            threading.Thread(target=self._serve, name="strided_compiler", daemon=True).start()

    def close(self) -> None:
        """Stop compiling, and wait for the thread even when Ctrl-C comes meanwhile."""
        late = time.monotonic() + compile_process.END_SECONDS
        while not self._closed.is_set() or self._serving.locked():
            with suppress(KeyboardInterrupt):
                with self._lock:
                    self._closed.set()
                    child = self._child
                    if child is not None:
                        child.stop()
                if child is not None and time.monotonic() > late:
                    child.kill()
                if self._serving.locked():
                    time.sleep(_LOOK_SECONDS)

    def leave_to_parent(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""
        if self._child is not None:
            self._child.leave_to_parent()

    def _serve(self) -> None:
        """Worker thread."""
        if not self._serving.acquire(blocking=False):
            return
        self._closed.wait(_PATIENCE)
        while names := self._next():
            missing = []
            for name in names:
                with self._telling(name):
                    if not self._found_on_disk(name):
                        missing.append(name)
            self._compile(missing)

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Within this, an exception is kept for whoever wants the kernel next."""
        try:
            yield
        except Exception as error:
            self.failed[name] = error.with_traceback(None)  # it holds what was half made

    def _next(self) -> list[str]:
        """The kernels that were asked for meanwhile; none ends the thread."""
        with self._lock:
            names = [name for name, begun in list(self._asked.items()) if not begun]
            if not names or self._closed.is_set():
                self._serving.release()
                return []
            self._asked.update(dict.fromkeys(names, True))
            return names

    def _found_on_disk(self, name: str) -> bool:
        from strided.kernels import kernel_of

        with undisturbed():
            found: bool = kernel_of(name).is_on_disk()
            if found:
                self._load(name, b"")
            else:
                refuse_to_crash(lambda: False)
        return found

    def _compile(self, names: list[str]) -> None:
        from strided.kernels import kernel_of

        left = list(names)
        while left and not self._closed.is_set():
            ended = None
            try:
                if (command := command_of(left, kernel_of(left[0]).folder())) is not None:
                    for code, name in zip(self._made_by(command), tuple(left), strict=False):
                        left.remove(name)
                        self._take(name, code)
            except Crashed as error:
                ended = error
            except Exception:  # nothing may end this thread: the end of the interpreter waits for it
                pass
            if ended is None:
                for name in left:
                    self._take(name, b"")
                return
            # It did not survive the first one that it did not hand over.
            if left:
                self.failed[left.pop(0)] = ended.with_traceback(None)

    def _take(self, name: str, code: bytes) -> None:
        """Load a kernel that another process compiled, or compile it."""
        with self._telling(name):
            if not self._closed.is_set():
                with undisturbed():
                    self._load(name, code)

    def _made_by(self, command: list[str]) -> Iterator[bytes]:
        """What a process hands over until it ends, or this one does."""
        with ExitStack() as ending:
            with undisturbed():  # a fork meanwhile would take along half of this module, and the ends of the pipes
                child = self._child = ending.enter_context(CompileProcess(command))
            try:
                with self._lock:
                    if self._closed.is_set():
                        child.stop()
                yield from child.codes()
            finally:
                with self._lock:
                    self._child = None


def refuse_to_load() -> None:
    """Raise MemoryError where Numba cannot be imported for want of memory: its own error speaks of a missing file."""
    _refuse_with_less(_NUMBA_BYTES + _LOADED_BYTES)


def refuse_to_crash(is_compiled: Callable[[], bool]) -> None:
    """Raise MemoryError where LLVM may find so little memory that it ends this process, or one that compiles.

    Whether a kernel is compiled already is asked only where memory is limited: that takes a look at the disk.
    """
    limit = _refuse_with_less(_LOADED_BYTES)
    if limit is not None and limit < _COMPILED_BYTES and not is_compiled():
        few, enough = limit >> 20, _COMPILED_BYTES >> 20
        raise MemoryError(f"a process may take {few} MB of address space (ulimit -v); compiling takes {enough} MB")


def _refuse_with_less(needed: int) -> int | None:
    """Raise MemoryError if fewer bytes of address space are left. How many a process may take; None for any."""
    with suppress(ImportError, OSError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        with open("/proc/self/statm", encoding="utf-8") as file:
            left = limit - int(file.read().split()[0]) * resource.getpagesize()
        if left < needed:
            raise MemoryError(f"{left >> 20} MB of address space are left (ulimit -v)")
        return limit
    return None


# --- forks ------------------------------------------------------------------------------------------------------------


def undisturbed() -> Lock:
    """The lock that is held while this process must not fork: Numba is imported, or LLVM at work."""
    _hold_forks()
    return _llvm()


def is_loading() -> bool:
    """Whether this very thread is within `undisturbed`."""
    lock: Any = _llvm()
    return bool(lock._is_owned())


@cache
def _hold_forks() -> None:
    """Have forks wait for `undisturbed`."""
    with importing():
        # What is registered last comes first. Importing Numba takes the lock of logging, which holds forks too.
        import logging  # noqa: F401

        hold_forks(_llvm, _FORK_SECONDS)
