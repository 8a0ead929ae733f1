"""Index to offset and back, for a shape; named as in XLA's ``IndexUtil`` where that has the function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.errors import LayoutError, UnsupportedError
from strided.layout.validation import INT64_MAX
from strided.runtime.argument_checks import whole
from strided.runtime.lazy import lazy

if TYPE_CHECKING:
    from strided.addressing.expansion import Expansion
    from strided.layout.layout import Layout

Index: TypeAlias = Sequence[Any]

#: One integer. Not SupportsIndex: for type checkers that includes arrays.
Integer: TypeAlias = int | np.integer[Any]


def refuse_split(shape: object, layout: Layout) -> None:
    """Raise UnsupportedError if the layout of `shape` is split."""
    if layout.split_configs:
        raise UnsupportedError(f"{shape} is split (SC): it is not public where the pieces lie, so it has no addresses")


def _first_outside(values: npt.NDArray[np.integer[Any]], stop: int) -> np.integer[Any] | None:
    """The first value that is negative or not below `stop`; None if there is none."""
    if not values.size or (values.min() >= 0 and values.max() < stop):
        return None
    outside: np.integer[Any] = values[(values < 0) | (values >= stop)].flat[0]
    return outside


class Addressing:
    """The addresses of a shape's elements."""

    if TYPE_CHECKING:
        dimensions: tuple[int, ...]

        @property
        def rank(self) -> int: ...
        @property
        def element_bits(self) -> int: ...
        @property
        def expansion(self) -> Expansion: ...
        @property
        def _array_layout(self) -> Layout: ...
        @property
        def _known_dimensions(self) -> tuple[int, ...]: ...
        def dimension_number(self, dimension: SupportsIndex) -> int: ...

    @lazy
    def address_map(self) -> AddressMap:
        """From logical index to element offset; UnsupportedError for a split layout."""
        refuse_split(self, self._array_layout)
        return self.expansion.address_map

    def in_bounds(self, index: Index) -> bool:
        """Whether an index, one integer for each dimension, is inside the array. Negative integers are not.

        >>> from strided import parse_shape
        >>> parse_shape("f32[2,3]").in_bounds((1, 2)), parse_shape("f32[2,3]").in_bounds((0, -1))
        (True, False)
        """
        at = self._as_list(index)
        return len(at) == self.rank and all(
            0 <= whole(i, "an index") < n for i, n in zip(at, self._known_dimensions, strict=True)
        )

    def next_index(self, index: Index) -> tuple[int, ...] | None:
        """The next index in row-major order, or None after the last. IndexError out of bounds.

        >>> from strided import parse_shape
        >>> parse_shape("f32[2,3]").next_index((0, 2))
        (1, 0)
        """
        following = [whole(i, "an index") for i in self._checked_index(index)]
        for d in range(self.rank - 1, -1, -1):
            following[d] += 1
            if following[d] < self.dimensions[d]:
                return tuple(following)
            following[d] = 0
        return None

    def stride_of(self, dimension: SupportsIndex) -> int:
        """Elements from one index to the next in a dimension; negative dimensions count from the end.

        Raises
        ------
        LayoutError
            The dimension is tiled and has no single stride; or the shape has no addresses, as for `offset_of`.
        IndexError
            There is no such dimension.

        >>> from strided import parse_shape
        >>> parse_shape("f32[3,5]{0,1}").stride_of(1)
        3
        """
        d = self.dimension_number(dimension)
        strides = self.address_map.transposed((d,)).strides  # along this dimension alone
        if strides is None or (self.dimensions[d] == 1 and self._array_layout.tiles):
            raise LayoutError(f"dimension {d} of {self} has no stride: tiles cut it")
        if self.dimensions[d] == 1:
            order = self._array_layout.minor_to_major
            padded = self._array_layout.padded_dimensions or self.dimensions
            return math.prod(padded[k] for k in order[: order.index(d)])
        return strides[0]

    @overload
    def offset_of(self, index: Sequence[Integer]) -> int: ...

    @overload
    def offset_of(self, index: Any) -> Any: ...

    def offset_of(self, index: Any) -> Any:
        """Offset of an element from the start of the buffer, in elements.

        Parameters
        ----------
        index : sequence of int, or of integer arrays that broadcast together
            One for each dimension, within bounds.

        Returns
        -------
        int, or an int64 array if `index` contains arrays

        Raises
        ------
        IndexError
            An index is out of bounds or negative, or there is not one for each dimension.
        TypeError
            `index` is not a sequence, or contains neither integers nor arrays.
        ValueError
            The arrays do not broadcast together.
        LayoutError, UnsupportedError
            The shape has no addresses: a dimension of unknown size, a split layout.

        Examples
        --------
        >>> from strided import parse_shape
        >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
        >>> shape.offset_of((2, 3))
        17
        >>> shape.offset_of(([0, 1, 2], 3))
        array([ 5,  7, 17])
        """
        at = self._checked_index(index)
        if all(isinstance(i, int) for i in at):
            return int(self.address_map.offset_of(at))
        offsets = np.asarray(self.address_map.offset_of(at), np.int64)
        shape = np.broadcast_shapes(*map(np.shape, at))
        return offsets if offsets.shape == shape else np.broadcast_to(offsets, shape).copy()

    @overload
    def bit_offset_of(self, index: Sequence[Integer]) -> int: ...

    @overload
    def bit_offset_of(self, index: Any) -> Any: ...

    def bit_offset_of(self, index: Any) -> Any:
        """Offset of an element from the first slot of the buffer, in bits: byte ``bits // 8``, bit ``bits % 8``.

        Packed elements fill a byte from its low bits up. The metadata prefix, ``M(n)``, is not counted. Arguments and
        errors are those of `offset_of`; also UnsupportedError if bit offsets of index arrays do not fit 64 bits.

        >>> from strided import parse_shape
        >>> parse_shape("s4[10]{0:E(4)}").bit_offset_of((5,))
        20
        """
        offsets, bits = self.offset_of(index), self.element_bits
        if isinstance(offsets, np.ndarray) and offsets.max(initial=0) > INT64_MAX // bits:
            raise UnsupportedError(
                f"bit offsets of {self} do not fit 64-bit integers; one index at a time has no limit"
            )
        return offsets * bits

    def _as_list(self, index: Any) -> list[Any]:
        try:
            return list(index)
        except TypeError:
            raise TypeError(f"an index is a sequence of {self.rank} integers or arrays, not {index!r}") from None

    def _checked_index(self, index: Any) -> list[Any]:
        at = self._as_list(index)
        if len(at) != self.rank:
            raise IndexError(f"an index of {self} has {self.rank} numbers, not {len(at)}")
        for d, (i, n) in enumerate(zip(at, self._known_dimensions, strict=True)):
            if isinstance(i, (np.ndarray, list)) and np.ndim(i):
                values = np.asarray(i)
                if values.dtype.kind not in "iu" and values.size:
                    raise IndexError("arrays used as indices must be of integer type")
                if (wrong := _first_outside(values, n)) is not None:
                    raise IndexError(f"index {wrong} is out of bounds for dimension {d} of size {n}")
                at[d] = values.astype(np.int64, copy=False)
            else:
                at[d] = whole(i.item() if isinstance(i, np.ndarray) else i, "an index")
                if not 0 <= at[d] < n:
                    raise IndexError(f"index {at[d]} is out of bounds for dimension {d} of size {n}")
        return at

    @overload
    def index_at(self, offset: Integer) -> tuple[int, ...] | None: ...

    @overload
    def index_at(self, offset: Any) -> Any: ...

    def index_at(self, offset: Any) -> Any:
        """The logical index of the element at an offset.

        Parameters
        ----------
        offset : int or integer array
            In elements, within the padded buffer.

        Returns
        -------
        tuple of int, or None if the slot is padding
            For one offset.
        tuple of int64 arrays
            For an array of offsets: one array for each dimension, -1 for padding.

        Raises
        ------
        IndexError
            Past the end of the buffer, or negative.

        Examples
        --------
        >>> from strided import parse_shape
        >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
        >>> shape.index_at(17), shape.index_at(19)
        ((2, 3), None)
        """
        offsets, scalar = self._checked_offset(offset)
        index, over = self.expansion.coordinates_at(offsets)
        if scalar:
            return None if over >= 0 else tuple(int(i) for i in index)
        return tuple(np.where(over < 0, i, -1) for i in index)

    @overload
    def is_padding(self, offset: Integer) -> bool: ...

    @overload
    def is_padding(self, offset: Any) -> Any: ...

    def is_padding(self, offset: Any) -> Any:
        """Whether the slot at an offset, or at each of an array of offsets, holds no element.

        Offsets count elements from the start of the padded buffer; IndexError past its end, or for negative ones.

        >>> from strided import parse_shape
        >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
        >>> shape.is_padding(19), shape.is_padding([17, 19]).tolist()
        (True, [False, True])
        """
        offsets, scalar = self._checked_offset(offset)
        padding = self.expansion.coordinates_at(offsets)[1] >= 0
        return bool(padding) if scalar else padding

    def padding_dimension_at(self, offset: SupportsIndex) -> int | None:
        """The dimension that the slot at an offset pads; None if it holds an element.

        For padding of no logical dimension, this is the rank: if a tile has more dimensions than the array, and for
        tail padding. IndexError for an offset outside the buffer.

        >>> from strided import parse_shape
        >>> shape = parse_shape("f32[3,5]{1,0:T(2,2)}")
        >>> shape.padding_dimension_at(9), shape.padding_dimension_at(19), shape.padding_dimension_at(8)
        (1, 0, None)
        """
        over = int(self.expansion.coordinates_at(self._checked_offset(whole(offset, "offset"))[0])[1])
        return None if over < 0 else over

    def _checked_offset(self, offset: Any) -> tuple[npt.NDArray[np.int64], bool]:
        refuse_split(self, self._array_layout)
        limit = self.expansion.address_elements
        offsets = np.asarray(offset)
        if offsets.dtype.kind == "O" and isinstance(offset, int):
            raise IndexError(f"offset {offset} is out of bounds for a buffer of {limit} elements")
        if offsets.dtype.kind not in "iu" and offsets.size:
            raise TypeError(f"an offset is an integer, in elements, not {offset!r}")
        if (wrong := _first_outside(offsets, limit)) is not None:
            raise IndexError(f"offset {wrong} is out of bounds for a buffer of {limit} elements")
        return offsets.astype(np.int64, copy=False), offsets.ndim == 0
