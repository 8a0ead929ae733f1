"""Bounded caches of recent results, shared by all threads.

A full cache drops its oldest value. One lock protects all caches. It is held for a few instructions, never while a
value is computed; a forked child gets a new one. It is reentrant, because a finalizer or signal handler may use a cache
in the thread that holds it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from strided.runtime.locks import own_lock

K = TypeVar("K")
V = TypeVar("V")

_lock = own_lock(threading.RLock)


class _Clearable(Protocol):
    """A `BoundedCache`, or a function decorated with `functools.lru_cache`."""

    def cache_clear(self) -> None:
        """Drop all values."""


C = TypeVar("C", bound=_Clearable)
_forgettable: list[_Clearable] = []


def forgettable(table: C) -> C:
    """Mark a cache to be cleared by `forget`: one of plans, or of anything that depends on `limits`."""
    _forgettable.append(table)
    return table


def forget() -> None:
    """Clear all caches that are marked `forgettable`, so that everything is planned again."""
    for table in _forgettable:
        table.cache_clear()


class BoundedCache(Generic[K, V]):
    """At most `limit` values by key; the oldest is dropped first.

    Two threads that miss the same key both compute its value, which must do no harm.

    >>> squares = BoundedCache[int, int](2)
    >>> [squares.keep(n, n * n) for n in (2, 3, 4)]
    [4, 9, 16]
    >>> squares.get(2), squares.get(4), len(squares)
    (None, 16, 2)
    """

    __slots__ = ("_limit", "_values", "get")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()
        #: The value of a key, or None. Not a method, whose call would take a noticeable part of a small conversion.
        self.get: Callable[[K], V | None] = self._values.get

    def keep(self, key: K, value: V) -> V:
        """Add or replace a value, and return it."""
        with _lock():
            if key not in self._values:
                while len(self._values) >= self._limit:
                    self._values.popitem(last=False)
            self._values[key] = value
        return value

    def cache_clear(self) -> None:
        """Drop all values."""
        with _lock():
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[type[BoundedCache[K, V]], tuple[int]]:
        return type(self), (self._limit,)  # a copy is empty: a copied `get` would belong to the original
