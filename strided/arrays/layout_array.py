"""LayoutArray: a buffer in an XLA layout that behaves like an ndarray.

The class combines the mixins and adds constructors. Nothing is computed here: `layout` parses shapes, `addressing`
computes where elements lie, `keys` interprets keys, and `transfer` copies elements.
"""

from __future__ import annotations

import os
from types import FunctionType, GenericAlias
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np

from strided.arrays.blocks import tile_block
from strided.arrays.buffer_spec import BufferSpec, spec_of
from strided.arrays.encode import encode, spec_for, wrap
from strided.arrays.getitem import Indexing, packed_lock
from strided.arrays.interchange import Interchange
from strided.arrays.methods import Methods
from strided.arrays.operators import Operators
from strided.arrays.padding import padding_scalar, refill_padding
from strided.arrays.views import Views
from strided.errors import naming_in_size_errors
from strided.escape import visible
from strided.files.mapping import map_file
from strided.layout import AnyShape, Layout, Shape
from strided.layout.parser import array_shape

#: Bytes of values in a chunk of `LayoutArray.chunk_shape`: large enough to make a task's overhead negligible.
_CHUNK_BYTES = 1 << 24


class LayoutArray(Methods, Interchange, Operators, Views, Indexing):
    """An array in an XLA layout, on an existing buffer.

    Parameters
    ----------
    buffer : bytes, bytearray, memoryview, ndarray, mmap or any object with the buffer protocol
        The raw bytes, padding included; not copied. The array is read-only if the buffer is.
    shape : str, Shape or BufferSpec
        The shape as XLA's text or as a value; or a spec of another kind of layout.
    offset : int, optional
        Bytes before the array.
    bitorder : {"little", "big"}, optional
        For packed elements: whether the first one of a byte is in its low bits, or in its high bits as in dumps of
        jaxlib up to 0.5.2.
    allow_excess : bool, optional
        Whether to accept a buffer with more excess bytes than rounding explains.

    Raises
    ------
    NotationError
        The text is not a shape.
    LayoutError
        The shape has a dimension of unknown size, or is a layout alone.
    BufferSizeError
        The buffer is too short, or ends beyond the next multiple of 4096 bytes; or the offset lies outside of it.
    UnsupportedError
        The shape is a tuple, token or opaque, its layout is split, its element width is not supported; or the buffer is
        not contiguous.
    ValueError
        `bitorder` is neither "little" nor "big".
    TypeError
        `buffer` is not a buffer, or contains Python objects; or `shape` is neither text nor a shape.

    Examples
    --------
    >>> import numpy as np
    >>> import strided as sd
    >>> raw = bytes([0, 3, 1, 4, 6, 9, 7, 10, 2, 5, 255, 255, 8, 11, 255, 255])
    >>> a = sd.LayoutArray(raw, "u8[4,3]{0,1:T(2,2)}")
    >>> a[1:3, ::2]
    LayoutArray([[3, 5],
                 [6, 8]], dtype=uint8, view of u8[4,3]{0,1:T(2,2)})
    >>> np.asarray(a).tolist()
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    """

    __slots__ = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(
        self,
        buffer: Any,
        shape: str | AnyShape | BufferSpec,
        *,
        offset: SupportsIndex = 0,
        bitorder: str = "little",
        allow_excess: bool = False,
    ) -> None:
        self._memory = wrap(buffer, spec_of(shape), offset, bitorder, allow_excess)
        self._map = self._memory.spec.address_map

    @classmethod
    def __class_getitem__(cls, parameters: Any, /) -> GenericAlias:
        """A type annotation with shape and dtype, as ``np.ndarray[shape, dtype]``; nothing is checked."""
        return GenericAlias(cls, parameters)

    @classmethod
    def from_numpy(
        cls,
        x: Any,
        layout: str | Layout | Shape | BufferSpec | None = None,
        padding: Any = None,
        out: Any = None,
        *,
        element_type: str | None = None,
        bitorder: str = "little",
    ) -> Self:
        """A new array with the values of another, in a layout.

        Parameters
        ----------
        x : array_like
        layout : str, Layout, Shape or BufferSpec, optional
            By default row-major. A shape or a spec must have the dimensions of `x`; it also gives the element type.
        padding : scalar, PaddingValue or str, optional
            The value of the padding, or one of "zero", "one", "lowest", "highest"; "unknown" does not fill it. Zero
            also clears bits of the last byte that belong to no slot. By default the value of a legacy layout,
            otherwise zero.
        out : writable buffer, optional
            The buffer to write to; by default a new one.
        element_type : str, optional
            XLA's name, such as ``"s4"``; by default that of ``x.dtype``. Values are cast as by ``astype``.
        bitorder : {"little", "big"}, optional
            For packed elements, as for `LayoutArray`.

        Raises
        ------
        NotationError, LayoutError
            The layout is invalid, or does not fit the array.
        UnsupportedError
            XLA has no element type for the dtype; or `out` is not contiguous.
        BufferSizeError
            `out` is too short.
        ValueError
            `out` is read-only, is an array in another layout, or overlaps the values (also with padding that is
            filled); or `bitorder` or `padding` is not one of the known words.
        TypeError, OverflowError
            As in NumPy, if the dtype cannot represent the padding value.

        Examples
        --------
        >>> a = LayoutArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1:T(2,2)}", padding=-1)
        >>> a.buffer.view(np.float32).tolist()
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, -1.0, -1.0]
        """
        values = x if isinstance(x, (np.ndarray, LayoutArray)) else np.asarray(x)
        spec = spec_for(values.shape, values.dtype, layout, element_type)
        memory = encode(values, spec, padding, out, bitorder)
        return out if isinstance(out, cls) else cls._on(memory)

    def to_layout(
        self,
        layout: str | Layout | Shape | BufferSpec | None = None,
        padding: Any = None,
        out: Any = None,
        *,
        bitorder: str = "little",
    ) -> Self:
        """The same values in another layout, converted from buffer to buffer.

        Parameters and errors as in `from_numpy`.

        >>> a = LayoutArray.from_numpy(np.arange(6, dtype=np.uint8).reshape(2, 3), "{0,1}")
        >>> a.to_layout("{1,0:T(2,2)}").buffer.tolist()
        [0, 1, 3, 4, 2, 0, 5, 0]
        """
        return self.from_numpy(self, layout, padding, out, element_type=self.element_type, bitorder=bitorder)

    def fill_padding(self, value: Any = "zero") -> None:
        """Set all padding in the buffer to a value, in place; the elements do not change.

        Zero also clears the bits of the last byte that belong to no slot. Bytes before and after the array do not
        change.

        Parameters
        ----------
        value : scalar, PaddingValue or str, optional
            As `padding` of `from_numpy`. For example, NaN reveals programs that read padding.

        Raises
        ------
        ValueError
            The array is a view, the buffer is read-only, or `value` is an unknown word.
        TypeError, OverflowError
            `value` is None; or, as in NumPy, the dtype cannot represent it.

        Examples
        --------
        >>> a = LayoutArray(bytearray(range(16)), "u8[4,3]{0,1:T(2,2)}")
        >>> a.fill_padding()
        >>> a.buffer.tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 12, 13, 0, 0]
        """
        if self.is_view:
            raise ValueError(f"{self._description()} shares its padding with the whole array: fill that of the whole")
        memory = self._memory
        memory.begin_writing()
        scalar = padding_scalar(value, self.dtype)
        if scalar is not None:
            with packed_lock():
                refill_padding(memory, scalar)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """A shape of chunks that is fast to read: some megabytes of whole tiles that are contiguous in the buffer.

        Not called ``chunks``, because xarray treats any duck array with that attribute as a dask array.

        >>> LayoutArray(np.zeros(1 << 26, np.uint8), "f32[8192,2048]{1,0:T(8,128)}").chunk_shape
        (2048, 2048)
        """
        return tile_block(self._map, max(1, _CHUNK_BYTES // self.itemsize))


def _qualify_methods() -> None:
    """Give the mixins' methods the qualified names of LayoutArray's, for error messages and pickles of methods."""
    for mixin in LayoutArray.__mro__[1:]:
        if mixin.__module__.startswith(__name__.rpartition(".")[0]):
            for name, method in vars(mixin).items():
                if isinstance(method, FunctionType):
                    method.__qualname__, method.__module__ = f"{LayoutArray.__name__}.{name}", __name__


_qualify_methods()


def map_array(
    path: str | os.PathLike[str],
    shape: str | AnyShape,
    mode: str = "r",
    offset: SupportsIndex = 0,
    *,
    bitorder: str = "little",
    allow_excess: bool = False,
) -> LayoutArray:
    """The array in a mapped file; parameters and errors as for `strided.open`."""
    parsed = array_shape(shape)
    file = map_file(path, mode, 0, None)
    with naming_in_size_errors(visible(os.fsdecode(path))):
        array = LayoutArray(file.content, parsed, offset=offset, bitorder=bitorder, allow_excess=allow_excess)
    array._memory.file = file
    return array
