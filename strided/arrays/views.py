"""Views other than by indexing: transposes, reshapes, parts of complex numbers, other dtypes of the same width.

Each is another map on the same memory and copies nothing. Wrong arguments raise NumPy's exceptions: the operation is
first applied to a stand-in of the same shape that takes no memory.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.lib.stride_tricks import as_strided

from strided.addressing.address_map import AddressMap
from strided.arrays.base import Array, ArrayBase, LayoutBuffer
from strided.arrays.flags import Flags
from strided.arrays.flatiter import Flat
from strided.arrays.index_ranges import strides_in_order
from strided.layout.element_types import known_element_type
from strided.runtime.argument_checks import check_function
from strided.transfer.flat_memory import address_of


class Views(ArrayBase):
    """Mixin: views."""

    __slots__ = ()

    @property
    def T(self) -> Self:
        """The view with the axes reversed."""
        return self._with_map(self._map.reversed_axes)

    @property
    def mT(self) -> Self:
        """The view with the last two axes swapped."""
        if self.ndim < 2:
            return self._rearranged(lambda x: x.mT)  # NumPy raises
        return self.swapaxes(-1, -2)

    def transpose(self, *axes: Any) -> Self:
        """The view whose axis k is axis ``axes[k]`` of this one; by default the axes are reversed."""
        return self._rearranged(lambda x: x.transpose(*axes))

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex, /) -> Self:
        """The view with two axes interchanged."""
        return self._rearranged(lambda x: x.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> Self:
        """The view without axes of size 1: those in `axis`, or all."""
        return self._rearranged(lambda x: x.squeeze(axis))

    def rearranged(self, operation: Callable[[Array], Array]) -> Self:
        """The view by a NumPy operation that moves or flips axes, or adds or drops axes of size 1.

        The operation is applied to a stand-in whose strides identify its axes, and which is never read. If it returns
        the stand-in itself, as `squeeze` with nothing to drop, the result is this array itself.

        Raises
        ------
        ValueError
            The operation does anything else: it selects, repeats or computes elements, or joins axes.

        Examples
        --------
        >>> import strided as sd
        >>> a = sd.LayoutArray.from_numpy(np.arange(6, dtype=np.int8).reshape(2, 3), "{1,0:T(2,4)}")
        >>> a.rearranged(np.rot90).tolist()
        [[2, 5], [1, 4], [0, 3]]
        """

        check_function(operation, "operation")

        def checked(stand_in: Array) -> Array:
            result = operation(stand_in)
            if result is not stand_in and not _moves_axes(stand_in, result):
                raise ValueError("rearranged takes an operation that only moves, flips, adds or drops axes")
            return result

        return self._rearranged(checked)

    def _rearranged(self, operation: Callable[[Array], Array]) -> Self:
        """`rearranged` without checking what the operation does."""
        numbers = tuple(range(1, self.ndim + 1))
        stand_in = as_strided(np.zeros(0, np.int8), self.shape, numbers)
        result = operation(stand_in)
        if result is stand_in:
            return self
        strides = result.strides if self.ndim else (0,) * result.ndim
        order = [abs(s) - 1 for s in strides if s]
        map_ = self._map
        for axis in reversed(range(self.ndim)):
            if axis not in order:
                map_ = map_.at(axis, 0)
            elif -axis - 1 in strides:
                n = self.shape[axis]
                map_ = map_.sliced(axis, max(0, n - 1), -1, n)
        kept = sorted(order)
        map_ = map_.transposed([kept.index(axis) for axis in order])
        for axis, stride in enumerate(strides):
            if not stride:
                map_ = map_.with_axis(axis)
        return self._with_map(map_)

    def expand_dims(self, axis: Any) -> Self:
        """The view with new axes of size 1 at these positions of the result."""
        places = axis if isinstance(axis, (tuple, list)) else (axis,)
        wanted = set(normalize_axis_tuple(places, self.ndim + len(places)))
        key = tuple(None if k in wanted else slice(None) for k in range(self.ndim + len(places)))
        return self[(*key, ...)]  # type: ignore[no-any-return]  # the ellipsis keeps a 0-d view

    def broadcast_to(self, shape: Any) -> Self:
        """The read-only view broadcast to a shape."""
        wanted = np.broadcast_to(self.stand_in(), shape).shape
        return self._with_map(self._map.broadcast_to(wanted), self._memory.read_only())

    def diagonal(self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Self:
        """The read-only view of a diagonal of two axes, which becomes the last axis."""
        self.stand_in().diagonal(offset, axis1, axis2)
        first, second = (normalize_axis_index(operator.index(axis), self.ndim) for axis in (axis1, axis2))
        map_ = self._map.diagonal(operator.index(offset), first, second)
        return self._with_map(map_, self._memory.read_only())

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self | Array:
        """The same elements in another shape: a view where NumPy returns one and the layout allows it, else a copy.

        NumPy returns a view if the strides allow it. An array without strides is treated as an ndarray whose axes have
        the same order in memory: rows of ``{1,0:T(2,4)}`` can be joined; columns, or every other row, cannot. Copies of
        such arrays are read-only, as those of `numpy.asarray`, unless `copy` is True: otherwise writes would be lost
        where NumPy returns a view.

        Raises
        ------
        ValueError
            The sizes do not match, or a copy is needed and `copy` is False.

        >>> import strided as sd
        >>> a = sd.LayoutArray.from_numpy(np.arange(8).reshape(2, 4), "{1,0:T(2,2)}")
        >>> type(a.reshape(8)).__name__, type(a.T.reshape(8)).__name__, type(a[:, :3].reshape(6)).__name__
        ('LayoutArray', 'ndarray', 'ndarray')
        """
        if copy not in (None, True, False):
            np.empty(0).reshape(0, order=order)  # type: ignore[call-overload]  # errors of `order` come first
            np.array(0, copy=copy)  # raises for strings
        stand_in = self.stand_in()
        wanted = stand_in.reshape(*shape, order=order).shape  # type: ignore[call-overload]
        backwards = _is_fortran(self, order)
        found = None if copy else self._reshaped(wanted, backwards)
        if found is not None:
            return found
        if copy is not None and not copy:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return self._converted(wanted, backwards, writeable=bool(copy) or self.is_strided)

    def ravel(self, order: str = "C") -> Self | Array:
        """The elements in one axis: a view if the array is contiguous in that order, otherwise a copy.

        The copy is read-only, as that of `numpy.asarray`, unless the array has strides; that of `flatten` never is.

        >>> import strided as sd
        >>> a = sd.LayoutArray.from_numpy(np.arange(8).reshape(2, 4), "{1,0:T(2,2)}")
        >>> type(a.ravel()).__name__, type(a[:, :2].ravel()).__name__
        ('ndarray', 'LayoutArray')
        """
        # Raises for an invalid order. (A stand-in of this shape would be copied.)
        np.empty(()).ravel(order)  # type: ignore[arg-type]
        flags = self.flags
        if order in ("K", "k") and self.is_strided and not flags.forc:
            return self.as_strided().ravel("K")
        backwards = _is_fortran(self, "A" if order in ("K", "k") else order)
        if flags.f_contiguous if backwards else flags.c_contiguous:
            found = self._reshaped((self.size,), backwards)
            assert found is not None
            return found
        return self._converted((-1,), backwards, writeable=self.is_strided)

    def _converted(self, shape: Sequence[int], backwards: bool, *, writeable: bool) -> Array:
        """The values in another shape, in column-major order if `backwards`."""
        values = (self.T if backwards else self).to_numpy()
        values.flags.writeable = writeable
        return (values.T if backwards else values).reshape(shape, order="F" if backwards else "C")

    def _reshaped(self, shape: Sequence[int], backwards: bool) -> Self | None:
        """The view of another shape, in column-major order if `backwards`; None if a copy is needed."""
        way = -1 if backwards else 1
        wanted = tuple(shape)[::way]
        if self.size:
            # If strides are unknown, use 1 for all: then axes can be split but not joined.
            strides = strides_in_order(self) or (1,) * self.ndim
            if not _is_view(self.shape[::way], strides[::way], wanted):
                return None
        map_ = (self._map.reversed_axes if backwards else self._map).reshaped(wanted)
        if map_ is None:
            return None
        return self._with_map(map_.reversed_axes if backwards else map_)

    @property
    def real(self) -> Self | Array:
        """The real parts: a view for complex numbers, the array itself for others."""
        return self._half(0) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = _part(value)

    @property
    def imag(self) -> Self | Array:
        """The imaginary parts: a view for complex numbers, read-only zeros for others."""
        if self.dtype.kind == "c":
            return self._half(1)
        zeros = np.zeros(self.shape, self.dtype)
        zeros.flags.writeable = False
        return zeros

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            self.stand_in(writeable=True).imag = value  # NumPy raises
        self.imag[...] = _part(value)

    def _half(self, which: int) -> Self:
        memory = self._memory
        dtype = np.dtype(f"{memory.dtype.byteorder}f{memory.bits // 16}")
        return self._with_map(self._map.scaled(2, which), replace(memory, dtype=dtype, bits=memory.bits // 2))

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same bits as another dtype of the same width; without arguments, another view of the same array.

        A subclass of ndarray may be passed in place of the dtype. For a subclass, or a dtype of another width, the
        result is an ndarray, and the array must have strides.

        Raises
        ------
        BufferError
            The array has no strides, and the dtype has another width or a subclass is given.

        >>> import strided as sd
        >>> a = sd.LayoutArray.from_numpy(np.ones((2, 3), np.float32), "{0,1:T(2,2)}")
        >>> hex(a.view(np.uint32)[0, 0])
        '0x3f800000'
        """
        if type is None and isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray):
            dtype, type = None, dtype  # as in NumPy, the first argument may be either
        if type is not None:
            return self.as_strided().view(type) if dtype is None else self.as_strided().view(dtype, type)
        if dtype is None:
            return self._with_map(self._map)
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self._with_map(self._map)
        if _is_alike(wanted, self._memory):
            return self._with_map(self._map, replace(self._memory, dtype=wanted))
        return self.as_strided().view(wanted)

    @property
    def flat(self) -> Flat:
        """An iterator over the elements in row-major order that can be indexed."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        if not self.flags.writeable:
            self.stand_in().flat = value  # type: ignore[misc]  # NumPy raises, with its own message
        self.flat[...] = value

    @property
    def flags(self) -> Flags:
        """NumPy's flags of the memory."""
        return Flags(self)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Forbid writing through this array (but not its existing views), or allow it again if the buffer is writeable.

        Raises
        ------
        ValueError
            The buffer is read-only, or another flag would change.
        """
        if align is not None and bool(align) != self.flags.aligned:
            raise ValueError(
                "cannot set aligned flag of mis-aligned array to True" if align else "align cannot be unset"
            )
        if uic:
            raise ValueError("cannot set WRITEBACKIFCOPY flag to True")
        if write is not None:
            self.flags.writeable = write


@lru_cache(maxsize=512)
def _is_view(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether NumPy reshapes an array of these strides without a copy, in row-major order."""
    reshaped = AddressMap.from_strides(shape, strides).reshaped(wanted)
    return reshaped is not None and reshaped.strides is not None


def _part(value: Any) -> Any:
    """`value` as it is assigned to a real or imaginary part.

    NumPy before 2.5 casts numbers there as it casts arrays: without an error if they do not fit.
    """
    if isinstance(value, ArrayBase) or np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        return value
    return np.asarray(value)


def _is_alike(dtype: np.dtype[Any], memory: LayoutBuffer) -> bool:
    """Whether elements of a buffer can be viewed as another dtype: it has the same width, also of packed elements."""
    if memory.bits >= 8:
        return dtype.itemsize == memory.dtype.itemsize and not dtype.shape and not dtype.hasobject
    found = known_element_type(dtype)
    return found is not None and found.bits == memory.bits


def _is_fortran(array: ArrayBase, order: str) -> bool:
    """Whether NumPy's `order` means column-major for this array."""
    return order in ("F", "f") or (order in ("A", "a") and array.flags.fnc)


def _moves_axes(x: Array, result: Any) -> bool:
    """Whether a result is `x` (all of whose strides differ) with axes only moved, flipped, added or dropped."""
    if not isinstance(result, np.ndarray):
        return False
    if not x.ndim:
        return result.size == 1
    sizes, start = dict(zip(x.strides, x.shape, strict=True)), 0
    for size, stride in zip(result.shape, result.strides, strict=True):
        if size != (sizes.pop(abs(stride), None) if stride else 1):
            return False
        start += max(0, -stride) * (size - 1)
    if any(size != 1 for size in sizes.values()):
        return False
    return not x.size or address_of(result) == address_of(x) + start
