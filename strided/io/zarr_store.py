"""Read zarr stores of version 3: folders in which each array has a ``zarr.json`` and a file for each of its chunks.

Chunks hold row-major values (zarr's codec ``bytes``), or buffers in an XLA layout (a codec that zarr finds in
`strided.plugins.zarr`). Types that zarr lacks are stored as unsigned integers of the same bits, integers narrower than
a byte as int8 or uint8; the attribute ``xla_element_type`` names the type::

    {"shape": [17, 300], "data_type": "uint16", "attributes": {"xla_element_type": "bf16"}, ...}

This module does not need zarr. Arrays with other codecs, such as compression, are left to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import Box
from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray, map_array
from strided.errors import BufferSizeError, DumpError, StridedError, UnsupportedError
from strided.escape import visible
from strided.files.paths import absolute_path
from strided.files.regular import open_regular
from strided.io.metadata import are_sizes
from strided.layout import Shape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import layout_of
from strided.transfer.chunks import Cell, cells_of

#: zarr's name of the codec for chunks in a layout.
CODEC = "strided.xla_layout"
METADATA = "zarr.json"
#: The largest metadata that are read, in bytes.
_LONGEST_METADATA = 1 << 22
#: Metadata files of version 2.
OLD_METADATA = (".zarray", ".zgroup")
#: The attribute that names an element type that zarr lacks.
TYPE_KEY = "xla_element_type"


class ChunkKeys(NamedTuple):
    """Zarr's chunk key encoding: how a chunk's file is named by its coordinates.

    >>> ChunkKeys("c", "/").key((1, 0)), ChunkKeys("", ".").key((1, 0)), ChunkKeys("", ".").key(())
    ('c/1/0', '1.0', '0')
    """

    prefix: str
    separator: str

    def key(self, cell: Cell) -> str:
        """The name of a chunk's file in the array's folder."""
        return self.separator.join([*filter(None, [self.prefix]), *map(str, cell)]) or "0"


class ZarrArray(GridArray):
    """An array of a store, read chunk by chunk on use; missing chunks are zero.

    Reading raises FileNotFoundError if the store no longer exists, and DumpError if it was replaced by an array of
    another shape, type or layout.

    Attributes
    ----------
    shape, shard_shape : tuple of int
        Of the array, and of each chunk.
    dtype : dtype
    xla_shape : Shape
        The array's, in the layout of its chunks.
    """

    shape: tuple[int, ...]
    shard_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    xla_shape: Shape

    def __init__(self, folder: str, shape: Shape, chunk: Shape, keys: ChunkKeys, version: tuple[int, ...]) -> None:
        self.xla_shape, self.shape, self.dtype = shape, shape.dimensions, shape.dtype
        self.shard_shape = chunk.dimensions
        self._counts = tuple(-(-n // step) for n, step in zip(self.shape, self.shard_shape, strict=True))
        # Absolute, because after a change of the working directory all chunks would seem missing, so zero.
        self._folder, self._version = absolute_path(folder), version
        self._chunk, self._keys = chunk, keys

    def __repr__(self) -> str:
        return visible(f"<ZarrArray {self.xla_shape} in {self._folder!r}, chunks of {list(self.chunk_shape)}>")

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of a chunk inside the array."""
        return tuple(map(min, self.shard_shape, self.shape))

    def mapped(self, mode: str = "r") -> LayoutArray | ZarrArray:
        """Its only chunk mapped, with padding; if it has several, itself, or UnsupportedError unless `mode` is "r"."""
        path = self._path((0,) * self.ndim)
        if self.shard_shape == self.shape and os.path.exists(path):
            array = _map_chunk(path, self.xla_shape, mode)
            self._check()
            return array
        if mode != "r":
            raise UnsupportedError(f'{self._folder} holds several chunks: it is read-only, mode "r", not {mode!r}')
        return self

    def read(self, mode: str = "r") -> LayoutArray:
        """The array in memory, in the layout of its chunks; writable with mode "c"."""
        shape = self.xla_shape
        buffer = LayoutArray.from_numpy(self.to_numpy(), shape.layout, element_type=shape.element_type).buffer
        buffer.flags.writeable = mode == "c"
        return LayoutArray(buffer, shape)

    def _path(self, cell: Cell) -> str:
        """The file of a chunk."""
        return os.path.join(self._folder, self._keys.key(cell))

    def _tile(self, cell: Cell) -> LayoutArray | npt.NDArray[Any]:
        tile: LayoutArray | npt.NDArray[Any]
        try:
            tile = _map_chunk(self._path(cell), self._chunk)
        except FileNotFoundError:
            tile = np.broadcast_to(np.zeros((), self.dtype), self.shard_shape)
        except BufferSizeError:
            self._check()  # raises the better error if the store was replaced
            raise
        self._check()  # after mapping, because the store may be replaced at any time
        return tile

    def _check(self) -> None:
        """Raise FileNotFoundError or DumpError if the metadata were removed or describe other chunks."""
        if _version(self._folder) == self._version:
            return
        now = _array(self._folder)
        if now._description != self._description:
            raise DumpError("replaced since it was opened, by another array: open it again", path=self._folder)
        self._version = now._version

    @property
    def _description(self) -> tuple[Any, ...]:
        """The shape of the array, and the shape and names of its chunks."""
        return self.xla_shape, self._chunk, self._keys

    def _tiles(self) -> Iterator[tuple[Cell, Box]]:
        return chunks_of(self.shape, self.shard_shape)


def _map_chunk(path: str, shape: Shape, mode: str = "r") -> LayoutArray:
    """Map the array in a chunk's file; BufferSizeError if the file does not have exactly its size."""
    try:
        array = map_array(path, shape, mode, allow_excess=True)
    except BufferSizeError as error:
        raise damaged_chunk(visible(path), shape, "the file has", error.actual) from error
    file = array._memory.file
    assert file is not None
    if file.size != shape.buffer_byte_size:
        raise damaged_chunk(visible(path), shape, "the file has", file.size)
    return array


def damaged_chunk(where: str, shape: Shape, found: str, size: int | None) -> BufferSizeError:
    """The error for a chunk of `size` bytes, which is not its array's size; `found` is words before that number."""
    needed = shape.buffer_byte_size
    message = f"{where}: a damaged chunk: {shape} takes {needed} bytes, {found} {size}"
    return BufferSizeError(message, actual=size, needed=needed)


class ZarrStore(Mapping[str, ZarrArray]):
    """The arrays of a store by their paths in it; an array at its root has the store's name without extension."""

    def __init__(self, path: str) -> None:
        self._folders: dict[str, str] = {}
        for folder, folders, files in os.walk(path, onerror=_raise):
            if METADATA in files and metadata_of(folder).get("node_type") == "array":
                name = os.path.relpath(folder, path).replace(os.sep, "/")
                self._folders[Path(absolute_path(path)).stem if name == "." else name] = folder
                folders.clear()  # only chunks are below
            folders.sort()

    def __getitem__(self, name: str) -> ZarrArray:
        return _array(self._folders[name])

    def shape(self, name: str) -> Shape | str:
        """The shape of an array, or why it is unreadable."""
        try:
            return self[name].xla_shape
        except StridedError as error:
            return f"unreadable: {error}"

    def __contains__(self, name: object) -> bool:
        return name in self._folders

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


def _raise(error: OSError) -> NoReturn:
    raise error


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a store, or an array or group in one. UnsupportedError for version 2."""
    if any(os.path.isfile(os.path.join(path, old)) for old in OLD_METADATA):
        raise UnsupportedError(f"{os.fspath(path)} is a store of zarr's version 2: zarr reads it")
    return os.path.isfile(os.path.join(path, METADATA))


def _version(folder: str) -> tuple[int, ...]:
    """A key that changes with the metadata file: device, inode, time of the last change."""
    status = os.stat(os.path.join(folder, METADATA))
    return status.st_dev, status.st_ino, status.st_mtime_ns


def metadata_of(folder: str) -> dict[str, Any]:
    """The metadata of the array or group in a folder. DumpError if they are damaged, or of another version."""
    path = os.path.join(folder, METADATA)
    with open_regular(path) as file:
        text = file.read(_LONGEST_METADATA + 1)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DumpError(f"damaged metadata: {visible(str(error), 200)}", path=path) from error
    if not isinstance(found, dict) or found.get("zarr_format") != 3:
        raise DumpError("no metadata of zarr's version 3", path=path)
    return found


def _array(folder: str) -> ZarrArray:
    version = _version(folder)  # taken first, so that it is never newer than the metadata
    found = metadata_of(folder)
    try:
        dimensions, chunk = found["shape"], found["chunk_grid"]["configuration"]["chunk_shape"]
        if not (are_sizes(dimensions) and are_sizes(chunk, 1) and len(dimensions) == len(chunk)):
            raise ValueError("the sizes of the array or of its chunks are invalid")
        keys = _chunk_keys(found.get("chunk_key_encoding", {}))
        stored = _dtype(found["data_type"])
        if found["chunk_grid"].get("name") != "regular" or keys is None or _has_nonzero_default(found):
            raise UnsupportedError("it is stored in a way that strided does not read: zarr reads it")
        name, layout = _stored_as(found, stored)
        shape, whole = (Shape(name, sizes, layout_of(layout) if layout else None) for sizes in (chunk, dimensions))
        if shape.dtype.itemsize != stored.itemsize:
            raise ValueError(f"{name} does not have the size of {stored}")
    except UnsupportedError as error:
        raise UnsupportedError(f"{folder}: {error}") from error
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DumpError(f"damaged metadata: {visible(str(error), 200)}", path=os.path.join(folder, METADATA)) from error
    return ZarrArray(folder, whole, shape, keys, version)


def _chunk_keys(encoding: dict[str, Any]) -> ChunkKeys | None:
    """How chunks are named; None for an encoding other than zarr's own two."""
    is_default = encoding.get("name", "default") == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if is_default else ".")
    is_known = (is_default or encoding["name"] == "v2") and separator in ("/", ".")
    return ChunkKeys("c" if is_default else "", separator) if is_known else None


def _has_nonzero_default(found: dict[str, Any]) -> bool:
    """Whether missing chunks may be other than zero; negative zero counts as other."""
    value = found.get("fill_value", 0)
    parts = value if isinstance(value, list) else [value]
    return bool(found.get("storage_transformers")) or any(part or str(part).startswith("-") for part in parts)


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise UnsupportedError("it holds structures or strings")
    try:
        dtype = np.dtype(name)
        if dtype.name != name:  # ">i4" and "i2, f4" are NumPy's names, not zarr's
            raise TypeError
        return dtype
    except (TypeError, ValueError, SyntaxError):
        raise UnsupportedError(f"it holds {visible(name, 100)}, which XLA has no element type for") from None


def _stored_as(found: dict[str, Any], stored: np.dtype[Any]) -> tuple[str, str | None]:
    """XLA's element type of an array, and the layout of its chunks (None: row-major)."""
    (codec, *more), name = found["codecs"], (found.get("attributes") or {}).get(TYPE_KEY)
    configuration = codec.get("configuration", {})
    if more or codec["name"] not in ("bytes", CODEC) or configuration.get("endian", "little") != "little":
        encoders = ", ".join(str(each["name"]) for each in (codec, *more))
        raise UnsupportedError(f"its chunks are encoded by {visible(encoders, 200)}: zarr reads them")
    if codec["name"] == CODEC:
        name = configuration.get("element_type", name)
    if name is None:
        name = element_type_of_dtype(stored).name
    return name, configuration["layout"] if codec["name"] == CODEC else None


def chunks_of(sizes: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[Cell, Box]]:
    """The coordinates of each chunk, and the slices of the array that it holds."""
    for cell in cells_of(sizes, chunks):
        yield cell, tuple(slice(k * c, min((k + 1) * c, n)) for k, c, n in zip(cell, chunks, sizes, strict=True))
