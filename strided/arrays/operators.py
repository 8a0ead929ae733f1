"""The operators of an array: universal functions; in-place ones write to the buffer.

They defer to other operands as those of an ndarray do. An operand that may know only ndarrays gets one: ``a * csr`` is
``np.asarray(a) * csr``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from strided.arrays import deferral, partners, ufuncs
from strided.arrays.base import Array, ArrayBase


class _Asked(np.ndarray[Any, Any]):
    """An ndarray whose operators return the universal function that NumPy would call."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # NumPy 2.0 raises integers to the power 2.0 by squaring a converted copy in place, not the array itself.
        return np.power if "out" in kwargs else ufunc


def _as_operand(array: ArrayBase) -> Array:
    """An ndarray for an object that carries out an operator: the array's own memory, or a converted copy.

    The copy is writeable, unlike that of ``np.asarray``: torch warns of memory that is not.
    """
    return np.asarray(array) if array.is_strided else array.to_numpy()


def _forward(ufunc: np.ufunc, operation: Callable[[Any, Any], Any]) -> Any:
    """``a + x``."""

    def method(self: Operators, other: Any) -> Any:
        if isinstance(other, np.ndarray) and deferral.wants_ndarray(other):
            return operation(_as_operand(self), other)  # a matrix multiplies in its own way on either side
        if deferral.opts_out(other):
            return NotImplemented
        if deferral.precedes(other):
            return operation(_as_operand(self), other)
        return self._applied(ufunc, other)

    return method


def _with_modulus(power: Any) -> Any:
    """``pow(a, x, modulus)``, which NumPy does not know."""

    def method(self: Operators, other: Any, modulus: Any = None) -> Any:
        return power(self, other) if modulus is None else NotImplemented

    method.__name__ = power.__name__
    return method


def _reflected(ufunc: np.ufunc, operation: Callable[[Any, Any], Any]) -> Any:
    """``x + a`` after `x` returned NotImplemented: it may know ndarrays."""

    def method(self: Operators, other: Any) -> Any:
        if deferral.is_plain(other):
            return ufunc(other, self)
        if partners.introduce():
            return operation(other, self)  # now it knows our arrays
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
    """Methods by name, for operators given as ``name=ufunc``."""
    found = {}
    for item in names.split():
        name, _, ufunc = item.partition("=")
        function = f"__i{name}__" if prefix == "i" else f"__{name}__"  # there is none for what is reflected
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
    """Mixin: operators, by way of universal functions."""

    __slots__ = ()
    #: That of an ndarray: other classes take precedence as over an ndarray.
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
        call: Any = ufunc  # mypy takes it for a function of ndarrays alone
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
            # To NumPy, operands that cannot be compared are unequal.
            return compare(self.stand_in(), other)

    def _power(self, exponent: Any) -> np.ufunc:
        """The universal function by which NumPy raises to a power: to the second by `square`."""
        if not isinstance(exponent, (int, float, complex, np.generic, np.ndarray)) or np.ndim(exponent):
            return np.power
        chosen: Any = np.zeros((1,) * self.ndim, self.dtype).view(_Asked) ** exponent
        return chosen if isinstance(chosen, np.ufunc) else np.power

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufuncs.call(ufunc, method, inputs, kwargs)


for _name, _method in (
    *_methods(f"{_BINARY} {_COMPARISONS}", _forward).items(),
    *_methods(_BINARY, _reflected, prefix="r").items(),
    *_methods(_WITH_IN_PLACE, _in_place, prefix="i").items(),
):
    setattr(Operators, _name, _with_modulus(_method) if _name == "__pow__" else _method)
