"""Minimum, maximum, mean, and counts of NaNs and infinities of an array, in one pass and bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import run_boxes
from strided.layout.element_types import is_builtin
from strided.runtime.argument_checks import check_progress

#: Types of elements that are not numbers.
_NO_NUMBERS = (np.flexible, np.object_, np.datetime64, np.timedelta64)
#: Elements of one block.
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Statistics:
    """A summary of an array's values.

    Attributes
    ----------
    size : int
        Number of elements.
    minimum, maximum : int, float, bool or None
        Of the finite values. None if there are none, or if they are complex, which have no order.
    mean : float, complex or None
        Of the finite values, summed in double precision. None if there are none.
    nan, inf : int
        Numbers of NaNs and of infinities.
    """

    size: int
    minimum: float | None
    maximum: float | None
    mean: complex | None
    nan: int
    inf: int

    def __str__(self) -> str:
        counts = f"NaN {self.nan:,}  Inf {self.inf:,}"
        if self.mean is None:
            return counts
        extremes = "" if self.minimum is None else f"min {self.minimum:.6g}  max {self.maximum:.6g}  "
        return f"{extremes}mean {self.mean:.6g}  {counts}"


def statistics(array: Any, *, progress: Callable[[int], object] | None = None) -> Statistics:
    """A summary of the values of a LayoutArray or an ndarray.

    Parameters
    ----------
    array : LayoutArray, ndarray, or a function that returns one
        A function is called once for each block; if it maps a file, only the pages of one block stay in memory.
    progress : callable, optional
        Called after each block with its number of elements.

    Raises
    ------
    TypeError
        Not an array; elements that are not numbers, such as dates, records and objects.

    >>> import numpy as np
    >>> print(statistics(np.array([1.5, np.nan, -4, np.inf])))
    min -4  max 1.5  mean -1.25  NaN 1  Inf 1
    """
    check_progress(progress)
    opened = array if callable(array) else lambda: array
    array = opened()
    _refuse_other_than_numbers(array)
    order, totals = _order_in_memory(array), _Totals()
    for box in run_boxes(array.shape, _BLOCK_ELEMENTS, order):
        totals.add(_widened(np.asarray(opened()[(*box, ...)])))
        if progress is not None:
            progress(math.prod(s.stop - s.start for s in box))
    return totals.summary(math.prod(array.shape), is_complex=np.dtype(array.dtype).kind == "c")


def _refuse_other_than_numbers(array: Any) -> None:
    """TypeError for anything but an array of numbers or truth values."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(
            f"statistics takes a LayoutArray, an ndarray or a function that returns one, not {type(array).__name__}"
        )
    kind = np.dtype(array.dtype).type
    if issubclass(kind, _NO_NUMBERS) or not issubclass(kind, np.generic):
        raise TypeError(f"statistics takes numbers and truth values, not {array.dtype}")


def _order_in_memory(array: Any) -> tuple[int, ...] | None:
    """The axes from major to minor, so that each page of a file is read once; None without a layout."""
    layout = getattr(array, "layout", None)
    if layout is None or len(layout.minor_to_major) != len(array.shape):
        return None
    order: tuple[int, ...] = layout.minor_to_major[::-1]
    return order


@dataclass(slots=True)
class _Totals:
    """Running totals over the blocks that were read."""

    minimum: float = math.inf
    maximum: float = -math.inf
    total: Any = field(default_factory=np.clongdouble)
    finite: int = 0
    nan: int = 0
    inf: int = 0

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add the values of a block."""
        if values.dtype.kind in "fc":
            values = self._finite_of(values)
        if not values.size:
            return
        self.finite += values.size
        if values.dtype.kind != "c":
            self.minimum = min(self.minimum, values.min().item())
            self.maximum = max(self.maximum, values.max().item())
        self.total += _sum(values)

    def _finite_of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The finite values, after counting the others."""
        is_finite = np.isfinite(values)
        if is_finite.all():
            return values
        nan = int(np.count_nonzero(np.isnan(values)))
        self.nan += nan
        self.inf += int(values.size - np.count_nonzero(is_finite) - nan)
        finite: npt.NDArray[Any] = values[is_finite]
        return finite

    def summary(self, size: int, *, is_complex: bool) -> Statistics:
        """The summary of an array of `size` elements."""
        mean = None if not self.finite else complex(self.total / self.finite)
        if mean is not None and not is_complex:
            mean = mean.real
        low, high = (self.minimum, self.maximum) if self.minimum <= self.maximum else (None, None)
        return Statistics(size, low, high, mean, self.nan, self.inf)


def _sum(values: npt.NDArray[Any]) -> Any:
    """The sum of finite numbers, in long double if double precision overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.complex128 if values.dtype.kind == "c" else np.float64)
    return total if np.isfinite(total) else values.sum(dtype=np.clongdouble)


def _widened(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values in a built-in type of NumPy, which it reduces fast and without overflow."""
    if is_builtin(values.dtype) and values.dtype.kind in "iufc":
        return values
    if values.dtype.kind == "b":
        truths: npt.NDArray[np.bool_] = values.view(np.uint8) != 0  # any byte but 0 is true
        return truths.view(np.uint8)
    # A type of ml_dtypes: float32 or int8 holds each of its values exactly.
    return values.astype(np.int8 if np.can_cast(values.dtype, np.int8) else np.float32)
