"""Dispatch of operations with objects of other libraries.

`precedes` and `opts_out` decide about operators, by an ndarray's rules; `ask` calls objects that implement NumPy's
protocols themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from strided.arrays import partners
from strided.arrays.base import ArrayBase

#: Libraries that take only ndarrays, and fail on anything else instead of returning NotImplemented.
_NDARRAYS_ONLY = {"pandas"}

#: The priority of an ndarray, and of objects without one.
NDARRAY_PRIORITY, _NO_PRIORITY = 0.0, -1e6

_MISSING = object()


def _special(x: Any, name: str) -> Any:
    """A special attribute, looked up on the class as NumPy does."""
    return getattr(type(x), name, _MISSING)


def is_plain(x: Any) -> bool:
    """Whether an object is a plain array or scalar, which takes no part in dispatch."""
    return type(x) is np.ndarray or isinstance(x, (ArrayBase, np.generic)) or type(x).__module__ == "builtins"


def is_ndarray(x: Any) -> bool:
    """Whether an object is an ndarray and not of a subclass that decides about the class of results."""
    return type(x) in (np.ndarray, np.memmap)


def opts_out(x: Any) -> bool:
    """Whether an object's class opts out of universal functions: ``__array_ufunc__ = None``."""
    return _special(x, "__array_ufunc__") is None


def wants_ndarray(x: Any) -> bool:
    """Whether an object may support only ndarrays: a subclass of ndarray, or a class without ``__array_ufunc__``."""
    return not is_plain(x) and (isinstance(x, np.ndarray) or _special(x, "__array_ufunc__") in (_MISSING, None))


def precedes(x: Any) -> bool:
    """Whether an ndarray on the left would defer to an object because of its ``__array_priority__``.

    The priority counts only if there is no ``__array_ufunc__``, and must be higher than that of an ndarray.
    """
    if is_plain(x) or _special(x, "__array_ufunc__") is not _MISSING:
        return False
    try:
        return float(getattr(x, "__array_priority__", _NO_PRIORITY)) > NDARRAY_PRIORITY
    except (TypeError, ValueError):
        return False


def with_protocol(values: Iterable[Any], protocol: str) -> list[Any]:
    """The operands with an ``__array_ufunc__`` or ``__array_function__`` of their own."""
    usual = getattr(np.ndarray, protocol)
    found = []
    for x in values:
        own = _special(x, protocol)
        if own is not _MISSING and own is not None and own is not usual and not isinstance(x, ArrayBase):
            found.append(x)
    return found


def ask(others: Iterable[Any], question: Callable[[Any], Any]) -> Any:
    """The first result of the others that is not NotImplemented, or NotImplemented. They get our arrays unconverted."""
    partners.introduce()
    for x in others:
        if type(x).__module__.split(".")[0] in _NDARRAYS_ONLY:
            continue
        answer = question(x)
        if answer is not NotImplemented:
            return answer
    return NotImplemented
