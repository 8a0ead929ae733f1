"""The thread pool for conversions.

Kernels are serial and release the GIL. A conversion is cut into pieces of a few hundred microseconds, and `run`
distributes them to the calling thread and to helper threads, which all conversions share. The calling thread always
works, too, so a conversion finishes even if all helpers are busy (many Python threads at once, dask workers) or none
can be started (interpreter shutdown). A forked child starts with no helpers. An exception, Ctrl-C included, cancels
the remaining pieces and is raised when those in progress are done.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, SupportsIndex

from strided.runtime.locks import at_fork, importing

#: The most threads for work that runs Python code for each block: more contend for the GIL. On 16 cores expressions and
#: reductions took as long with 16 threads as with 8, or a third longer.
_MOST_IN_PYTHON = 8
#: More threads than this are surely a mistake: each takes a stack, and the system's own limit is not far above.
_MOST = 4096
#: The number set by set_num_threads; None means one for each CPU of this process.
_requested: int | None = None
_available: int | None = None
#: The queue of the helpers, the number of helpers, and the lock for starting more.
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
            if type(number).__name__ in ("bool", "bool_"):  # older NumPy versions accept bool_ as an index
                raise TypeError
            number = operator.index(number)
        except TypeError:
            raise TypeError(f"the number of threads is an integer or None, not {type(number).__name__}") from None
        if not 1 <= number <= _MOST:
            raise ValueError(f"the number of threads must be at least 1 and at most {_MOST}, not {number}")
    _requested = number


def get_num_threads() -> int:
    """The number of threads a conversion uses: as set, otherwise the number of CPUs that this process may use.

    These are the CPUs of its affinity mask, but not more than the CPU quota of its container.

    >>> get_num_threads() >= 1
    True
    """
    global _available
    if _requested is not None:
        return _requested
    if _available is None:
        lock: Any = importing()
        if lock._is_owned():
            return 1  # called by a signal handler or finalizer during the import, which cannot wait for it
        # Imported on first use: pathlib takes longer to import than all other small modules of this package.
        with lock:
            from strided.runtime.machine import usable_cpus

        _available = usable_cpus()
    return _available


def threads_in_python() -> int:
    """The number of threads for work that runs Python code for each block."""
    return min(get_num_threads(), _MOST_IN_PYTHON)


def _ask(job: _Job, number: int) -> None:
    """Queue a job for up to `number` helpers, and start them if necessary; fewer if the system cannot start more."""
    global _started
    # Whoever holds the lock is starting helpers: another thread, or this one, if a finalizer or signal handler runs a
    # conversion meanwhile. Then use the helpers that exist.
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
            if lock._is_owned():  # not a variable: a signal handler may raise just when `acquire` returns
                lock.release()
    for _ in range(min(number, _started)):
        _jobs.put(job)


def _help(jobs: SimpleQueue[_Job]) -> None:
    """Worker loop."""
    while True:
        job = jobs.get()
        job.help()
        del job  # it holds buffers, and the next job may come much later


def _forget_helpers() -> None:
    """In a forked child: the parent's helpers do not exist, and its lock may be held."""
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

    Pieces start in order, each in one thread, and may end in any order. The first exception cancels the pieces that
    have not started and is raised here; `stop` is called to end those in progress soon.
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
        # A signal handler may raise between any two lines, also of `close`, so it is called twice.
        job.close()
    if job.error is not None:
        error, job.error = job.error, None
        try:
            raise error
        finally:
            # The error's traceback refers to this frame, which would keep buffers alive until a garbage collection.
            del error, job, work, pieces, stop


class Leave(Exception):
    """Raised by `work` in a helper that cannot work on this job and has done nothing: other threads do it."""


class _Job:
    """The pieces of one conversion, distributed to several threads."""

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
        # Held while `close` waits for helpers. (Not an Event, which an exception from a signal handler can corrupt.)
        self._left = threading.Lock()

    def drain(self) -> None:
        """Do pieces until there are no more, or one has failed."""
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
            # Keep the error for the caller, and let no other piece start.
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
        """Let no more helpers start, and wait for those at work, even if a signal handler raises meanwhile."""
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
        # A helper that was too busy may find this job in the queue later: do not keep buffers alive until then.
        self._work, self._pieces, self._stop = _nothing, iter(()), _nothing
        if interruption is not None:
            raise interruption
