"""A call of a universal function's method, and workarounds for bugs of NumPy's universal functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: What NumPy raises after computing all elements: errors by np.errstate or by warning filters.
AFTERWARDS = FloatingPointError, RuntimeWarning
#: NumPy 2.4 omits some results of these if the output is not contiguous, as in blocks.
_CONTIGUOUS_ONLY: set[np.ufunc] = {np.isnan, np.isfinite, np.isinf, np.signbit}


class UfuncCall(NamedTuple):
    """A call of a universal function's method, as passed to ``__array_ufunc__``.

    Attributes
    ----------
    ufunc : numpy.ufunc
    method : str
        ``"__call__"``, ``"reduce"``, ``"at"`` and so on.
    inputs : tuple
    outs : tuple
        The argument ``out``, with None where NumPy makes the array; () if there is none.
    kwargs : dict
        All keyword arguments, including `out`.
    """

    ufunc: np.ufunc
    method: str
    inputs: tuple[Any, ...]
    outs: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def written(self) -> tuple[Any, ...]:
        """The arguments that are written to; those of `outs` may be None."""
        return self.inputs[:1] if self.method == "at" else self.outs

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments except the arrays `out` and `where`."""
        return {name: value for name, value in self.kwargs.items() if name not in ("out", "where")}

    def of(self, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the method with other arguments."""
        return getattr(self.ufunc, self.method)(*inputs, **kwargs)


def errs_with_gaps(ufunc: np.ufunc, inputs: Sequence[Any]) -> bool:
    """Whether NumPy 2.4 may compute wrong results for these inputs if the output is not contiguous."""
    if ufunc is not np.negative:
        return ufunc in _CONTIGUOUS_ONLY
    # NumPy mistakes a stride of `itemsize` elements for a contiguous one.
    x = np.asarray(inputs[0])
    steps = [abs(stride) for stride, n in zip(x.strides, x.shape, strict=True) if n > 1]
    return x.itemsize >= 4 and min(steps, default=0) == x.itemsize**2


def is_refused_write(error: Exception) -> bool:
    """Whether NumPy raised because an operand is read-only, which it does before computing anything."""
    return isinstance(error, ValueError) and "array with iterator write flag set is read-only" in str(error)
