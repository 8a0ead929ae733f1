"""Locks that a forked child finds free, even if another thread of the parent held them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: A `threading.Lock` or `threading.RLock`.
Lock: TypeAlias = AbstractContextManager[Any]


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

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return lambda: held[0]
