"""Kernels compiled beside what the process does, so that no conversion waits for a compiler.

A thread takes what is asked for, one kernel after the other. It loads Numba, and the kernel from disk if it is there;
else a process of its own compiles it, into the cache or a temporary folder. (A thread that compiled would hold the GIL
much of the time; forks and the end of the interpreter would have to wait for it. It does so only where no process can
be started.)

Forks wait while Numba or a kernel is loaded, half a second at most. So does the end of the interpreter: LLVM must not
be torn down under the thread. A process that compiles ends with this one. Of several processes that want the same
kernel in the same folder one compiles, and the others find it there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from strided.runtime.locks import own_lock

# Functions import these modules when they run: with them `import strided` would take a third longer.
if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

#: Seconds before Numba is loaded: whatever ends sooner does without.
_PATIENCE = 0.05
#: Seconds that a fork waits at most; later than that something is wrong that waiting does not mend.
_FORK_SECONDS = 30

#: What the process that compiles runs. It ends soon: without collecting garbage it takes a fifteenth less.
_CHILD = """
import gc, sys
gc.disable()
name, folder, *sys.path = sys.argv[1:]
from strided.kernels import beside
beside.compile_for_parent(name, folder)
"""

undisturbed = own_lock(threading.RLock)
"""The lock that is held while this process must not fork: Numba is imported, or LLVM at work."""
saving = threading.Lock()
"""Held while a file is written, for which the end of the process waits."""


class Compiler:
    """What this process had compiled beside it.

    Attributes
    ----------
    failed : set of str
        Kernels that could not be compiled.
    """

    def __init__(self, load: Callable[[str, list[Path] | None], Any]) -> None:
        self.failed: set[str] = set()
        self._load = load
        self._asked: dict[str, bool] = {}
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def ask(self, name: str) -> None:
        """Have the kernel of this name compiled, unless it was asked for before."""
        with self._lock:
            if name in self._asked or self._closed.is_set():
                return
            self._asked[name] = False
            _hold_forks()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="strided_compiler", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads; it may be asked for again
                    self._thread = None
                    del self._asked[name]

    def close(self) -> None:
        """Stop compiling."""
        with self._lock:
            self._closed.set()
            if self._child is not None:
                _stop(self._child)
            thread = self._thread
        if thread is not None:
            thread.join()

    def leave_to_parent(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.returncode = 0

    def _serve(self) -> None:
        """Worker thread."""
        self._closed.wait(_PATIENCE)
        while (name := self._next()) is not None:
            try:
                self._compile(name)
            except Exception:  # met again by whoever wants this kernel next
                self.failed.add(name)

    def _next(self) -> str | None:
        with self._lock:
            name = next((name for name, begun in self._asked.items() if not begun), None)
            if name is None or self._closed.is_set():
                self._thread = None
                return None
            self._asked[name] = True
            return name

    def _compile(self, name: str) -> None:
        from strided.kernels import kernel_of

        with undisturbed():
            kernel = kernel_of(name)
            if kernel.is_on_disk():
                self._load(name, None)
                return
            folder = kernel.folder()
        with _folder_or_temporary(folder) as folder:
            if (command := _command(name, folder)) is not None:
                with suppress(OSError):
                    self._run(command)
            if not self._closed.is_set():
                with undisturbed():
                    self._load(name, [folder])

    def _run(self, command: list[str]) -> None:
        """Run a process to its end, or to that of this one."""
        import subprocess

        with subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_APART
        ) as child:
            with self._lock:
                self._child = child
                if self._closed.is_set():
                    _stop(child)
            try:
                child.wait()
            finally:
                self._child = None


if sys.platform == "win32":
    _APART: dict[str, Any] = {"creationflags": 0x0800_0200}  # CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW
else:
    #: Ctrl-C is meant for whoever waits at the terminal.
    _APART = {"process_group": 0}


def _stop(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        assert child.stdin is not None
        child.stdin.write(b".")


def _command(name: str, folder: Path) -> list[str] | None:
    """What compiles a kernel into a folder, or None where there is no interpreter to start."""
    program = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not program.startswith(("python", "pypy")):
        return None
    return [sys.executable, "-P", "-c", _CHILD, name, str(folder), *(p for p in sys.path if isinstance(p, str))]


@contextmanager
def _folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    else:
        from pathlib import Path
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="strided-") as name:
            yield Path(name)


# --- forks ------------------------------------------------------------------------------------------------------------

_held: list[Any] = []


@cache
def _hold_forks() -> None:
    """Have forks wait for `undisturbed`."""
    # What is registered last comes first. Importing Numba takes the lock of logging, which holds forks too.
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_held.clear)


def _before_fork() -> None:
    lock = undisturbed()
    if lock.acquire(timeout=_FORK_SECONDS):
        _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


# --- in the process that compiles -------------------------------------------------------------------------------------


def compile_for_parent(name: str, folder: str) -> None:
    """Compile a kernel into a folder, and end when the parent does or says so."""
    from pathlib import Path

    lock = Path(folder, f"{name}.lock")
    threading.Thread(target=_end_with_parent, args=(lock,), daemon=True).start()
    with _alone(lock):
        from strided.kernels import kernel_of

        kernel_of(name).compile([Path(folder)])


def _end_with_parent(lock: Path) -> None:
    os.read(0, 1)
    with saving:
        lock.unlink(missing_ok=True)
        os._exit(1)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process is within this; where there are no locks, do not wait."""
    with open(lock, "ab") as file, suppress(FileNotFoundError):
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        try:
            yield
        finally:
            lock.unlink()
