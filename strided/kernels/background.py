"""Kernels compiled in the background, so that no conversion waits for a compiler.

A thread takes all kernels that are asked for. It loads Numba, and those from disk that are there; a process of its own
compiles the others, one after the other, keeps them on disk and hands them over. (A thread that compiled would hold the
GIL much of the time; forks and the end of the interpreter would have to wait for it. It does so only where that process
cannot be started, or finds that it cannot compile. What kills that process would kill this one, too: NumPy goes on.)

Forks wait while Numba or a kernel is loaded, half a second at most. So does the end of the interpreter: LLVM must not
be torn down under the thread. A process that compiles ends with this one. Of several processes that want the same
kernel in the same folder one compiles, and the others find it there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from strided.runtime.locks import Lock, hold_forks, importing, own_lock

# Functions import these modules when they run: with them `import strided` would take a third longer.
if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

#: Seconds before Numba is loaded: whatever ends sooner does without.
_PATIENCE = 0.05
#: Seconds that a fork waits at most; later than that something is wrong that waiting does not mend.
_FORK_SECONDS = 30
#: Seconds after which a process that compiles is killed that does not end with this one: it is stopped, or hangs.
_END_SECONDS = 5
#: Seconds between looks at whether the thread has ended. What waits for it could be torn apart by Ctrl-C.
_LOOK_SECONDS = 0.01
#: Bytes of address space that must be left for code to be loaded: with 24 MB, LLVM ended the process.
_LOADED_BYTES = 1 << 27
#: Those that a process which compiles may take: it takes 0.4 GB, and where NumPy finds too little, OpenBLAS asks for it
#: again and again, for ever.
_COMPILED_BYTES = 1 << 30

#: What the process that compiles runs. It ends soon: without collecting garbage it takes a fifteenth less. What else is
#: printed there is nothing that the parent wants to read.
_CHILD = """
import gc, os, sys
gc.disable()
result = os.dup(1)
os.dup2(2, 1)
names, folder, *sys.path = sys.argv[1:]
from strided.kernels import background
background.compile_for_parent(names, folder, result)
"""
#: Precedes what that process writes, since something may be printed before it runs what it was told to.
_MARK = b"strided kernels:"
#: The largest exit code of Python's own: it raised an exception, or could not begin. Those of crashes are larger on
#: Windows, where there are no signals: 3 is of abort().
_MOST_EXIT_CODE = 2
#: Of the length in front of the code of each kernel.
_LENGTH_BYTES = 8

_llvm = own_lock(threading.RLock)
saving = threading.Lock()
"""Held while a file is made or written, for which the end of the process waits."""


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
        self._child: subprocess.Popen[bytes] | None = None
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
        late = time.monotonic() + _END_SECONDS
        while not self._closed.is_set() or self._serving.locked():
            with suppress(KeyboardInterrupt):
                with self._lock:
                    self._closed.set()
                    child = self._child
                    if child is not None:
                        _stop(child)
                if child is not None and time.monotonic() > late:
                    child.kill()
                if self._serving.locked():
                    time.sleep(_LOOK_SECONDS)

    def leave_to_parent(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.returncode = 0

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

        while names and not self._closed.is_set():
            made, ended = b"", None
            command = _command(",".join(names), kernel_of(names[0]).folder())
            if command is not None:
                try:
                    made = self._made_by(command)
                except OSError:
                    pass
                except _Ended as error:
                    made, ended = error.made, error
            codes = list(_codes(made))
            for name, code in zip(names, codes, strict=False):
                self._take(name, code)
            names = names[len(codes) :]
            if ended is None:
                for name in names:
                    self._take(name, b"")
                return
            # It did not survive the first one that it did not hand over.
            if names:
                self.failed[names[0]] = ended.with_traceback(None)
            names = names[1:]

    def _take(self, name: str, code: bytes) -> None:
        """Load a kernel that another process compiled, or compile it."""
        with self._telling(name):
            if not self._closed.is_set():
                with undisturbed():
                    self._load(name, code)

    def _made_by(self, command: list[str]) -> bytes:
        """What a process hands over that runs to its end, or to that of this one."""
        with ExitStack() as ending:
            with undisturbed():  # a fork meanwhile would take along half of this module, and the ends of the pipes
                import subprocess

                child = ending.enter_context(
                    subprocess.Popen(
                        command,
                        bufsize=0,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        env=os.environ | _FEW_THREADS,
                        **_APART,
                    )
                )
                self._child = child
            try:
                with self._lock:
                    if self._closed.is_set():
                        _stop(child)
                assert child.stdout is not None
                written: bytes = child.stdout.readall()
                ended = child.wait()
            finally:
                with self._lock:
                    self._child = None
        made = written.partition(_MARK)[2]
        if not 0 <= ended <= _MOST_EXIT_CODE and not self._closed.is_set():
            how = f"was ended by signal {-ended}" if ended < 0 else f"ended with exit code {ended}"
            raise _Ended(f"the process that compiles them {how}", made)
        return made


class _Ended(RuntimeError):
    """The process that compiles was ended; `made` is what it had handed over."""

    def __init__(self, words: str, made: bytes) -> None:
        super().__init__(words)
        self.made = made


#: Each of its threads would take memory, on a machine with many cores more than all else together.
_FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
if sys.platform == "win32":
    _APART: dict[str, Any] = {"creationflags": 0x0800_0200}  # CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW
else:
    #: Ctrl-C is meant for whoever waits at the terminal.
    _APART = {"process_group": 0}


def _stop(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        assert child.stdin is not None
        child.stdin.write(b".")


def refuse_to_crash(is_compiled: Callable[[], bool]) -> None:
    """Raise MemoryError where LLVM may find so little memory that it ends this process, or one that compiles.

    Whether a kernel is compiled already is asked only where memory is limited: that takes a look at the disk.
    """
    with suppress(ImportError, OSError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return
        with open("/proc/self/statm", encoding="ascii") as file:
            left = limit - int(file.read().split()[0]) * resource.getpagesize()
        if left < _LOADED_BYTES:
            raise MemoryError(f"{left >> 20} MB of address space are left (ulimit -v)")
        if limit < _COMPILED_BYTES and not is_compiled():
            few, enough = limit >> 20, _COMPILED_BYTES >> 20
            raise MemoryError(f"a process may take {few} MB of address space (ulimit -v); compiling takes {enough} MB")


def _codes(made: bytes) -> Iterator[bytes]:
    """The code of each kernel in what a process handed over: of all, or of the first ones."""
    start = 0
    while (begin := start + _LENGTH_BYTES) <= len(made):
        start = begin + int.from_bytes(made[start:begin], "little")
        if start <= len(made):
            yield made[begin:start]


def _command(names: str, folder: Path | None) -> list[str] | None:
    """What compiles kernels and keeps them in a folder, if any, or None where there is no interpreter to start."""
    program = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not program.startswith(("python", "pypy")):
        return None
    isolated = ["-I"] if sys.flags.isolated else ["-E"] if sys.flags.ignore_environment else []
    paths = [path for path in sys.path if isinstance(path, str)]
    return [sys.executable, *isolated, "-P", "-c", _CHILD, names, str(folder or ""), *paths]


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


# --- in the process that compiles -------------------------------------------------------------------------------------


def compile_for_parent(names: str, folder: str, result: int) -> None:
    """Compile kernels, keep them in a folder, if any, and write them to a pipe; end when the parent does or says so."""
    from pathlib import Path

    from strided.kernels import kernel_of

    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(result, "wb") as file:
        file.write(_MARK)
        for name in names.split(","):
            with _alone(Path(folder, f"{name}.lock") if folder else None):
                code = kernel_of(name).code([Path(folder)] if folder else [])
            file.write(len(code).to_bytes(_LENGTH_BYTES, "little") + code)
            file.flush()


def _end_with_parent() -> None:
    os.read(0, 1)
    with saving:
        _remove(_locked)
        os._exit(1)


#: The lock that this process holds or waits for.
_locked: Path | None = None


@contextmanager
def _alone(lock: Path | None) -> Iterator[None]:
    """Wait until no other process is within this; where there are no locks, do not wait."""
    global _locked
    with ExitStack() as held:
        if lock is not None:
            with suppress(ImportError, OSError):
                import fcntl

                with saving:  # nor is it made when the parent has ended
                    _locked = lock
                    file = held.enter_context(open(lock, "ab"))
                held.callback(_remove, lock)
                fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            _locked = None


def _remove(lock: Path | None) -> None:
    if lock is not None:
        with suppress(OSError):
            lock.unlink()
