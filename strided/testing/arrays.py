"""Assertions about the values of arrays."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from strided.diagnosis.difference.compare import compared
from strided.diagnosis.difference.operands import operand_of
from strided.diagnosis.difference.values import Tolerance


def assert_layout_equal(
    a: Any,
    b: Any,
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | np.integer[Any] | None = None,
    equal_nan: bool = True,
    limit: SupportsIndex = 10,
    err_msg: str = "",
    verbose: bool = True,
) -> None:
    """Raise AssertionError, with the report of `strided.diff`, unless two arrays are equal.

    Padding is never compared.

    Parameters
    ----------
    a, b, rtol, atol, max_ulp, equal_nan, limit
        As for `strided.diff`.
    err_msg : str
        Printed first on failure.
    verbose : bool
        Whether the map of the mismatches is printed, too.

    Raises
    ------
    AssertionError
        The elements or the shapes differ.
    OSError, StridedError, TypeError, ValueError
        As for `strided.diff`.

    Examples
    --------
    >>> import numpy as np
    >>> import strided as sd
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> assert_layout_equal(sd.LayoutArray.from_numpy(a, "{0,1:T(2,128)}"), a)
    >>> assert_layout_equal(a, a + np.eye(2, 3), atol=0.5, verbose=False)
    Traceback (most recent call last):
    AssertionError:
    a: f32[2,3]{1,0}
    b: f64[2,3]{1,0}
    2 of 6 elements differ, 33.3% (equal: |a - b| <= 0.5 + 0 * |b|)
    ...
    """
    __tracebackhide__ = True
    head = f"\n{err_msg}\n" if err_msg else "\n"
    first, second = operand_of(a, "a"), operand_of(b, "b")
    if first.shape != second.shape:
        raise AssertionError(f"{head}the shapes differ: a is {list(first.shape)}, b is {list(second.shape)}")
    found = compared(first, second, Tolerance(rtol, atol, max_ulp, equal_nan), limit)
    if not found.equal:
        raise AssertionError(head + found.text(map_rows=16 if verbose else 0))
