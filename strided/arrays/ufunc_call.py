"""One call of a universal function's method, and where NumPy's own differ from what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: What NumPy raises once it has computed all elements: the errors that np.errstate or a filter of warnings makes.
AFTERWARDS = FloatingPointError, RuntimeWarning
#: NumPy 2.4 leaves out some of their results if these are not contiguous, as in blocks.
_NEIGHBOURS_ONLY: set[np.ufunc] = {np.isnan, np.isfinite, np.isinf, np.signbit}


class UfuncCall(NamedTuple):
    """A call of a universal function's method, as ``__array_ufunc__`` gets it.

    Attributes
    ----------
    ufunc : numpy.ufunc
    method : str
        ``"__call__"``, ``"reduce"``, ``"at"`` and so on.
    inputs : tuple
    outs : tuple
        What stands at ``out=``, None where NumPy is to make an array; () without ``out=``.
    kwargs : dict
        All keywords, `out` among them.
    """

    ufunc: np.ufunc
    method: str
    inputs: tuple[Any, ...]
    outs: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def written(self) -> tuple[Any, ...]:
        """The arguments that it writes to; those of `outs` may be None."""
        return self.inputs[:1] if self.method == "at" else self.outs

    @property
    def options(self) -> dict[str, Any]:
        """The keywords that are no arrays."""
        return {name: value for name, value in self.kwargs.items() if name not in ("out", "where")}

    def of(self, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The method's result for other arguments."""
        return getattr(self.ufunc, self.method)(*inputs, **kwargs)


def errs_with_gaps(ufunc: np.ufunc, inputs: Sequence[Any]) -> bool:
    """Whether NumPy 2.4 may give other results of these inputs if the results are not contiguous."""
    if ufunc is not np.negative:
        return ufunc in _NEIGHBOURS_ONLY
    # Elements that lie as many of them apart as one has bytes are taken for contiguous.
    x = np.asarray(inputs[0])
    steps = [abs(stride) for stride, n in zip(x.strides, x.shape, strict=True) if n > 1]
    return x.itemsize >= 4 and min(steps, default=0) == x.itemsize**2


def is_refused_write(error: Exception) -> bool:
    """Whether NumPy refused to write to an operand, which it does before it computes anything."""
    return isinstance(error, ValueError) and "array with iterator write flag set is read-only" in str(error)
