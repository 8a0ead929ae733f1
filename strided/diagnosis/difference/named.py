"""`diff_arrays`: which arrays of two mappings differ, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from strided.arrays.base import Array
from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.compare import compared
from strided.diagnosis.difference.named_result import ArraysDifference, ValueDifference
from strided.diagnosis.difference.operands import operand_of
from strided.diagnosis.difference.result import Difference
from strided.diagnosis.difference.values import Tolerance
from strided.errors import StridedError
from strided.runtime.argument_checks import check_progress, whole


def diff_arrays(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | np.integer[Any] | None = None,
    equal_nan: bool = True,
    limit: SupportsIndex = 10,
    progress: Callable[[str], object] | None = None,
) -> ArraysDifference:
    """Compare the arrays of two mappings by name, such as the weights of two checkpoints.

    Parameters
    ----------
    a, b : mapping of str to array
        Arrays in memory or in files, or array-likes, read when they are compared. Tuples and mappings of these are
        compared part by part. A value that cannot be compared counts as different, and `problem` says why.
    rtol, atol, max_ulp, equal_nan, limit
        As for `strided.diff`.
    progress : callable, optional
        Called with the name of each array before it is compared.

    Raises
    ------
    TypeError
        `a` or `b` is no mapping.
    ValueError
        A tolerance or `limit` is negative.

    Examples
    --------
    >>> old = {"w": np.zeros((2, 3)), "b": np.zeros(3), "step": np.int32(7)}
    >>> found = diff_arrays(old, {"w": np.eye(2, 3), "b": np.zeros(3)})
    >>> found.equal, [(value.name, value.equal) for value in found.values], found.only_in_a
    (False, [('w', False), ('b', True)], ('step',))
    >>> found.first.difference.count
    2
    """
    for letter, given in (("a", a), ("b", b)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{letter} must be a mapping of names to arrays, not {type(given).__name__}")
    check_progress(progress)
    tolerance, limit = Tolerance(rtol, atol, max_ulp, equal_nan), whole(limit, "limit", 0)
    values: list[ValueDifference] = []
    for name in a:
        if name in b:
            if progress is not None:
                progress(name)
            values += differences_of(ValueDifference(name), (a, b), name, tolerance, limit)
    only_in_a, only_in_b = ([name for name in one if name not in other] for one, other in ((a, b), (b, a)))
    return ArraysDifference("a", "b", tuple(values), tuple(only_in_a), tuple(only_in_b))


def differences_of(
    value: ValueDifference,
    sides: tuple[Mapping[str, Any], Mapping[str, Any]],
    key: str,
    tolerance: Tolerance,
    limit: SupportsIndex,
) -> Iterator[ValueDifference]:
    """The differences of a value that both sides have: one for each part of a tuple or mapping, none for tokens."""
    try:
        first, second = (dict(_flat(value.name, side[key])) for side in sides)
    except (StridedError, OSError) as error:
        yield replace(value, problem=str(error))
        return
    for name in first | second:
        if name not in first or name not in second:
            yield replace(value, name=name, problem=f"only in {'a' if name in first else 'b'}")
            continue
        found = _difference_or_why(first[name], second[name], tolerance, limit)
        if isinstance(found, str):
            yield replace(value, name=name, problem=found)
        elif found is not None:
            yield replace(value, name=name, difference=found)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a value by name, with the positions in a tuple or the keys of a mapping appended."""
    if isinstance(value, tuple):
        for k, each in enumerate(value):
            yield from _flat(f"{name}[{k}]", each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(f"{name}/{key}", each)
    else:
        yield name, value


def _difference_or_why(x: Any, y: Any, tolerance: Tolerance, limit: SupportsIndex) -> Difference | str | None:
    """The difference of two values, or text that says why they cannot be compared; None for two tokens."""
    if x is None or y is None:
        return None if x is y else f"{type(x).__name__} in a, {type(y).__name__} in b"
    try:
        first, second = _array(x), _array(y)
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # as from ragged lists and torch's bfloat16
        return str(error)
    if first.shape != second.shape:
        return f"{_described(first)} in a, {_described(second)} in b"
    try:
        return compared(operand_of(first, "a"), operand_of(second, "b"), tolerance, limit)
    except (StridedError, OSError) as error:  # a type that XLA lacks; a file that was removed or truncated
        return str(error)


def _array(value: Any) -> LayoutArray | GridArray | Array:
    return value if isinstance(value, (LayoutArray, GridArray)) else np.asarray(value)


def _described(array: LayoutArray | GridArray | Array) -> str:
    return str(array.spec) if isinstance(array, LayoutArray) else f"{array.dtype}{list(array.shape)}"
