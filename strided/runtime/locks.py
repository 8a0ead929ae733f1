"""Locks of the whole package that a forked child finds free: another thread of the parent may have held them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

#: What `threading.Lock` and `threading.RLock` make.
Lock: TypeAlias = AbstractContextManager[Any]


def own_lock(make: Callable[[], Lock] = threading.Lock) -> Callable[[], Lock]:
    """Gives the lock of this process whenever it is called. Meant for modules: what it keeps is never given back.

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
