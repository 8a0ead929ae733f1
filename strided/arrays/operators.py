"""The operators of an array: they call universal functions; in-place ones write to the buffer.

They defer to other operands as an ndarray's operators do. If the other operand may support only ndarrays, it gets one:
``a * csr`` is ``np.asarray(a) * csr``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from strided.arrays import deferral, partners, ufuncs
from strided.arrays.base import Array, ArrayBase


class _UfuncProbe(np.ndarray[Any, Any]):
    """An ndarray whose operators return the universal function that NumPy would call."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # For integers ** 2.0, NumPy 2.0 squares a converted copy in place, which is np.power of the array itself.
        return np.power if "out" in kwargs else ufunc


def _as_operand(array: ArrayBase) -> Array:
    """An ndarray for the operator of another object: the array's own memory, or a converted copy.

    Unlike that of ``np.asarray``, the copy is writeable, because torch warns of read-only memory.
    """
    return np.asarray(array) if array.is_strided else array.to_numpy()


def _forward(ufunc: np.ufunc, operation: Callable[[Any, Any], Any]) -> Any:
    """``a + x``."""

    def method(self: Operators, other: Any) -> Any:
        if isinstance(other, np.ndarray) and deferral.wants_ndarray(other):
            return operation(_as_operand(self), other)  # np.matrix overrides multiplication from either side
        if deferral.opts_out(other):
            return NotImplemented
        if deferral.precedes(other):
            return operation(_as_operand(self), other)
        return self._applied(ufunc, other)

    return method


def _with_modulus(power: Any) -> Any:
    """``pow(a, x, modulus)``, which NumPy does not support."""

    def method(self: Operators, other: Any, modulus: Any = None) -> Any:
        return power(self, other) if modulus is None else NotImplemented

    method.__name__ = power.__name__
    return method


def _reflected(ufunc: np.ufunc, operation: Callable[[Any, Any], Any]) -> Any:
    """``x + a`` after `x` returned NotImplemented; it may still support ndarrays."""

    def method(self: Operators, other: Any) -> Any:
        if deferral.is_plain(other):
            return ufunc(other, self)
        if partners.introduce():
            return operation(other, self)  # the library of `other` was just taught about our arrays
        if deferral.wants_ndarray(other) or hasattr(type(other), method.__name__.replace("__r", "__", 1)):
            return operation(other, _as_operand(self))
        return ufunc(other, self)

    return method


def _in_place(ufunc: np.ufunc, operation: Callable[[Any, Any], Any]) -> Any:
    """``a += x``."""

    def method(self: Operators, other: Any) -> Any:
        if deferral.precedes(other):
            return operation(np.asarray(self), other)
        return self._changed(ufunc, other)

    return method


def _methods(names: str, make: Callable[..., Any], *, prefix: str = "") -> dict[str, Any]:
    """The methods by name, for operators listed as ``name=ufunc``."""
    found = {}
    for item in names.split():
        name, _, ufunc = item.partition("=")
        function = f"__i{name}__" if prefix == "i" else f"__{name}__"  # `operator` has no reflected functions
        method = make(getattr(np, ufunc), divmod if name == "divmod" else getattr(operator, function))
        method.__name__ = f"__{prefix}{name}__"
        found[method.__name__] = method
    return found


_COMPARISONS = "lt=less le=less_equal gt=greater ge=greater_equal eq=equal ne=not_equal"
_WITH_IN_PLACE = (
    "add=add sub=subtract mul=multiply matmul=matmul truediv=divide floordiv=floor_divide mod=remainder pow=power "
    "lshift=left_shift rshift=right_shift and=bitwise_and xor=bitwise_xor or=bitwise_or"
)
_BINARY = f"{_WITH_IN_PLACE} divmod=divmod"


class Operators(np.lib.mixins.NDArrayOperatorsMixin, ArrayBase):
    """Mixin: operators, which call universal functions."""

    __slots__ = ()
    #: That of an ndarray, so that other classes take precedence by the same rules.
    __array_priority__: float = deferral.NDARRAY_PRIORITY

    def _applied(self, ufunc: np.ufunc, other: Any) -> Any:
        if ufunc in (np.equal, np.not_equal):
            return self._compared(ufunc, other)
        if ufunc is np.power:
            ufunc = self._power(other)
            if ufunc is not np.power:
                return ufunc(self)
        return ufunc(self, other)

    def _changed(self, ufunc: np.ufunc, other: Any) -> Any:
        if ufunc is np.power and (chosen := self._power(other)) is not np.power:
            return chosen(self, out=(self,))
        call: Any = ufunc  # for mypy, it accepts only ndarrays
        if ufunc is not np.matmul:
            return call(self, other, out=(self,))
        # As NumPy does: with these axes the result is not broadcast into the array.
        axes = [(-1,), (-2, -1), (-1,)] if self.ndim == 1 else [(-2, -1)] * 3
        try:
            return call(self, other, out=(self,), axes=axes)
        except np.exceptions.AxisError:
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second at "
                "least two dimensions."
            ) from None

    def _compared(self, ufunc: np.ufunc, other: Any) -> Any:
        compare = operator.eq if ufunc is np.equal else operator.ne
        if self.dtype.type is np.void:  # structured, or untyped bytes
            return compare(np.asarray(self), np.asarray(other) if isinstance(other, ArrayBase) else other)
        try:
            return ufunc(self, other)
        except np._core._exceptions._UFuncNoLoopError:  # type: ignore[attr-defined]
            # In NumPy, operands that cannot be compared are unequal.
            return compare(self.stand_in(), other)

    def _power(self, exponent: Any) -> np.ufunc:
        """The universal function that NumPy calls for a power: `square` for 2, for example."""
        if not isinstance(exponent, (int, float, complex, np.generic, np.ndarray)) or np.ndim(exponent):
            return np.power
        chosen: Any = np.zeros((1,) * self.ndim, self.dtype).view(_UfuncProbe) ** exponent
        return chosen if isinstance(chosen, np.ufunc) else np.power

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufuncs.call(ufunc, method, inputs, kwargs)


for _name, _method in (
    *_methods(f"{_BINARY} {_COMPARISONS}", _forward).items(),
    *_methods(_BINARY, _reflected, prefix="r").items(),
    *_methods(_WITH_IN_PLACE, _in_place, prefix="i").items(),
):
    setattr(Operators, _name, _with_modulus(_method) if _name == "__pow__" else _method)
