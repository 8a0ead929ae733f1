"""LayoutArray: a buffer in an XLA layout that behaves like an ndarray.

An adapter without arithmetic: `notation` and `layout` say what the buffer is, `address` where its elements lie,
`indexing` what a key means, `convert` moves the elements. What this module adds is NumPy's manners.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from strided import convert, padding
from strided.address import AddressMap
from strided.buffers import array_shape, cut, flat_bytes, map_file, needed_bytes, stored_bits
from strided.dtypes import element_type_of_dtype
from strided.errors import LayoutError
from strided.indexing import Selection, index_arrays, normalise, refuse, view
from strided.layout import AnyShape, Layout, PaddingValue, Shape
from strided.notation import parse

Array: TypeAlias = npt.NDArray[Any]


class LayoutArray:
    """An array in an XLA layout, on the buffer that holds it.

    Parameters
    ----------
    buffer : bytes, bytearray, memoryview, ndarray, mmap or anything with a buffer
        The raw bytes, padding included. They are not copied; a read-only buffer makes a read-only array.
    shape : str or Shape
        XLA's text, or the value.
    offset : int, optional
        Bytes in front of the array.
    bitorder : {"little", "big"}, optional
        Packed elements of fewer than eight bits: whether the first one of a byte lies in its low bits, or in its high
        bits as in dumps of jaxlib up to 0.5.2.
    allow_excess : bool, optional
        Accept a buffer that is longer than padding explains.

    Raises
    ------
    NotationError
        The text is no shape.
    BufferSizeError
        The buffer is too short, or longer than rounding up to 512, 1024 or 4096 bytes explains.
    UnsupportedError
        A tuple, token or opaque shape; a width of elements that cannot be read; a split layout.

    Examples
    --------
    >>> import strided as sd
    >>> raw = bytes([0, 3, 1, 4, 6, 9, 7, 10, 2, 5, 255, 255, 8, 11, 255, 255])
    >>> a = sd.LayoutArray(raw, "u8[4,3]{0,1:T(2,2)}")
    >>> a[1:3, ::2]
    LayoutArray([[3, 5],
                 [6, 8]], dtype=uint8, view of u8[4,3]{0,1:T(2,2)})
    >>> np.asarray(a).tolist()
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    """

    __slots__ = ("__weakref__", "_bits", "_bitorder", "_buffer", "_dtype", "_excess", "_map", "_xla_shape")

    _buffer: npt.NDArray[np.uint8]
    _xla_shape: Shape
    _map: AddressMap
    _dtype: np.dtype[Any]
    _bits: int
    _bitorder: str
    _excess: int

    #: Before ndarray's own: NumPy leaves operators to this class.
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        buffer: Any,
        shape: str | AnyShape,
        *,
        offset: int = 0,
        bitorder: str = "little",
        allow_excess: bool = False,
    ) -> None:
        if bitorder not in ("little", "big"):
            raise ValueError(f'bitorder must be "little" or "big", not {bitorder!r}')
        self._xla_shape = array_shape(shape)
        self._map = self._xla_shape.address_map
        self._bits = stored_bits(self._xla_shape)
        memory = flat_bytes(buffer)
        self._buffer = cut(memory, self._xla_shape, offset, allow_excess)
        self._excess = memory.size - offset - self._buffer.size
        self._dtype = self._xla_shape.dtype
        self._bitorder = bitorder

    def _with_map(self, map_: AddressMap) -> LayoutArray:
        """A view on the same buffer."""
        other = object.__new__(type(self))
        other._buffer, other._xla_shape, other._dtype = self._buffer, self._xla_shape, self._dtype
        other._bits, other._bitorder, other._excess = self._bits, self._bitorder, self._excess
        other._map = map_
        return other

    @classmethod
    def from_numpy(
        cls,
        x: Any,
        layout: str | Layout | Shape | None = None,
        padding: Any = None,
        out: Any = None,
        *,
        element_type: str | None = None,
        bitorder: str = "little",
    ) -> LayoutArray:
        """The values of an array, laid out anew.

        Parameters
        ----------
        x : array_like
        layout : str, Layout or Shape, optional
            Row-major without. A shape must have the dimensions of `x`; it names the element type, too.
        padding : scalar, PaddingValue or str, optional
            What fills the padding: a value, or one of "zero", "one", "lowest", "highest"; "unknown" leaves it as it
            is. Without, what a legacy layout says, else zero.
        out : writable buffer, optional
            Where to; allocated without.
        element_type : str, optional
            XLA's name, ``"s4"``; that of ``x.dtype`` without. Values are cast as ``astype`` does it.

        Raises
        ------
        NotationError, LayoutError
            The layout is none, or does not fit the array.
        UnsupportedError
            XLA has no element type for the dtype.
        BufferSizeError
            `out` is too short.

        Examples
        --------
        >>> a = LayoutArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1:T(2,2)}", padding=-1)
        >>> a.buffer.view(np.float32).tolist()
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, -1.0, -1.0]
        """
        values = x if isinstance(x, (np.ndarray, LayoutArray)) else np.asarray(x)
        shape = _shape_for(values.shape, values.dtype, layout, element_type)
        return _laid_out(values, shape, padding, out, bitorder)

    # What it is.

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._map.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self._dtype

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
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the values in NumPy, ``size * itemsize``; the buffer's own are ``a.buffer.nbytes``."""
        return self._map.size * self._dtype.itemsize

    @property
    def xla_shape(self) -> Shape:
        """The shape of the buffer: of the whole array that this one is, or is a view of."""
        return self._xla_shape

    @property
    def layout(self) -> Layout:
        """The layout of the buffer."""
        layout = self._xla_shape.layout
        assert layout is not None
        return layout

    @property
    def element_type(self) -> str:
        """XLA's name of the element type."""
        return self._xla_shape.element_type

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The flat bytes, padding included, on the same memory."""
        return self._buffer

    @property
    def excess_bytes(self) -> int:
        """Bytes that the buffer had behind the array."""
        return self._excess

    @property
    def bitorder(self) -> str:
        """Where the first packed element of a byte lies: "little" in its low bits, "big" in its high bits."""
        return self._bitorder

    @property
    def address_map(self) -> AddressMap:
        """Index of this array to element offset in the buffer."""
        return self._map

    @property
    def is_view(self) -> bool:
        """Whether this is a part of the buffer's array, or sees it otherwise than its shape says."""
        return self._map is not self._xla_shape.address_map

    @property
    def region(self) -> convert.Region:
        """Buffer, map and width, as conversions take them."""
        return convert.Region(self._buffer, self._map, self._bits, self._bitorder == "little")

    # Reading.

    def __getitem__(self, key: Any) -> Any:
        selection = normalise(key, self._map.shape)
        if selection.is_element:
            return self._element(int(self._map.offset_of(selection.items)))  # type: ignore[arg-type]
        if selection.is_basic:
            found = self._with_map(view(self._map, selection))
            return found.to_numpy() if selection.copies else found
        return self._gathered(selection)

    def _element(self, offset: int) -> Any:
        """The value at an element offset."""
        if self._bits >= 8:
            at = offset * self._dtype.itemsize
            return self._buffer[at : at + self._dtype.itemsize].view(self._dtype)[0]
        value = np.empty(1, self._dtype)
        convert.gather(self.region, np.array([offset]), value)
        return value[0]

    def _gathered(self, selection: Selection) -> Array:
        offsets = self._offsets_of(selection)
        out = np.empty(offsets.shape, self._dtype)
        convert.gather(self.region, offsets, out)
        return out

    def _offsets_of(self, selection: Selection) -> npt.NDArray[np.int64]:
        """The element offsets of a selection with index arrays, in its shape."""
        shape, arrays = index_arrays(selection)
        return np.broadcast_to(np.asarray(self._map.offset_of(arrays), np.int64), shape)

    def to_numpy(self, out: Array | None = None) -> Array:
        """The values as an ndarray: a new one, or `out`, which must have the same shape and dtype.

        Raises
        ------
        ValueError
            `out` has another shape or dtype, or is read-only.
        """
        if out is None:
            out = convert.empty_aligned(self.nbytes).view(self._dtype).reshape(self.shape)
        elif not isinstance(out, np.ndarray) or out.shape != self.shape or out.dtype != self._dtype:
            found = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ValueError(f"out must be an ndarray {self._dtype}{list(self.shape)}, not {found}")
        _move(self.region, convert.region_of_ndarray(out))
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"{self.xla_shape} cannot become an ndarray without a copy")
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def to_layout(
        self, layout: str | Layout | None = None, padding: Any = None, out: Any = None, *, bitorder: str = "little"
    ) -> LayoutArray:
        """The same values in another layout, converted from buffer to buffer.

        Parameters and errors as in `from_numpy`.

        >>> a = LayoutArray.from_numpy(np.arange(6, dtype=np.uint8).reshape(2, 3), "{0,1}")
        >>> a.to_layout("{1,0:T(2,2)}").buffer.tolist()
        [0, 1, 3, 4, 2, 0, 5, 0]
        """
        shape = _shape_for(self.shape, self._dtype, layout, self.element_type)
        return _laid_out(self, shape, padding, out, bitorder)

    # Writing.

    def __setitem__(self, key: Any, value: Any) -> None:
        selection = normalise(key, self._map.shape)
        if not self._buffer.flags.writeable:
            raise ValueError("assignment destination is read-only")
        if selection.is_basic:
            self._with_map(view(self._map, selection))._assign(value, key, self.shape)
            return
        offsets = self._offsets_of(selection)
        values = _cast(value, self._dtype)
        try:
            values = np.broadcast_to(_without_ones(values, offsets.ndim), offsets.shape)
        except ValueError:
            refuse(self.shape, key, values.shape)
        convert.scatter(self.region, offsets, values)

    def _assign(self, value: Any, key: Any, shape: tuple[int, ...]) -> None:
        """Set every element of this view; `key` and `shape` are what errors speak of."""
        source = self._source(value)
        ones = len(source.map.shape) - self.ndim
        while ones > 0 and source.map.shape[0] == 1:
            source, ones = convert.Region(source.buffer, source.map.at(0, 0), *_how(source)), ones - 1
        try:
            np.broadcast_shapes(source.map.shape, self.shape)
            fits = np.broadcast_shapes(source.map.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            refuse(shape, key, source.map.shape)
        spread = convert.Region(source.buffer, source.map.broadcast_to(self.shape), *_how(source))
        _move(spread, self.region)

    def _source(self, value: Any) -> convert.Region:
        """Values to be assigned as a region of this array's element type."""
        if isinstance(value, LayoutArray) and value.dtype == self._dtype:
            return value.region
        return convert.region_of_ndarray(_cast(value, self._dtype))

    # Looking at it.

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __str__(self) -> str:
        values, threshold = _summary(self)
        return np.array2string(values, threshold=threshold)

    def __repr__(self) -> str:
        values, threshold = _summary(self)
        prefix = "LayoutArray("
        shown = np.array2string(values, threshold=threshold, separator=", ", prefix=prefix) if self.size else "[]"
        if not self.size and self.shape != (0,):
            shown += f", shape={self.shape}"
        of = "view of " if self.is_view else ""
        return f"{prefix}{shown}, dtype={self._dtype.name}, {of}{self._xla_shape})"


def _how(region: convert.Region) -> tuple[Any, ...]:
    """What a region says of its elements, buffer and map aside."""
    return region.bits, region.low_first, region.signed, region.unit_bits


def open_array(
    path: str | os.PathLike[str],
    shape: str | AnyShape,
    mode: str = "r",
    offset: int = 0,
    *,
    bitorder: str = "little",
    allow_excess: bool = False,
) -> LayoutArray:
    """The array in a file, mapped: nothing is read before it is asked for.

    Parameters
    ----------
    path : path
    shape : str or Shape
    mode : {"r", "r+", "c"}
        Read-only; assignments written through to the file; assignments kept in memory.
    offset : int
        Bytes in front of the array. With an offset, what follows the array in the file does not matter.
    bitorder, allow_excess
        As for LayoutArray.

    Raises
    ------
    OSError
        The file cannot be opened.
    BufferSizeError
        The file is too short, or longer than padding explains.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "dump.bin")
    ...     _ = LayoutArray.from_numpy(np.eye(3, dtype=np.float32), "{0,1:T(2,128)}").buffer.tofile(path)
    ...     open_array(path, "f32[3,3]{0,1:T(2,128)}")[1].tolist()
    [0.0, 1.0, 0.0]
    """
    parsed = array_shape(shape)
    memory = map_file(path, mode, 0, None)
    return LayoutArray(memory, parsed, offset=offset, bitorder=bitorder, allow_excess=allow_excess)


def _cast(value: Any, dtype: np.dtype[Any]) -> Array:
    """Values cast as NumPy casts what is assigned to an array of a type."""
    if isinstance(value, LayoutArray):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        return value
    cast = np.empty(np.shape(value), dtype)
    cast[...] = value
    return cast


def _without_ones(values: Array, ndim: int) -> Array:
    """Values without leading axes of size 1 that a selection of `ndim` axes has no room for."""
    while values.ndim > ndim and values.shape[0] == 1:
        values = values[0]
    return values


def _move(source: convert.Region, destination: convert.Region) -> None:
    """Copy between regions that may share memory."""
    if convert.may_overlap(source, destination):
        if source.buffer is destination.buffer and source.map == destination.map:
            return
        apart = np.empty(source.map.shape, np.dtype(f"V{max(8, source.bits) // 8}"))
        held = convert.region_of_ndarray(apart)
        convert.copy(source, held)
        source = held
    convert.copy(source, destination)


def _shape_for(
    dimensions: tuple[int, ...], dtype: np.dtype[Any], layout: str | Layout | Shape | None, name: str | None
) -> Shape:
    """The shape of values to be laid out."""
    wanted = parse(layout) if isinstance(layout, str) else layout
    if isinstance(wanted, Shape):
        if wanted.dimensions != dimensions:
            raise LayoutError(f"{wanted} has not the dimensions of the array, {list(dimensions)}")
        if name is not None and name != wanted.element_type:
            raise LayoutError(f"{wanted} is not of the element type {name}")
        return array_shape(wanted)
    if wanted is not None and not isinstance(wanted, Layout):
        raise TypeError(f"layout must be text, a Layout or a Shape, not {layout!r}")
    return array_shape(Shape(name or element_type_of_dtype(dtype).name, dimensions, wanted))


def _laid_out(values: Array | LayoutArray, shape: Shape, fill: Any, out: Any, bitorder: str) -> LayoutArray:
    """Values in a new buffer of a shape, or in `out`."""
    layout = shape.layout
    assert layout is not None
    prefix = layout.dynamic_shape_metadata_prefix_bytes
    if isinstance(out, LayoutArray):
        if out.is_view or out.xla_shape != shape or out.bitorder != bitorder:
            raise ValueError(f"out holds {out.xla_shape}, not {shape}")
        result = out
    else:
        memory = convert.empty_aligned(prefix + needed_bytes(shape)) if out is None else flat_bytes(out)
        if out is None:
            memory[:prefix] = 0
            memory[-1:] = 0  # its last bits may belong to no slot at all
        result = LayoutArray(memory, shape, bitorder=bitorder, allow_excess=True)
    if not result.buffer.flags.writeable:
        raise ValueError("out is read-only")
    kind = layout.padding_value if fill is None else fill
    scalar = padding.padding_scalar(PaddingValue(kind) if fill is None else kind, result.dtype)
    region = result.region
    if isinstance(values, LayoutArray) and values.dtype == result.dtype:
        source = values.region
    else:
        source = convert.region_of_ndarray(_cast(values, result.dtype))
    if convert.may_overlap(source, region):
        raise ValueError("out overlaps the values that are to be laid out")
    if scalar is not None:
        padding.fill_padding(result.buffer, shape, region.bits, bitorder, scalar)
    convert.copy(source, region)
    return result


def _summary(a: LayoutArray) -> tuple[Array, int]:
    """Values to print and the threshold to print them with: of a large array only its corners.

    The corners have one more entry along every long axis, so that NumPy puts its dots there.
    """
    options = np.get_printoptions()
    threshold, edge = int(options["threshold"]), int(options["edgeitems"])
    if a.size <= threshold:
        return a.to_numpy(), threshold
    picks = [np.arange(n) if n <= 2 * edge + 1 else np.r_[0 : edge + 1, n - edge : n].astype(np.intp) for n in a.shape]
    return a[np.ix_(*picks)], 0
