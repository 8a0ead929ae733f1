"""Write zarr stores of version 3, which `zarr_store` reads."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.layout_array import LayoutArray
from strided.errors import UnsupportedError
from strided.files.atomic import path_taken
from strided.files.paths import real_path
from strided.io.sparse_pages import blank_array
from strided.io.zarr_store import CODEC, METADATA, OLD_METADATA, TYPE_KEY, ChunkKeys, chunks_of, metadata_of
from strided.layout import Shape
from strided.layout.element_types import ELEMENT_TYPES, is_builtin
from strided.runtime.aliases import Bytes, Progress

#: Names of the chunks that are written: zarr's default.
_KEYS = ChunkKeys("c", "/")
#: Parts of names that Windows refuses, shortens, or takes for a device or a path that may lead out of the store.
_INVALID_ON_WINDOWS = re.compile(r'[\\:<>"|?*\0-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.IGNORECASE)


def refuse_folder(target: str | os.PathLike[str], sources: list[os.stat_result], *, overwrite: bool) -> None:
    """Raise OSError if a folder exists that is no store, is or contains a source, or may not be overwritten."""
    try:
        there = os.stat(target)
    except FileNotFoundError:
        return
    if any(os.path.samestat(source, there) for source in sources):
        raise OSError(errno.EINVAL, "source and target are the same", os.fspath(target))
    if not any(os.path.isfile(os.path.join(target, name)) for name in (METADATA, *OLD_METADATA)):
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
    """Raise OSError if the target would lie inside a store that is a source."""
    for folder in Path(real_path(target)).parents:
        if os.path.isfile(folder / METADATA):
            there = os.stat(folder)
            if any(os.path.samestat(source, there) for source in sources):
                raise OSError(errno.EINVAL, "the target lies in the source", os.fspath(target))


def write_zarr(
    folder: str,
    arrays: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    progress: Progress | None = None,
    *,
    in_layout: bool = False,
    grouped: bool = False,
) -> int:
    """Write arrays into an empty folder, as a group, or a single one as its root; return the number of bytes written.

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
    for name in sorted(arrays):  # an array comes before any that would lie inside it
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
            raise UnsupportedError(f"{name!r} has the same name as another array on this file system") from None
        written += _write_array(place, own, arrays[name], shapes[name], progress, in_layout)
    return written


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    where = " on Windows" if sys.platform == "win32" and any(map(_INVALID_ON_WINDOWS.search, parts)) else ""
    if where or any(part in ("", ".", "..", METADATA) or "\0" in part for part in parts):
        raise UnsupportedError(f"no array in a zarr store can be called {name!r}{where}")
    return parts


def _write_group(folder: str, name: str) -> int:
    if not os.path.exists(os.path.join(folder, METADATA)):
        return _write_metadata(folder, {"node_type": "group", "attributes": {}})
    if metadata_of(folder)["node_type"] == "array":
        raise UnsupportedError(f"{name!r} would lie inside another array of the zarr store")
    return 0


def _write_metadata(folder: str, found: Mapping[str, Any]) -> int:
    text = json.dumps({"zarr_format": 3, **found}, indent=2).encode()
    with open(os.path.join(folder, METADATA), "wb") as file:
        return file.write(text)


def _write_array(folder: str, name: str, array: Any, shape: Shape, progress: Progress | None, in_layout: bool) -> int:
    chunks = tuple(max(1, n) for n in blank_array(shape).chunk_shape)
    chunk = Shape(shape.element_type, chunks, shape.layout)
    written = _write_metadata(folder, _array_metadata(name, shape, chunks, in_layout=in_layout))
    for cell, box in chunks_of(shape.dimensions, chunks):
        values = np.zeros(chunks, shape.dtype)
        inside: Any = (*(slice(0, s.stop - s.start) for s in box), ...)
        values[inside] = np.asarray(array[(*box, ...)]).astype(shape.dtype, copy=False)
        place = os.path.join(folder, _KEYS.key(cell))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        content = _laid_out(values, chunk) if in_layout else _as_stored(values, shape.element_type)
        with open(place, "wb") as file:
            written += file.write(content.data)
        if progress:
            progress(values[inside].size)
    return written


def _array_metadata(name: str, shape: Shape, chunks: tuple[int, ...], *, in_layout: bool) -> dict[str, Any]:
    """Zarr's metadata of an array; `name` is the prefix of its dimensions' names."""
    is_native, stored = is_builtin(shape.dtype), storage_dtype(shape.element_type)
    configuration: dict[str, Any] = {"endian": "little"}
    if in_layout:
        configuration = {"layout": str(shape.layout)} | ({} if is_native else {"element_type": shape.element_type})
    return {
        "node_type": "array",
        "shape": shape.dimensions,
        "data_type": stored.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": _KEYS.separator}},
        "fill_value": [0.0, 0.0] if shape.dtype.kind == "c" else np.zeros((), stored).item(),
        "codecs": [{"name": CODEC if in_layout else "bytes", "configuration": configuration}],
        "attributes": {} if is_native else {TYPE_KEY: shape.element_type},
        "dimension_names": [f"{name}_{k}" for k in range(shape.rank)],
    }


def _laid_out(values: npt.NDArray[Any], chunk: Shape) -> Bytes:
    """The buffer of a chunk in its layout."""
    buffer = np.zeros(chunk.buffer_byte_size, np.uint8)  # including the prefix of dynamic sizes, if any
    LayoutArray.from_numpy(values, chunk.layout, out=buffer, element_type=chunk.element_type)
    return buffer


def _as_stored(values: npt.NDArray[Any], element_type: str) -> npt.NDArray[Any]:
    """Values of an element type in the dtype in which zarr stores it."""
    stored = storage_dtype(element_type)
    return values.astype(stored) if np.can_cast(values.dtype, stored) else values.view(stored)


def storage_dtype(element_type: str) -> np.dtype[Any]:
    """Zarr's dtype for an element type: its own, int8 or uint8 for integers narrower than a byte, else its bits.

    >>> [storage_dtype(name).name for name in ("f32", "s4", "bf16", "pred", "f8e5m2")]
    ['float32', 'int8', 'uint16', 'bool', 'uint8']
    """
    dtype = ELEMENT_TYPES[element_type].dtype
    assert dtype is not None
    if is_builtin(dtype):
        return dtype
    return np.dtype(np.int8) if np.can_cast(dtype, np.int8) else np.dtype(f"u{dtype.itemsize}")
