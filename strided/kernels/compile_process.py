"""A process that compiles kernels beside this one: how it is started, followed and ended, and what it does.

It compiles one after the other, keeps them on disk and hands over their code through a pipe. It ends with the process
that started it. Of several that want the same kernel in the same folder one compiles, and the others find it there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

# Functions import these modules when they run: with them `import strided` would take a third longer.
if TYPE_CHECKING:
    from pathlib import Path

#: What the process that compiles runs. It ends soon: without collecting garbage it takes a fifteenth less. What else is
#: printed there is nothing that the parent wants to read.
_CHILD = """
import gc, os, sys
gc.disable()
result = os.dup(1)
os.dup2(2, 1)
names, folder, *sys.path = sys.argv[1:]
from strided.kernels import compile_process
compile_process.compile_for_parent(names, folder, result)
"""
#: Precedes what that process writes, since something may be printed before it runs what it was told to.
_MARK = b"strided kernels:"
#: The largest exit code of Python's own: it raised an exception, or could not begin. Those of crashes are larger on
#: Windows, where there are no signals: 3 is of abort().
_MOST_EXIT_CODE = 2
#: Seconds after which a process that compiles is killed that does not end when told to: it is stopped, or hangs.
END_SECONDS = 5
#: Of the length in front of the code of each kernel.
_LENGTH_BYTES = 8
#: Each of its threads would take memory, on a machine with many cores more than all else together.
_FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
if sys.platform == "win32":
    _APART: dict[str, Any] = {"creationflags": 0x0800_0200}  # CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW
else:
    #: Ctrl-C is meant for whoever waits at the terminal.
    _APART = {"process_group": 0}

saving = threading.Lock()
"""Held while a file is made or written, for which the end of the process waits."""


class Crashed(RuntimeError):
    """A process that compiled was ended by something else: by its own fault, or for want of memory."""


class CompileProcess:
    """A process that compiles kernels; when left as a context, it has ended.

    Attributes
    ----------
    pid : int

    Raises
    ------
    OSError
        It cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        import subprocess

        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _FEW_THREADS,
            **_APART,
        )
        self.pid = self._child.pid

    def __enter__(self) -> CompileProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.__exit__(None, None, None)

    def codes(self) -> Iterator[bytes]:
        """The code of each kernel as it is handed over, in order: of all, or of the first ones.

        Raises
        ------
        Crashed
            After these, if something else ended the process.
        """
        pipe = self._child.stdout
        assert pipe is not None
        read = b""
        while not read.endswith(_MARK) and (byte := pipe.read(1)):
            read = read[-len(_MARK) :] + byte
        while len(length := pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            nbytes = int.from_bytes(length, "little")
            code = pipe.read(nbytes)
            if len(code) < nbytes:
                break
            yield code
        ended = self._child.wait()
        if not 0 <= ended <= _MOST_EXIT_CODE:
            how = f"was ended by signal {-ended}" if ended < 0 else f"ended with exit code {ended}"
            raise Crashed(f"the process that compiles them {how}")

    def is_running(self) -> bool:
        """Whether it has not ended, as far as this process knows."""
        return self._child.poll() is None

    def stop(self) -> None:
        """Tell it to end soon, if it has not ended."""
        assert self._child.stdin is not None
        if self.is_running():  # else SIGPIPE would end this process, if it does what it does by default
            with suppress(OSError, ValueError):  # the latter where this end of the pipe is closed
                os.write(self._child.stdin.fileno(), b".")

    def kill(self) -> None:
        """End it now, even if it hangs."""
        self._child.kill()

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what belongs to the parent."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._child.returncode = 0


def command_of(names: Sequence[str], folder: Path | None) -> list[str] | None:
    """What compiles kernels and keeps them in a folder, if any, or None where there is no interpreter to start."""
    program = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not program.startswith(("python", "pypy")):
        return None
    isolated = ["-I"] if sys.flags.isolated else ["-E"] if sys.flags.ignore_environment else []
    paths = [path for path in sys.path if isinstance(path, str)]
    return [sys.executable, *isolated, "-P", "-c", _CHILD, ",".join(names), str(folder or ""), *paths]


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
