"""Stores of zarr's version 3: folders in which each array has a ``zarr.json`` and a file for each of its chunks.

Chunks hold row-major values (zarr's codec ``bytes``), or buffers in an XLA layout (ours, which zarr finds in
`strided.plugins.zarr`). What zarr has no type for is stored as its bits, integers of less than a byte as int8 or uint8;
the attribute ``xla_element_type`` names the type::

    {"shape": [17, 300], "data_type": "uint16", "attributes": {"xla_element_type": "bf16"}, ...}

Nothing here needs zarr. Other codecs, such as compression, are left to it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import Box
from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray, map_array
from strided.errors import BufferSizeError, DumpError, StridedError, UnsupportedError
from strided.escape import visible
from strided.files.atomic import path_taken
from strided.files.regular import open_regular
from strided.io.safetensors import are_sizes
from strided.io.sparse_pages import blank_array
from strided.layout import Shape
from strided.layout.element_types import ELEMENT_TYPES, element_type_of_dtype, is_builtin
from strided.layout.parser import layout_of
from strided.runtime.aliases import Progress
from strided.transfer.chunks import Cell, cells_of

#: zarr's name of the codec for chunks in a layout.
CODEC = "strided.xla_layout"
METADATA = "zarr.json"
#: The longest metadata that are read, in bytes.
_LONGEST_METADATA = 1 << 22
_OLD_METADATA = (".zarray", ".zgroup")
_TYPE_KEY = "xla_element_type"
#: Parts of names that Windows refuses, takes for a device or for a path that may lead out of the store, or cuts short.
_NO_NAME_ON_WINDOWS = re.compile(r'[\\:<>"|?*\0-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.IGNORECASE)


class ZarrArray(GridArray):
    """An array of a store, read chunk by chunk as it is indexed; a chunk that the store lacks is zero.

    Reading raises FileNotFoundError if the store is gone, and DumpError if its place was taken by one of another shape,
    type or layout.

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

    def __init__(
        self, folder: str, shape: Shape, chunk: Shape, separator: str, prefix: str, version: tuple[int, ...]
    ) -> None:
        self.xla_shape, self.shape, self.dtype = shape, shape.dimensions, shape.dtype
        self.shard_shape = chunk.dimensions
        self._counts = tuple(-(-n // step) for n, step in zip(self.shape, self.shard_shape, strict=True))
        # Absolute: a path that leads nowhere, once the working directory is another one, would be a chunk of zeros.
        self._folder, self._version = os.path.abspath(folder), version
        self._chunk, self._separator, self._prefix = chunk, separator, prefix

    def __repr__(self) -> str:
        return visible(f"<ZarrArray {self.xla_shape} in {self._folder!r}, chunks of {list(self.chunk_shape)}>")

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The shape of a chunk inside the array."""
        return tuple(map(min, self.shard_shape, self.shape))

    def mapped(self, mode: str = "r") -> LayoutArray | ZarrArray:
        """The array in its only file, padding included. UnsupportedError for another mode if there are several."""
        path = self._path((0,) * self.ndim)
        if self.shard_shape == self.shape and os.path.exists(path):
            array = _map_chunk(path, self.xla_shape, mode)
            self._check()
            return array
        if mode != "r":
            raise UnsupportedError(f'{self._folder} holds several chunks: it is read-only, mode "r", not {mode!r}')
        return self

    def read(self, mode: str = "r") -> LayoutArray:
        """The array in memory, in the layout of its chunks, to which assignments go with mode "c"."""
        shape = self.xla_shape
        buffer = LayoutArray.from_numpy(self.to_numpy(), shape.layout, element_type=shape.element_type).buffer
        buffer.flags.writeable = mode == "c"
        return LayoutArray(buffer, shape)

    def _path(self, cell: Cell) -> str:
        """The file of a chunk."""
        return os.path.join(self._folder, self._separator.join([*filter(None, [self._prefix]), *map(str, cell)]) or "0")

    def _tile(self, cell: Cell) -> LayoutArray | npt.NDArray[Any]:
        tile: LayoutArray | npt.NDArray[Any]
        try:
            tile = _map_chunk(self._path(cell), self._chunk)
        except FileNotFoundError:
            tile = np.broadcast_to(np.zeros((), self.dtype), self.shard_shape)
        except BufferSizeError:
            self._check()  # if the store is another one, that says why
            raise
        self._check()  # now, for the store may be replaced at any time
        return tile

    def _check(self) -> None:
        """Raise if the metadata that say what lies in chunks are no longer there: FileNotFoundError, DumpError."""
        if _version(self._folder) == self._version:
            return
        now = _array(self._folder)
        if now._description != self._description:
            raise DumpError("replaced since it was opened, by another array: open it again", path=self._folder)
        self._version = now._version

    @property
    def _description(self) -> tuple[Any, ...]:
        """What the metadata say of the array and its chunks."""
        return self.xla_shape, self._chunk, self._separator, self._prefix

    def _tiles(self) -> Iterator[tuple[Cell, Box]]:
        return _chunks(self.shape, self.shard_shape)


def _map_chunk(path: str, shape: Shape, mode: str = "r") -> LayoutArray:
    """The array in the file of a chunk; BufferSizeError, which names the file, if that has not exactly its size."""
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
    """The error of a chunk that has `size` bytes and not those of its array; `found` is what holds it, in words."""
    needed = shape.buffer_byte_size
    message = f"{where}: a damaged chunk: {shape} takes {needed} bytes, {found} {size}"
    return BufferSizeError(message, actual=size, needed=needed)


class ZarrStore(Mapping[str, ZarrArray]):
    """The arrays of a store by their paths in it; an array at its root is called as the store, without its ending."""

    def __init__(self, path: str) -> None:
        self._folders: dict[str, str] = {}
        for folder, folders, files in os.walk(path, onerror=_raise):
            if METADATA in files and _metadata(folder).get("node_type") == "array":
                name = os.path.relpath(folder, path).replace(os.sep, "/")
                self._folders[Path(os.path.abspath(path)).stem if name == "." else name] = folder
                folders.clear()  # chunks
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
    """Whether a folder is a store, or an array or a group in one. UnsupportedError for one of an older version."""
    if any(os.path.isfile(os.path.join(path, old)) for old in _OLD_METADATA):
        raise UnsupportedError(f"{os.fspath(path)} is a store of zarr's version 2: zarr reads it")
    return os.path.isfile(os.path.join(path, METADATA))


def refuse_folder(target: str | os.PathLike[str], sources: list[os.stat_result], *, overwrite: bool) -> None:
    """Raise OSError if a folder must not be written: it is no store, is or holds a source, or is there."""
    try:
        there = os.stat(target)
    except FileNotFoundError:
        return
    if any(os.path.samestat(source, there) for source in sources):
        raise OSError(errno.EINVAL, "source and target are the same", os.fspath(target))
    if not any(os.path.isfile(os.path.join(target, name)) for name in (METADATA, *_OLD_METADATA)):
        message = "no zarr store, so it is never overwritten: remove it, or choose another name"
        raise OSError(errno.EINVAL, message, os.fspath(target))
    if not overwrite:
        raise path_taken(target)
    for place, folders, files in os.walk(target):
        for name in (*folders, *files):
            found = os.lstat(os.path.join(place, name))
            if any(os.path.samestat(source, found) for source in sources):
                message = f"{os.path.join(place, name)}, which is a source, lies in the target"
                raise OSError(errno.EINVAL, message, os.fspath(target))


def refuse_within(target: str | os.PathLike[str], sources: list[os.stat_result]) -> None:
    """Raise OSError if a file or folder that is to be written would lie in a store that is a source."""
    for folder in Path(os.path.realpath(os.fsdecode(target))).parents:
        if os.path.isfile(folder / METADATA):
            there = os.stat(folder)
            if any(os.path.samestat(source, there) for source in sources):
                raise OSError(errno.EINVAL, "the target lies in the source", os.fspath(target))


def _version(folder: str) -> tuple[int, ...]:
    """What another file of metadata would not have in common: device, inode, time of the last change."""
    status = os.stat(os.path.join(folder, METADATA))
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _metadata(folder: str) -> dict[str, Any]:
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
    version = _version(folder)  # of what is read now, or older
    found = _metadata(folder)
    try:
        dimensions, chunk = found["shape"], found["chunk_grid"]["configuration"]["chunk_shape"]
        if not (are_sizes(dimensions) and are_sizes(chunk, 1) and len(dimensions) == len(chunk)):
            raise ValueError("the sizes of the array or of its chunks are none")
        keys = found.get("chunk_key_encoding", {})
        is_default = keys.get("name", "default") == "default"
        separator = keys.get("configuration", {}).get("separator", "/" if is_default else ".")
        stored = _dtype(found["data_type"])
        has_names = (is_default or keys["name"] == "v2") and separator in ("/", ".")
        if found["chunk_grid"].get("name") != "regular" or not has_names or _holds_values(found):
            raise UnsupportedError("it is stored in a way that is not read here: zarr reads it")
        name, layout = _stored_as(found, stored)
        shape, whole = (Shape(name, sizes, layout_of(layout) if layout else None) for sizes in (chunk, dimensions))
        if shape.dtype.itemsize != stored.itemsize:
            raise ValueError(f"{name} has not the size of {stored}")
    except UnsupportedError as error:
        raise UnsupportedError(f"{folder}: {error}") from error
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DumpError(f"damaged metadata: {visible(str(error), 200)}", path=os.path.join(folder, METADATA)) from error
    return ZarrArray(folder, whole, shape, separator, "c" if is_default else "", version)


def _holds_values(found: dict[str, Any]) -> bool:
    """Whether chunks that are missing hold something else than zero; zero with a sign is something else."""
    value = found.get("fill_value", 0)
    parts = value if isinstance(value, list) else [value]
    return bool(found.get("storage_transformers")) or any(part or str(part).startswith("-") for part in parts)


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise UnsupportedError("it holds structures or texts")
    try:
        dtype = np.dtype(name)
        if dtype.name != name:  # as of ">i4" and "i2, f4", which are NumPy's words
            raise TypeError
        return dtype
    except (TypeError, ValueError, SyntaxError):
        raise UnsupportedError(f"it holds {visible(name, 100)}, which XLA has no element type for") from None


def _stored_as(found: dict[str, Any], stored: np.dtype[Any]) -> tuple[str, str | None]:
    """XLA's element type of an array, and the layout of its chunks; None is row-major."""
    (codec, *more), name = found["codecs"], (found.get("attributes") or {}).get(_TYPE_KEY)
    configuration = codec.get("configuration", {})
    if more or codec["name"] not in ("bytes", CODEC) or configuration.get("endian", "little") != "little":
        encoders = ", ".join(str(each["name"]) for each in (codec, *more))
        raise UnsupportedError(f"its chunks are encoded by {visible(encoders, 200)}: zarr reads them")
    if codec["name"] == CODEC:
        name = configuration.get("element_type", name)
    if name is None:
        name = element_type_of_dtype(stored).name
    return name, configuration["layout"] if codec["name"] == CODEC else None


def write_zarr(
    folder: str,
    arrays: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    progress: Progress | None = None,
    *,
    in_layout: bool = False,
    grouped: bool = False,
) -> int:
    """Write arrays into an empty folder, as a group, or a single one as the store itself; returns the bytes written.

    Chunks are whole tiles of some megabytes; with `in_layout` they are buffers in the layout of the shapes.

    Raises
    ------
    UnsupportedError
        A name that the store cannot hold.
    """
    if not grouped and len(arrays) == 1:
        [(name, array)] = arrays.items()
        return _write_array(folder, "dim", array, shapes[name], progress, in_layout)
    written = 0
    for name in sorted(arrays):  # an array comes before what would lie in it
        *groups, own = _parts(name)
        place = folder
        for part in groups:
            written += _write_group(place, name)
            place = os.path.join(place, part)
            os.makedirs(place, exist_ok=True)
        written += _write_group(place, name)
        place = os.path.join(place, own)
        try:
            os.mkdir(place)
        except FileExistsError:
            raise UnsupportedError(
                f"{name!r} would lie where another array does: to this file system, their names are the same"
            ) from None
        written += _write_array(place, own, arrays[name], shapes[name], progress, in_layout)
    return written


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    where = " on Windows" if sys.platform == "win32" and any(map(_NO_NAME_ON_WINDOWS.search, parts)) else ""
    if where or any(part in ("", ".", "..", METADATA) or "\0" in part for part in parts):
        raise UnsupportedError(f"no array in a zarr store can be called {name!r}{where}")
    return parts


def _write_group(folder: str, name: str) -> int:
    if not os.path.exists(os.path.join(folder, METADATA)):
        return _write_metadata(folder, {"node_type": "group", "attributes": {}})
    if _metadata(folder)["node_type"] == "array":
        raise UnsupportedError(f"{name!r} would lie in another array of the zarr store")
    return 0


def _write_metadata(folder: str, found: Mapping[str, Any]) -> int:
    text = json.dumps({"zarr_format": 3, **found}, indent=2).encode()
    with open(os.path.join(folder, METADATA), "wb") as file:
        return file.write(text)


def _write_array(folder: str, name: str, array: Any, shape: Shape, progress: Progress | None, in_layout: bool) -> int:
    chunks = tuple(max(1, n) for n in blank_array(shape).chunk_shape)
    chunk = Shape(shape.element_type, chunks, shape.layout)
    assert shape.layout is not None
    is_native, stored = is_builtin(shape.dtype), storage_dtype(shape.element_type)
    configuration: dict[str, Any] = {"endian": "little"}
    if in_layout:
        configuration = {"layout": str(shape.layout)} | ({} if is_native else {"element_type": shape.element_type})
    found = {
        "node_type": "array",
        "shape": shape.dimensions,
        "data_type": stored.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": [0.0, 0.0] if shape.dtype.kind == "c" else np.zeros((), stored).item(),
        "codecs": [{"name": CODEC if in_layout else "bytes", "configuration": configuration}],
        "attributes": {} if is_native else {_TYPE_KEY: shape.element_type},
        "dimension_names": [f"{name}_{k}" for k in range(shape.rank)],
    }
    written = _write_metadata(folder, found)
    for cell, box in _chunks(shape.dimensions, chunks):
        values = np.zeros(chunks, shape.dtype)
        inside: Any = (*(slice(0, s.stop - s.start) for s in box), ...)
        values[inside] = np.asarray(array[(*box, ...)]).astype(shape.dtype, copy=False)
        place = os.path.join(folder, "c", *map(str, cell))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if in_layout:
            buffer = np.zeros(chunk.buffer_byte_size, np.uint8)  # with the prefix of dynamic sizes, if it has one
            LayoutArray.from_numpy(values, chunk.layout, out=buffer, element_type=chunk.element_type)
        else:
            buffer = values.astype(stored) if np.can_cast(shape.dtype, stored) else values.view(stored)
        with open(place, "wb") as file:
            written += file.write(buffer.data)
        if progress:
            progress(values[inside].size)
    return written


def storage_dtype(element_type: str) -> np.dtype[Any]:
    """The dtype of zarr for an element type: its own, int8 or uint8 for integers of less than a byte, else its bits.

    >>> [storage_dtype(name).name for name in ("f32", "s4", "bf16", "pred", "f8e5m2")]
    ['float32', 'int8', 'uint16', 'bool', 'uint8']
    """
    dtype = ELEMENT_TYPES[element_type].dtype
    assert dtype is not None
    if is_builtin(dtype):
        return dtype
    return np.dtype(np.int8) if np.can_cast(dtype, np.int8) else np.dtype(f"u{dtype.itemsize}")


def _chunks(sizes: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[Cell, Box]]:
    """The chunks that hold elements: coordinates, and slice of the array."""
    for cell in cells_of(sizes, chunks):
        yield cell, tuple(slice(k * c, min((k + 1) * c, n)) for k, c, n in zip(cell, chunks, sizes, strict=True))
