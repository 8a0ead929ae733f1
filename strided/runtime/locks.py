"""Locks and forks: locks that are free in a forked child, and locks that a fork waits for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: A `threading.Lock` or `threading.RLock`.
Lock: TypeAlias = AbstractContextManager[Any]

#: Seconds that a fork waits for an import, which takes milliseconds. Limited, because the fork may hold a lock that the
#: import waits for: once logging is partly imported, forks take its lock.
_IMPORT_SECONDS = 1


def at_fork(**hooks: Callable[[], object]) -> None:
    """`os.register_at_fork`, except on Windows, which lacks it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


def own_lock(make: Callable[[], Lock] = threading.Lock) -> Callable[[], Lock]:
    """A function that returns the lock of this process; a forked child gets a new one. For modules: it is never freed.

    >>> lock = own_lock()
    >>> with lock():
    ...     lock().locked()
    True
    """
    held = [make()]

    def renew() -> None:
        held[0] = make()

    at_fork(after_in_child=renew)
    return lambda: held[0]


class _Held(threading.local):
    """The locks that this thread holds for its fork. Another thread that forks at the same time may wait for them."""

    def __init__(self) -> None:
        self.locks: list[Any] = []


_held = _Held()
#: The locks that forks wait for, and for how many seconds at most.
_holding: list[tuple[Callable[[], Any], float]] = []


def hold_forks(lock: Callable[[], Lock], seconds: float) -> None:
    """Make forks wait, for at most `seconds`, while another thread holds `lock`, an `own_lock` of an RLock.

    Hooks run in reverse order of registration: forks take the last registered lock first. Each lock needs a hook of
    its own: a single one, registered first, would run when the fork already holds the lock of logging, and wait for
    an import that needs this lock.
    """
    _holding.append((lock, seconds))
    at_fork(before=lambda: _take(lock(), seconds))


def _take(lock: Any, seconds: float) -> None:
    if lock._is_owned():
        return
    _held.locks.append(lock)
    late, interruption = time.monotonic() + seconds, None
    while not lock._is_owned() and (left := late - time.monotonic()) > 0:
        try:
            lock.acquire(timeout=left)
        except BaseException as error:  # from a signal handler: Python forks nevertheless, so take the lock first
            interruption = error
    if interruption is not None:
        raise interruption


def _take_late() -> None:
    """Take the locks that other threads passed to `hold_forks` while this fork waited; their hooks did not run.

    They do so while they hold `importing`, so that is taken, too. Like in every fork, it is taken last, because threads
    that hold another lock may need it.
    """
    last: Any = importing()
    try:
        _take(last, _IMPORT_SECONDS)
    finally:
        while late := [each for each in _holding if not _is_taken(each[0]())]:
            if last in _held.locks:
                _held.locks.remove(last)
                if last._is_owned():
                    last.release()
            for lock, seconds in reversed(late):
                _take(lock(), seconds)
            _take(last, _IMPORT_SECONDS)


def _is_taken(lock: Any) -> bool:
    """Whether this thread holds a lock, or waited for it until the timeout."""
    return lock._is_owned() or lock in _held.locks


def _free() -> None:
    while _held.locks:
        lock = _held.locks.pop()
        if lock._is_owned():
            lock.release()


at_fork(after_in_parent=_free, after_in_child=lambda: _held.locks.clear())

importing = own_lock(threading.RLock)
"""The lock that is held while a function imports a module that conversions need.

Forks wait for it: in a child that is forked during an import, importing the same module deadlocks.
"""
at_fork(before=_take_late)
