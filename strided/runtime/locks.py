"""Locks that a forked child finds free even if a thread of the parent held them, and those that forks wait for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: A `threading.Lock` or `threading.RLock`.
Lock: TypeAlias = AbstractContextManager[Any]

#: Seconds that a fork waits for an import, which takes milliseconds. The fork itself may hold what the import waits
#: for: once logging is imported in part, forks take its lock.
_IMPORT_SECONDS = 1


def at_fork(**hooks: Callable[[], object]) -> None:
    """As `os.register_at_fork`, which Windows lacks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


def own_lock(make: Callable[[], Lock] = threading.Lock) -> Callable[[], Lock]:
    """A function that returns the lock of this process. Meant for modules: the lock is never freed.

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
    """Locks that this thread holds while it forks. Another thread may be about to fork, too, and wait for them."""

    def __init__(self) -> None:
        self.locks: list[Any] = []


_held = _Held()
#: The locks that forks wait for, and how many seconds.
_holding: list[tuple[Callable[[], Any], float]] = []


def hold_forks(lock: Callable[[], Lock], seconds: float) -> None:
    """Have forks wait, no longer than so many seconds, while another thread holds an `own_lock` of an RLock.

    Of several such locks, forks wait first for that which was named here last: a hook for each, since what others
    registered before it is taken after it. One hook for all, registered first, would wait for an import with the lock
    of logging in its hands, which that import needs.
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
        except BaseException as error:  # a signal's handler: Python forks all the same, and the child must be whole
            interruption = error
    if interruption is not None:
        raise interruption


def _take_late() -> None:
    """Take what other threads named to `hold_forks` while this fork waited: of hooks, only earlier ones are run.

    They do so within `importing`. It is taken last, as by every fork: who holds another lock may want it.
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
    """Whether this thread holds a lock, or has waited for it in vain."""
    return lock._is_owned() or lock in _held.locks


def _free() -> None:
    while _held.locks:
        lock = _held.locks.pop()
        if lock._is_owned():
            lock.release()


at_fork(after_in_parent=_free, after_in_child=lambda: _held.locks.clear())

importing = own_lock(threading.RLock)
"""The lock that is held while a function imports a module that conversions need.

In a child that was forked in the middle of an import, whoever wants the same module waits for ever.
"""
at_fork(before=_take_late)
