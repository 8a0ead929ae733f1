"""Many kernels compiled at once, by several processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from strided.kernels import HOMES, compile_process
from strided.kernels.compile_process import CompileProcess, Crashed, command_of
from strided.runtime.machine import usable_cpus, usable_memory

#: More would each compile what kernels of one module have in common.
_MOST_PROCESSES = 4
#: Memory that each takes at most, and the one that waits for them.
_PROCESS_BYTES = 1 << 29
#: Seconds between looks at whether Ctrl-C came, where a thread that waits is not woken by it.
_LOOK_SECONDS = 0.2
#: Seconds between looks at whether processes have ended.
_END_LOOK_SECONDS = 0.01


def processes_for(kernels: int) -> int:
    """How many processes compile so many kernels: as many as CPUs and memory allow, up to four; 0 or 1 for none."""
    room = usable_memory() / _PROCESS_BYTES - 1
    return int(min(kernels, usable_cpus(), room, _MOST_PROCESSES))


def compile_all(names: Sequence[str], folder: Path, processes: int) -> Generator[str, None, None]:
    """Have kernels compiled by so many processes and kept in a folder, and name each one that is ready.

    Those that no process could compile are left out. Who ends the iteration ends the processes.
    """
    shares = _shares(names, processes)
    ready: SimpleQueue[str | None] = SimpleQueue()
    running, is_over = list[CompileProcess](), threading.Event()

    def follow(share: Sequence[str], command: Sequence[str]) -> None:
        try:
            with suppress(OSError, Crashed), CompileProcess(command) as process:
                running.append(process)
                if is_over.is_set():
                    _end([process])
                for _, name in zip(process.codes(), share, strict=False):
                    ready.put(name)
        finally:
            ready.put(None)

    with ThreadPoolExecutor(len(shares) or 1) as pool:
        try:
            started = 0
            for share in shares:
                if (command := command_of(share, folder)) is not None:
                    with suppress(RuntimeError):  # no thread can be started
                        pool.submit(follow, share, command)
                        started += 1
            for _ in range(started):
                yield from iter(lambda: _next(ready), None)
        finally:
            is_over.set()
            _end(running)


def _end(processes: Sequence[CompileProcess]) -> None:
    """Have processes end, and wait for all of them even when Ctrl-C comes again meanwhile."""
    late = time.monotonic() + compile_process.END_SECONDS
    while running := [process for process in processes if process.is_running()]:
        with suppress(KeyboardInterrupt):
            for process in running:
                process.stop()
                if time.monotonic() > late:
                    process.kill()
            time.sleep(_END_LOOK_SECONDS)


def _shares(names: Sequence[str], count: int) -> list[list[str]]:
    """The kernels for each process: those of a module, which have much in common, by the same one."""
    modules: dict[str, list[str]] = {}
    for name in names:
        modules.setdefault(HOMES[name], []).append(name)
    shares: list[list[str]] = [[] for _ in range(count)]
    for module in sorted(modules.values(), key=len, reverse=True):
        min(shares, key=len).extend(module)
    return [share for share in shares if share]


def _next(ready: SimpleQueue[str | None]) -> str | None:
    while True:
        with suppress(Empty):
            return ready.get(timeout=_LOOK_SECONDS)
