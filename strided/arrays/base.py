"""The base of LayoutArray: a buffer, and a map from indices to the elements in it.

All views of an array share one `LayoutBuffer`. `ArrayBase` is one view, and the type for `isinstance` checks. Mixins
add NumPy's behaviour; `layout_array` combines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.buffer_spec import BufferSpec
from strided.files.mapping import MappedFile
from strided.layout import Layout, Shape
from strided.layout.element_types import element_type_of_dtype
from strided.runtime.lazy import lazy
from strided.transfer import copy as transfer

if TYPE_CHECKING:
    from strided.arrays.flags import Flags

Array: TypeAlias = npt.NDArray[Any]


@dataclass(eq=False)
class LayoutBuffer:
    """A buffer and the type of its elements.

    Attributes
    ----------
    buffer : ndarray of uint8
        The flat bytes, padding included.
    spec : BufferSpec
        What the whole buffer contains.
    dtype : numpy.dtype
        The type of the values.
    bits : int
        Bits of one element.
    bitorder : str
        "little" or "big".
    excess : int
        Bytes after the array in the buffer that the caller passed.
    file : MappedFile or None
        The file whose mapping the buffer is.
    """

    buffer: npt.NDArray[np.uint8]
    spec: BufferSpec
    dtype: np.dtype[Any]
    bits: int
    bitorder: str = "little"
    excess: int = 0
    file: MappedFile | None = None

    @lazy
    def elements(self) -> Array:
        """The elements, indexed by offset, on the same memory; if packed, instead the values by bit pattern."""
        if self.bits < 8:
            return np.arange(1 << self.bits, dtype=np.uint8).view(self.dtype)
        return self.buffer[: self.buffer.size // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)

    @lazy
    def region(self) -> transfer.Region:
        """The whole array as a region, for conversions."""
        return transfer.Region(self.buffer, self.spec.address_map, self.bits, self.bitorder == "little")

    def begin_writing(self) -> None:
        """Call this before writing: checks that the buffer is writeable and its file intact, and marks the file dirty.

        Raises
        ------
        ValueError
            The buffer is read-only.
        BufferSizeError
            The file was truncated.
        """
        if not self.buffer.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if self.file is not None:
            self.file.check()
            self.file.mark_dirty()

    def value_at(self, offset: int) -> Any:
        """The element at an offset, as a NumPy scalar."""
        if self.file is not None:
            self.file.check()
        bits = self.bits
        if bits >= 8:
            return self.elements[offset]
        byte, place = self.buffer.item(offset * bits >> 3), offset * bits & 7
        shift = place if self.bitorder == "little" else 8 - bits - place
        return self.elements[byte >> shift & ((1 << bits) - 1)]

    def read_only(self) -> LayoutBuffer:
        """This buffer with a read-only view of the memory."""
        buffer = self.buffer.view()
        buffer.flags.writeable = False
        return replace(self, buffer=buffer)


class ArrayBase:
    """A view of an array in a layout: a buffer, and the map from indices to offsets.

    `_memory`, `_map` and `_with_map` are internal to this package.
    """

    # NumPy's random generators read the flags of any `out` at the position that they have in an ndarray's struct,
    # without checking its type. The unused slots make sure that zeros lie there; other memory could crash the process.
    __slots__ = ("__weakref__", "_map", "_memory", *(f"_no_flags{k}" for k in range(5)))

    _memory: LayoutBuffer
    _map: AddressMap

    if TYPE_CHECKING:
        # Members of some mixins that others use.
        real: Any
        imag: Any
        flat: Any

        @property
        def flags(self) -> Flags: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...
        def _at_points(self, arrays: Sequence[npt.NDArray[Any]]) -> Array | None: ...
        def _gathered(self, shape: tuple[int, ...], index: Sequence[Any]) -> Array: ...
        def _select(self, key: Any) -> Any: ...
        def _scatter(self, offsets: npt.NDArray[np.int64], values: Array) -> None: ...
        def _is_sooner_converted(self, count: int) -> bool: ...
        def _set_converted(self, change: Callable[[Array], None]) -> None: ...
        def _cast(self, value: Any, key: Any, shape: tuple[int, ...]) -> Array: ...
        def _judge(self, key: Any, value: Any) -> None: ...
        def _rearranged(self, operation: Callable[[Array], Array]) -> Self: ...
        def broadcast_to(self, shape: Any) -> Self: ...
        def diagonal(self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Self: ...
        def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self | Array: ...

    def _with_map(self, map_: AddressMap, memory: LayoutBuffer | None = None) -> Self:
        """The view with this map, on the same memory by default."""
        other = object.__new__(type(self))
        other._memory = self._memory if memory is None else memory
        other._map = map_
        return other

    # Properties.

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._map.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self._memory.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._map.shape)

    @property
    def size(self) -> int:
        """Number of elements, padding not counted."""
        return self._map.size

    @property
    def itemsize(self) -> int:
        """Bytes of one value in NumPy."""
        return self._memory.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the values in NumPy, ``size * itemsize``; for those of the buffer, see ``a.buffer.nbytes``."""
        return self._map.size * self._memory.dtype.itemsize

    @property
    def spec(self) -> BufferSpec:
        """What the whole buffer contains; this array may be a view of it."""
        return self._memory.spec

    @property
    def xla_shape(self) -> Shape:
        """The shape of the whole array in the buffer; this array may be a view of it.

        Raises
        ------
        AttributeError
            The buffer's spec is not an XLA shape.
        """
        spec = self._memory.spec
        if not isinstance(spec, Shape):
            raise AttributeError(f"{spec} is not an XLA shape; a.spec describes the buffer")
        return spec

    @property
    def layout(self) -> Layout:
        """The layout of the buffer; errors as for `xla_shape`."""
        layout = self.xla_shape.layout
        assert layout is not None
        return layout

    @property
    def element_type(self) -> str:
        """XLA's name for the element type.

        Raises
        ------
        UnsupportedError
            XLA has no element type for the dtype.
        """
        spec = self._memory.spec
        if isinstance(spec, Shape) and spec.dtype == self.dtype:
            return spec.element_type
        return element_type_of_dtype(self.dtype).name

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The flat bytes, padding included, on the same memory, without a metadata prefix (`M(n)`)."""
        if self._memory.file is not None:
            self._memory.file.mark_dirty()
        return self._memory.buffer

    @property
    def excess_bytes(self) -> int:
        """Bytes after the array in the buffer that the caller passed."""
        return self._memory.excess

    @property
    def bitorder(self) -> str:
        """Whether the first packed element of a byte is in its low bits ("little") or in its high bits ("big")."""
        return self._memory.bitorder

    @property
    def file(self) -> MappedFile | None:
        """The file that `strided.open` mapped; None for other buffers."""
        file = self._memory.file
        return file if file is not None and file.path else None

    @property
    def address_map(self) -> AddressMap:
        """The map from an index of this array to an element offset in the buffer."""
        return self._map

    @property
    def is_view(self) -> bool:
        """Whether this differs from the whole array in the buffer, in elements, order, shape or dtype."""
        memory = self._memory
        whole = memory.spec.address_map
        return (self._map is not whole and self._map != whole) or memory.dtype != memory.spec.dtype

    @property
    def region(self) -> transfer.Region:
        """Buffer, map and element format, for conversions.

        Raises
        ------
        BufferSizeError
            The file behind the buffer was truncated.
        """
        memory = self._memory
        if memory.file is not None:
            memory.file.check()
        whole = memory.region
        if self._map is whole.map:
            return whole
        return transfer.Region(whole.buffer, self._map, whole.bits, whole.low_first)

    # Conversion to an ndarray.

    def to_numpy(self, out: Array | None = None) -> Array:
        """The values as an ndarray, by default a new one; `out` must have the same shape and dtype.

        Raises
        ------
        ValueError
            `out` has another shape or dtype, or is read-only.
        """
        if out is None:
            return np.ndarray(self.shape, self.dtype, self.dense_bytes())
        refuse_unlike(out, self.shape, self.dtype)
        move(self.region, transfer.region_of_ndarray(out))
        return out

    def dense_bytes(self) -> npt.NDArray[np.uint8]:
        """The values in row-major order as the bytes of a new ndarray."""
        dense = transfer.dense_region(self.shape, self.itemsize)
        transfer.copy(self.region, dense)
        return dense.buffer

    def as_strided(self) -> Array:
        """An ndarray on the same memory, if the array has strides and its elements are not packed.

        Raises
        ------
        BufferError
            The array has no strides, or is packed; `to_numpy` converts it.

        >>> import strided as sd
        >>> a = sd.LayoutArray(np.arange(6, dtype=np.int16), "s16[2,3]{0,1}")
        >>> a.as_strided().strides
        (2, 4)
        """
        values = self._as_strided()
        if self._memory.file is not None and self.size:
            self._memory.file.mark_dirty()
        return values

    def _as_strided(self) -> Array:
        """`as_strided` without marking the file dirty, for callers that only read and keep no reference."""
        memory = self._memory
        if memory.file is not None:
            memory.file.check()
        map_, dtype = self._map, memory.dtype
        if map_.size == 0:
            return np.ndarray(map_.shape, dtype, memory.buffer[:0])
        steps = map_.equal_steps if memory.bits >= 8 else None
        if steps is None:
            raise BufferError(self._why_no_strides())
        width = dtype.itemsize
        start, strides = (map_.base + steps.first) * width, tuple([s * width for s in steps.ndarray_strides])
        return np.ndarray(map_.shape, dtype, memory.buffer, start, strides)

    def _values(self) -> Array:
        """The values for callers that only read: a view if the array has strides, otherwise a copy."""
        return self._as_strided() if self.is_strided else self.to_numpy()

    @property
    def is_strided(self) -> bool:
        """Whether the array has strides and its elements are not packed, so that `as_strided` works.

        >>> import strided as sd
        >>> a = sd.LayoutArray(bytes(24), "u8[4,5]{1,0:T(2,2)}")
        >>> a.is_strided, a[:2, 1].is_strided
        (False, True)
        """
        return (self._memory.bits >= 8 and self._map.equal_steps is not None) or self._map.size == 0

    def _description(self) -> str:
        """What messages call the array."""
        return f"{'a view of ' if self.is_view else ''}{self._memory.spec}"

    def _why_no_strides(self) -> str:
        what = self._description()
        if self._memory.bits < 8:
            return f"{what} packs {self._memory.bits}-bit elements, which no strides reach; to_numpy() converts it"
        return f"{what} is not plain strides; to_numpy() converts it"

    def stand_in(self, *, writeable: bool = False) -> Array:
        """An ndarray of zeros with the same shape and dtype that takes no memory.

        It is passed to NumPy's functions to check arguments and to get shapes and dtypes of results without values.
        """
        memory = bytearray(self.itemsize) if writeable else bytes(self.itemsize)
        return np.ndarray(self.shape, self.dtype, memory, 0, (0,) * self.ndim)


def in_row_major(values: Array) -> Array:
    """The values in row-major order: the ndarray itself, if it is so, or a copy."""
    if values.flags.c_contiguous:
        return values
    out = np.empty(values.shape, values.dtype)
    transfer.copy(transfer.region_of_ndarray(values), transfer.region_of_ndarray(out))
    return out


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another one."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))


def refuse_unlike(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless `out` is an ndarray of this shape and dtype."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        found = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be an ndarray {dtype}{list(shape)}, not {found}")


def as_converted(values: Array, dtype: Any, copy: bool | None) -> Array:
    """The result of ``__array__`` for converted values, cast to `dtype` unless it is None.

    It is read-only unless the values were cast or a copy was requested, because writes would not reach the buffer.
    """
    cast = values if dtype is None else values.astype(dtype, copy=False)
    if cast is values and not copy:
        cast.flags.writeable = False
    return cast


def move(source: transfer.Region, destination: transfer.Region) -> None:
    """Copy between regions that may share memory."""
    if transfer.may_overlap(source, destination):
        if source.buffer is destination.buffer and source.map == destination.map:
            return
        temporary = transfer.region_of_ndarray(np.empty(source.map.shape, np.dtype(f"V{max(8, source.bits) // 8}")))
        transfer.copy(source, temporary)
        source = temporary
    transfer.copy(source, destination)
