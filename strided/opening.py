"""`strided.open`: the array in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex

from strided.arrays.layout_array import LayoutArray, map_array
from strided.errors import BufferSizeError, DumpError, UnsupportedError
from strided.files.magic import NPY_MAGIC
from strided.files.regular import head_and_size, open_regular, read_exactly
from strided.io.raw_format import RawFormat, no_shape
from strided.io.remote import RemoteArray, is_url
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape, is_shape
from strided.runtime.aliases import Bytes
from strided.runtime.argument_checks import whole

if TYPE_CHECKING:
    from strided.io.npy import NpyHeader


def open_array(
    path: str | os.PathLike[str],
    shape: str | AnyShape | None = None,
    mode: str = "r",
    offset: SupportsIndex = 0,
    *,
    mapped: bool = True,
    bitorder: str = "little",
    allow_excess: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> LayoutArray:
    """The array in a file. The file is mapped: nothing is read until it is used.

    Every access first checks the size of a mapped file, but truncation during an access kills the process (SIGBUS); so
    does a full disk when a sparse file is written to in mode "r+".

    Parameters
    ----------
    path : path or URL
        A file of raw bytes; a ``.npy`` file; or ``FILE:NAME`` for an array in a ``.safetensors`` or ``.npz`` file or a
        ``.zarr`` folder, where ``:NAME`` is optional if there is only one array. An array of several chunks is opened
        as a `ZarrArray`, which reads the chunks that a key needs. A URL of fsspec, such as ``https://...`` or
        ``s3://...``, is opened as a `RemoteArray`, which fetches what is indexed.
    shape : str or Shape, optional
        XLA's text, layout included: required for raw bytes and URLs. Also for an array that NumPy wrote to a ``.npy``
        or ``.npz`` file with a dtype of ml_dtypes, such as bfloat16, which such files do not name.
    mode : {"r", "r+", "c"}, optional
        Read-only; assignments change the file; or assignments stay in memory.
    offset : int, optional
        Bytes before the array. With an offset, the file may continue after the array.
    mapped : bool, optional
        False reads the array into memory instead; not with mode "r+". Ignored for a URL.
    bitorder, allow_excess
        As for LayoutArray.
    storage_options : dict, optional
        For a URL: options of its file system, such as credentials.

    Raises
    ------
    OSError
        The file cannot be opened.
    NotationError
        The text is not a shape.
    BufferSizeError
        The file is too short, longer than rounding explains, or of another format, such as ``.npy`` or gzip.
    StridedError
        There is no array NAME, or a name is needed because there are several.
    UnsupportedError
        Raw bytes without a shape, or with that of a tuple; a shape for an array in a ``.zarr`` folder; a compressed
        array; a dtype that XLA lacks.
    DumpError
        The file is damaged, or is a pipe or a device.
    ValueError
        An invalid `mode` or `bitorder`; "r+" with `mapped=False`; a mode other than "r" for a URL, or `storage_options`
        without one.
    TypeError
        An offset without a shape, or for an array with a name.
    LayoutError
        The shape has a dimension of unknown size, is a layout alone, or differs from that in the file.

    Examples
    --------
    >>> import os, tempfile, numpy as np, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "dump.bin")
    ...     sd.LayoutArray.from_numpy(np.eye(3, dtype=np.float32), "{0,1:T(2,128)}").buffer.tofile(path)
    ...     sd.open(path, "f32[3,3]{0,1:T(2,128)}")[1].tolist()
    [0.0, 1.0, 0.0]
    """
    given: object = path
    if not isinstance(given, (str, os.PathLike)) and not (isinstance(given, bytes) and os.path.exists(given)):
        raise TypeError(f"expected a path, not {type(given).__name__}; strided.LayoutArray(buffer, shape) wraps bytes")
    raw = RawFormat(whole(offset, "offset"), bitorder, allow_excess)
    if is_url(path):
        return _remote(str(path), shape, mode, raw, storage_options)  # type: ignore[no-any-return]  # see there
    if storage_options:
        raise ValueError(f"storage_options go with a URL, which {os.fsdecode(path)} is not")
    if shape is None:
        if raw.offset:
            raise TypeError("an offset goes with the shape of the raw bytes behind it: give both, or neither")
        if (stored := _stored(os.fsdecode(path), mode, mapped)) is not None:
            return stored  # type: ignore[no-any-return]  # as above
        path, shape, start = _located(os.fsdecode(path), None, mode)
        raw = replace(raw, offset=start)
    elif isinstance(shape, str) and is_shape(os.fsdecode(path)) and not is_shape(shape):
        raise TypeError("the path comes first, then the shape")
    elif _is_named(os.fsdecode(path)):
        if raw.offset:
            raise TypeError(f"an offset goes with a file of raw bytes, and {os.fsdecode(path)} says where it lies")
        path, shape, start = _located(os.fsdecode(path), array_shape(shape), mode)
        raw = replace(raw, offset=start)
    parsed = array_shape(shape)
    try:
        return _raw_array(path, parsed, raw, mode, mapped)
    except BufferSizeError:
        header = _header_without_type(path) if raw.has_end else None
        if header is None:
            raise
    from strided.io.npy import mappable_shape_of_npy  # only needed for such files

    found = mappable_shape_of_npy(header, parsed, os.fsdecode(path))
    return _raw_array(path, found, replace(raw, offset=header.offset), mode, mapped)


def _remote(
    url: str, shape: str | AnyShape | None, mode: str, raw: RawFormat, storage_options: dict[str, Any] | None
) -> Any:
    """The array at a URL: a `RemoteArray`.

    The return type is Any so that `open_array` can be annotated with LayoutArray, which callers nearly always get.
    """
    if mode != "r":
        raise ValueError(f'a file on another machine is read-only: mode "r", not {mode!r}')
    if shape is None:
        raise UnsupportedError(f"what a URL names is read as raw bytes: give the shape of {url}")
    return RemoteArray(url, shape, raw, storage_options)


def _raw_array(path: str | os.PathLike[str], shape: Shape, raw: RawFormat, mode: str, mapped: bool) -> LayoutArray:
    """The array in the bytes of a file."""
    if mapped:
        return map_array(path, shape, mode, raw.offset, bitorder=raw.bitorder, allow_excess=raw.allow_excess)
    own, excess = _read(path, shape, raw, mode)
    array = LayoutArray(own, shape, bitorder=raw.bitorder)
    array._memory.excess = excess
    return array


def _stored(text: str, mode: str, mapped: bool) -> Any:
    """The array in a ``.zarr`` folder, mapped or read; None for anything else."""
    from strided.io.containers import chosen, split_name
    from strided.io.zarr_store import ZarrStore, is_zarr

    path, name = split_name(text)
    if not (os.path.isdir(path) and is_zarr(path)):
        return None
    store = ZarrStore(path)
    array = store[chosen(store, name, path)]
    if mapped:
        return array.mapped(mode)
    _refuse_unmapped(mode)
    return array.read(mode)


def _is_named(text: str) -> bool:
    """Whether a text is ``PATH:NAME`` with an existing path, or a ``.zarr`` folder. OSError as for `split_name`."""
    # Imported here, because only files that describe their arrays need it.
    if os.path.isdir(text):
        from strided.io.zarr_store import is_zarr

        return is_zarr(text)
    if os.path.lexists(text):
        return False
    from strided.io.containers import split_name

    return split_name(text)[1] is not None


def _located(text: str, given: Shape | None, mode: str) -> tuple[str, Shape, int]:
    """The file of ``PATH`` or ``PATH:NAME``, the array's shape, and the bytes before it.

    `given` is the shape of an array whose element type the file does not name.
    """
    # Imported here, because only files that describe their arrays need it.
    from strided.io.containers import chosen, open_container, split_name
    from strided.io.npy import mappable_shape_of_npy, read_npy_header

    path, name = split_name(text)
    if given is not None and os.path.isdir(path):
        raise UnsupportedError(f"{path} is a folder, whose arrays say their shapes: leave the shape out")
    with open_regular(path) as file:
        if (container := open_container(file, path)) is not None:
            return path, *container.place(chosen(container, name, path), given, writable=mode == "r+")
        head, size = head_and_size(file)
        if head.startswith(NPY_MAGIC) and name is None:
            header = read_npy_header(file, path)
            return path, mappable_shape_of_npy(header, None, path), header.offset
    if name is not None and head.startswith(NPY_MAGIC):
        raise UnsupportedError(f"{path} holds one array, which has no name: leave ':{name}' out")
    if name is not None:
        raise UnsupportedError(f"{path} holds no arrays by name that can be mapped; strided.read_dump reads a dump")
    raise no_shape(path, head, size)


def _header_without_type(path: str | os.PathLike[str]) -> NpyHeader | None:
    """The header of a ``.npy`` file that does not name the element type; None for any other file."""
    from strided.io.npy import read_npy_header

    with open_regular(path) as file:
        if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
            return None
        file.seek(0)
        try:
            header = read_npy_header(file, os.fspath(path))
        except DumpError:
            return None
    return header if header.dtype.kind == "V" and header.type_name is None else None


def _refuse_unmapped(mode: str) -> None:
    """Raise ValueError for a mode that an array in memory cannot have."""
    if mode not in ("r", "c"):
        known = "" if mode == "r+" else f", and {mode!r} is none"
        raise ValueError(
            f'a file that is read into memory (mapped=False) has mode "r" or "c"{known}: "r+" needs a mapping'
        )


def _read(path: str | os.PathLike[str], shape: Shape, raw: RawFormat, mode: str) -> tuple[Bytes, int]:
    """The bytes of an array in a file, read into memory, and the number of bytes after them in the file."""
    _refuse_unmapped(mode)
    with open_regular(path) as file:
        head, size = head_and_size(file)
        _, stop = raw.bounds(size, shape, head, os.fsdecode(path))
        content = read_exactly(file, raw.offset, stop - raw.offset, repr(os.fspath(path)))
    content.flags.writeable = mode == "c"
    return content, size - stop
