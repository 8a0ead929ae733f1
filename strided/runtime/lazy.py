"""Properties computed once, on first use.

In Python 3.11 `functools.cached_property` holds one lock for all instances of a class while it computes: threads wait
for each other, and a child that is forked meanwhile deadlocks. Here two threads may both compute a value; both get the
first result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """A property whose value is cached in the instance.

    >>> class Square:
    ...     @lazy
    ...     def area(self):
    ...         print("computed")
    ...         return 4
    >>> square = Square()
    >>> square.area, square.area
    computed
    (4, 4)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


def state_without_lazy(instance: Any) -> dict[str, Any]:
    """The state of an instance for pickling, without the cached values of `lazy` properties.

    >>> class Square:
    ...     side = 2
    ...     @lazy
    ...     def area(self):
    ...         return self.side**2
    >>> square = Square()
    >>> square.side, square.area
    (2, 4)
    >>> square.side = 3
    >>> state_without_lazy(square)
    {'side': 3}
    """
    return {name: v for name, v in vars(instance).items() if not isinstance(getattr(type(instance), name, None), lazy)}
