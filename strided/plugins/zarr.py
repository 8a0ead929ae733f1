"""A codec for zarr 3 that stores chunks in a device's layout and reads them by the kernels.

Zarr finds it by the entry point ``strided.xla_layout`` in ``zarr.codecs`` wherever strided is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer

from strided.arrays.layout_array import LayoutArray
from strided.errors import StridedError
from strided.io.zarr_store import CODEC as NAME
from strided.io.zarr_store import damaged_chunk
from strided.layout import Shape
from strided.layout.element_types import element_type_of_dtype, is_builtin
from strided.layout.parser import layout_of


@dataclass(frozen=True)
class XlaLayoutCodec(ArrayBytesCodec):
    """Stores chunks as buffers in an XLA layout, padding included.

    Parameters
    ----------
    layout : str
        Layout of each chunk, as in ``"{1,0:T(8,128)(2,1)}"``. Chunks at the edge are stored in full, as zarr does.
    element_type : str, optional
        XLA's element type, if zarr lacks it: ``"bf16"`` for an array of uint16 with the same bits, ``"s4"`` for an
        array of int8 with the same values.

    Raises
    ------
    ValueError
        zarr's dtype and the element type differ in size, the layout has another rank, or its text is not valid.

    Examples
    --------
    >>> XlaLayoutCodec(layout="{1,0:T(8,128)(2,1)}", element_type="bf16").to_dict()["configuration"]
    {'layout': '{1,0:T(8,128)(2,1)}', 'element_type': 'bf16'}
    """

    layout: str
    element_type: str | None = None

    is_fixed_size = True

    def __post_init__(self) -> None:
        try:
            layout_of(self.layout)
        except StridedError as error:
            raise ValueError(f"{NAME}: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> XlaLayoutCodec:
        """Make the codec from its description in ``zarr.json``."""
        given = dict(data.get("configuration") or {})
        if data.get("name", NAME) != NAME or not {"layout"} <= set(given) <= {"layout", "element_type"}:
            raise ValueError(f"{NAME} takes layout and, optionally, element_type; it got {data}")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """The codec's description for ``zarr.json``."""
        configuration: dict[str, Any] = {"layout": self.layout}
        if self.element_type is not None:
            configuration["element_type"] = self.element_type
        return {"name": NAME, "configuration": configuration}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raise ValueError if the codec does not fit an array's rank and dtype; called before anything is written."""
        self._shape(tuple(1 for _ in shape), dtype.to_native_dtype())

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Bytes of a stored chunk."""
        return self._shape(chunk_spec.shape, chunk_spec.dtype.to_native_dtype()).buffer_byte_size

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        dtype = chunk_spec.dtype.to_native_dtype()
        shape = self._shape(chunk_spec.shape, dtype)
        if (have := len(chunk_bytes)) != shape.buffer_byte_size:
            raise damaged_chunk(NAME, shape, "but the buffer has", have)
        values = LayoutArray(chunk_bytes.as_numpy_array().view(np.uint8), shape).to_numpy()
        return chunk_spec.prototype.nd_buffer.from_numpy_array(_converted(values, dtype))

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        shape = self._shape(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        values = _converted(chunk_array.as_numpy_array(), shape.dtype)
        buffer = np.zeros(shape.buffer_byte_size, np.uint8)
        LayoutArray.from_numpy(values, shape.layout, out=buffer, element_type=shape.element_type)
        return chunk_spec.prototype.buffer.from_bytes(buffer.tobytes())

    def _shape(self, dimensions: tuple[int, ...], dtype: np.dtype[Any]) -> Shape:
        """The shape of a chunk."""
        try:
            shape = Shape(self.element_type or element_type_of_dtype(dtype).name, dimensions, layout_of(self.layout))
            if shape.dtype.itemsize != dtype.itemsize:
                raise ValueError(f"{shape.element_type} takes {shape.dtype.itemsize} bytes, {dtype} {dtype.itemsize}")
            return shape
        except (StridedError, ValueError) as error:
            raise ValueError(f"{NAME}: {error}") from None


def _converted(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values in another dtype of the same size; their bits unless one is an integer type that holds the other's.

    Both dtypes may have any byte order; buffers are in native order.

    Raises
    ------
    ValueError
        An integer type cannot hold all of the values.
    """
    values, wanted = values.astype(np.dtype(values.dtype.type), copy=False), np.dtype(dtype.type)
    if values.dtype != wanted:
        plain, other = sorted((values.dtype, wanted), key=is_builtin, reverse=True)
        if np.can_cast(other, plain) and plain.kind in "iu":
            found = values.astype(wanted)
            if not np.array_equal(found.astype(values.dtype), values):
                raise ValueError(f"{NAME}: {wanted} cannot hold all values, from {values.min()} to {values.max()}")
            values = found
        else:
            values = np.asarray(values, order="C").view(wanted)
    return values.astype(dtype, copy=False)
