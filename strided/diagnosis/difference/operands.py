"""Operands of a comparison: arrays, files and shards, read block by block."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.base import Array
from strided.arrays.blocks import Box, Reader
from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray, map_array
from strided.dumps.directory.dump import Dump
from strided.dumps.sharded.sharded_array import ShardedArray
from strided.errors import UnsupportedError
from strided.escape import visible
from strided.files.magic import NPY_MAGIC
from strided.files.regular import open_regular
from strided.io.npy import mappable_shape_of_npy, read_npy_header
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import element_type_of_dtype

#: Indices of elements: an array for each axis.
Points = tuple[npt.NDArray[np.int64], ...]


class Operand(ABC):
    """One of the two arrays of a comparison.

    Attributes
    ----------
    array : LayoutArray, ndarray or GridArray
    name : str
        Its name in reports.
    chunk : tuple of int
        The shape of its chunks; empty for an array in one buffer.
    """

    chunk: tuple[int, ...] = ()

    def __init__(self, array: Any, name: str) -> None:
        self.array, self.name = array, name

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def whole(self) -> LayoutArray | None:
        """The array if it is a whole buffer in an XLA layout, whose bytes can be reinterpreted; else None."""
        return None

    def read(self, box: Box) -> Array:
        """The values in a block; a second call from the same thread may overwrite them."""
        return np.asarray(self.array[(*box, ...)])

    def at(self, points: Points) -> Array:
        """The values at some indices."""
        return np.atleast_1d(self.array[points])

    @abstractmethod
    def byte_of(self, index: tuple[int, ...]) -> int:
        """The byte at which an element begins."""

    def release(self) -> None:  # noqa: B027  # nothing to do for most
        """Free the memory of a mapped file's pages that were read."""


def operand_of(given: Any, name: str) -> Operand:
    """The operand for an array, a (path, shape), or the path of a ``.npy`` file; `name` is for reports.

    Raises
    ------
    UnsupportedError
        XLA lacks the element type, a file of raw bytes has no shape, or a whole dump is given.
    """
    if isinstance(given, Dump):
        example = f"dump[{next(iter(given), 'NAME')!r}]"
        raise UnsupportedError(
            f"{name} is a whole dump folder: name one of its arrays, as in {example}, "
            "or compare two folders with strided.diagnosis.difference.diff_dumps"
        )
    if isinstance(given, (str, os.PathLike)):
        given = given, None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (str, os.PathLike)):
        return Wrapped(_mapped(*given), name)
    if isinstance(given, LayoutArray):
        return Wrapped(given, name)
    if isinstance(given, ShardedArray):
        return Shards(given, name)
    if isinstance(given, GridArray):
        return Chunks(given, name)
    values = np.asarray(given)
    element_type = element_type_of_dtype(values.dtype).name
    axes = _major_to_minor(values)
    dense = values.transpose(axes)
    if dense.flags.c_contiguous and values.dtype.isnative:
        shape = Shape(element_type, values.shape, Layout(axes[::-1]))
        return Wrapped(LayoutArray(dense.reshape(-1), shape), name)
    return Plain(values, name)


def _major_to_minor(values: Array) -> tuple[int, ...]:
    """The axes of an ndarray in order of decreasing stride, in which it may be contiguous."""
    axes = range(values.ndim)
    if values.flags.c_contiguous:  # where axes of size 1 may have any stride
        return tuple(axes)
    return tuple(sorted(axes, key=lambda k: values.strides[k], reverse=True))


def _mapped(path: str | os.PathLike[str], shape: str | AnyShape | None) -> LayoutArray:
    if shape is not None:
        return map_array(path, shape)
    with open_regular(path) as file:
        name = os.fspath(path)
        if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
            raise UnsupportedError(f"raw bytes have no header: give the shape of {name}")
        file.seek(0)
        header = read_npy_header(file, str(name))
        return map_array(path, mappable_shape_of_npy(header, None, str(name)), offset=header.offset)


class Wrapped(Operand):
    """A LayoutArray, or a contiguous ndarray or file wrapped in one."""

    def __init__(self, array: LayoutArray, name: str) -> None:
        super().__init__(array, name)
        self._read = Reader(array)

    @property
    def whole(self) -> LayoutArray | None:
        return None if self.array.is_view or not isinstance(self.array.spec, Shape) else self.array

    def read(self, box: Box) -> Array:
        return self._read(box)

    def byte_of(self, index: tuple[int, ...]) -> int:
        array: LayoutArray = self.array
        return int(array.address_map.offset_of(index)) * array._memory.bits // 8

    def release(self) -> None:
        if self.array.file is not None:
            self.array.file.release()

    def __str__(self) -> str:
        file = "" if self.array.file is None else f"{visible(_name_of(self.array.file.path))}: "
        return f"{file}{'a view of ' if self.array.is_view else ''}{self.array.spec}"


def _name_of(path: str) -> str:
    """The name of a file; for a zarr store's chunk, which is called ``0``, the name of the store."""
    return next((part for part in reversed(path.split(os.sep)) if part.endswith(".zarr")), os.path.basename(path))


class Plain(Operand):
    """An ndarray that is not contiguous, or not in native byte order."""

    def byte_of(self, index: tuple[int, ...]) -> int:
        """Counted from the first element, so negative for negative strides."""
        strides: tuple[int, ...] = self.array.strides
        return sum(i * stride for i, stride in zip(index, strides, strict=True))

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)} with strides {self.array.strides}"


class Chunks(Operand):
    """An array in many buffers, such as the files of a zarr store."""

    def __init__(self, array: GridArray, name: str) -> None:
        super().__init__(array, name)
        self.chunk = array.shard_shape

    def byte_of(self, index: tuple[int, ...]) -> int:
        """Counted within the element's own buffer."""
        local = tuple(i % step for i, step in zip(index, self.array.shard_shape, strict=True))
        return operand_of(self.array._tile(self._cell(index)), self.name).byte_of(local)

    def _cell(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i // step for i, step in zip(index, self.array.shard_shape, strict=True))

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)} in {type(self).__name__.lower()} of {list(self.array.shard_shape)}"


class Shards(Chunks):
    """An array in the buffers of many devices."""

    def holder_of(self, index: tuple[int, ...]) -> str:
        """The numbers of the devices that hold an element's shard."""
        return ", ".join(map(str, self.array._holders[self._cell(index)]))
