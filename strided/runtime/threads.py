"""The threads that carry out conversions.

Kernels are serial and release the GIL; a conversion is cut into pieces of a few hundred microseconds, and `run` deals
the pieces out to the calling thread and to helpers, which all conversions share. The calling thread always works too,
so a conversion finishes even when every helper is busy (many Python threads at once, dask workers) or when none can be
started (interpreter shutdown). A forked child starts with no helpers. An exception, Ctrl-C included, stops the
remaining pieces and is raised when those under way are done.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, SupportsIndex

from strided.runtime.locks import at_fork, importing

#: Threads for work that comes back to Python for every block: more wait for the GIL, and have others wait. On 16 cores
#: expressions and reductions took as long with 16 threads as with 8, or a third longer.
_MOST_IN_PYTHON = 8
#: More threads than this are a slip: each takes a stack, and a system has a limit of its own not far above.
_MOST = 4096
#: Threads that set_num_threads asked for; None means one for each CPU of this process.
_requested: int | None = None
_available: int | None = None
#: The queue of the helpers, how many of them there are, and the lock for starting more.
_jobs: SimpleQueue[_Job] = SimpleQueue()
_started = 0
_lock: Any = threading.RLock()


def set_num_threads(number: SupportsIndex | None) -> None:
    """Set how many threads a conversion uses from now on, in this process; None restores the default.

    Parameters
    ----------
    number : int or None
        From 1 to 4096. By default all CPUs that the process may use.

    Raises
    ------
    TypeError
        `number` is not an integer.
    ValueError
        `number` is less than 1 or more than 4096.

    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(None)
    """
    global _requested
    if number is not None:
        try:
            if type(number).__name__ in ("bool", "bool_"):  # NumPy's is an index in its older versions
                raise TypeError
            number = operator.index(number)
        except TypeError:
            raise TypeError(f"the number of threads is an integer or None, not {type(number).__name__}") from None
        if not 1 <= number <= _MOST:
            raise ValueError(f"the number of threads must be at least 1 and at most {_MOST}, not {number}")
    _requested = number


def get_num_threads() -> int:
    """The number of threads a conversion uses: as set, else the CPUs that this process may use.

    These are the CPUs of its affinity mask, and no more than the CPU time that its container grants.

    >>> get_num_threads() >= 1
    True
    """
    global _available
    if _requested is not None:
        return _requested
    if _available is None:
        lock: Any = importing()
        if lock._is_owned():
            return 1  # a handler or a finalizer converts something in the middle of the import, and cannot wait for it
        # Imported when first asked for: pathlib costs more to import than the rest of this package's small modules.
        with lock:
            from strided.runtime.machine import usable_cpus

        _available = usable_cpus()
    return _available


def threads_in_python() -> int:
    """How many threads share work that comes back to Python for every block."""
    return min(get_num_threads(), _MOST_IN_PYTHON)


def _ask(job: _Job, number: int) -> None:
    """Have up to `number` helpers work on a job, started if need be; fewer if the system starts no more."""
    global _started
    # Who holds the lock starts helpers already: another thread, or this very one, in which a finalizer or a signal's
    # handler converts something meanwhile. That goes without those that are still to come.
    lock = _lock
    if _started < number and not lock._is_owned():
        try:
            if lock.acquire(blocking=False):
                while _started < number:
                    threading.Thread(target=_help, args=(_jobs,), name=f"strided_{_started}", daemon=True).start()
                    _started += 1
        except RuntimeError:
            pass  # interpreter shutdown, or the system's limit
        finally:
            if lock._is_owned():  # asked anew: a handler may raise as `acquire` returns
                lock.release()
    for _ in range(min(number, _started)):
        _jobs.put(job)


def _help(jobs: SimpleQueue[_Job]) -> None:
    """Worker loop."""
    while True:
        job = jobs.get()
        job.help()
        del job  # it holds buffers, and the next one may be long in coming


def _forget_helpers() -> None:
    """In a forked child: the parent's helpers do not exist here, and its lock may have been held."""
    global _jobs, _started, _lock, _available
    _jobs, _started, _lock, _available = SimpleQueue(), 0, threading.RLock(), None


at_fork(after_in_child=_forget_helpers)


def _nothing() -> None: ...


def run(
    work: Callable[..., object],
    pieces: Iterable[tuple[Any, ...]],
    *,
    threads: int,
    stop: Callable[[], object] = _nothing,
) -> None:
    """Call ``work(*piece)`` for every piece, on up to `threads` threads; return when all are done.

    Pieces are begun in their order, each by one thread, and may end in any order. The first exception stops the
    pieces not yet begun and is raised here; `stop` is called meanwhile, to end those under way soon.
    """
    if threads <= 1:
        for piece in pieces:
            work(*piece)
        return
    job = _Job(work, iter(pieces), stop)
    try:
        try:
            _ask(job, threads - 1)
            job.drain()
            job.is_drained = True
        finally:
            job.close()
    finally:
        # A signal's handler may raise between any two lines, those of `close` too: that is why it is called twice.
        job.close()
    if job.error is not None:
        error, job.error = job.error, None
        try:
            raise error
        finally:
            # The error's traceback has this frame: what it holds, such as buffers, would stay until a collection.
            del error, job, work, pieces, stop


class Leave(Exception):
    """Raised by work that a helper cannot do, of which it has taken nothing: others do it."""


class _Job:
    """Pieces of one conversion, dealt out to several threads."""

    def __init__(
        self, work: Callable[..., object], pieces: Iterator[tuple[Any, ...]], stop: Callable[[], object]
    ) -> None:
        self.error: BaseException | None = None
        self.is_drained = False
        self._work, self._pieces, self._stop = work, pieces, stop
        self._lock = threading.Lock()
        self._stopped = False
        self._closed = False
        self._helping = 0
        # Held while helpers are at work that are waited for. (What a signal's handler raises tears an Event apart.)
        self._left = threading.Lock()

    def drain(self) -> None:
        """Do pieces until there are no more, or something has gone wrong with one."""
        try:
            while not self._stopped:
                with self._lock:
                    piece = next(self._pieces, None)
                if piece is None:
                    return
                self._work(*piece)
        except Leave:
            return
        except BaseException as error:
            # A helper's error must reach the caller, and no piece may begin after it.
            self._stopped = True
            if self.error is None:
                self.error = error
            self._stop()

    def help(self) -> None:
        """Drain as a helper, unless the job is over."""
        with self._lock:
            if self._closed:
                return
            self._helping += 1
        self.drain()
        with self._lock:
            self._helping -= 1
            if not self._helping and self._left.locked():
                self._left.release()

    def close(self) -> None:
        """Let no more helpers begin, and wait for those at work, whatever a signal's handler raises meanwhile."""
        interruption: BaseException | None = None
        self._stopped = True
        while True:
            try:
                if interruption is not None or not self.is_drained:
                    self._stop()
                with self._lock:
                    self._closed = True
                    if not self._helping:
                        break
                    self._left.acquire(blocking=False)
                self._left.acquire()
            except BaseException as error:
                interruption = error
        # A helper that was too busy to begin may find this job later: it must not keep buffers alive until then.
        self._work, self._pieces, self._stop = _nothing, iter(()), _nothing
        if interruption is not None:
            raise interruption
