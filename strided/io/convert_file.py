"""Write arrays to files, in bounded memory, whole or not at all. The file's extension decides the format."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, SupportsIndex

import numpy as np

from strided.arrays.grid_array import GridArray
from strided.arrays.layout_array import LayoutArray
from strided.errors import LayoutError, UnsupportedError
from strided.files.atomic import refuse_existing, refuse_same, replaced, replaced_folder
from strided.io.containers import chosen, ending_of, name_of, open_container, split_name
from strided.io.file_array import open_file
from strided.io.metadata import check_is_text
from strided.io.npy import npy_header
from strided.io.raw_format import RawFormat
from strided.io.safetensors import safetensors_header
from strided.io.write_values import write_array, write_rows
from strided.io.zarr_writer import refuse_folder, refuse_within, write_zarr
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES, element_type_of_dtype
from strided.layout.layout import descending
from strided.layout.parser import array_shape, layout_of
from strided.runtime.aliases import Progress
from strided.runtime.argument_checks import check_progress, path_text, whole

#: Extensions of files that hold several arrays by name.
CONTAINERS = (".npz", ".safetensors", ".zarr")

#: Extensions of files that hold the raw bytes of one array.
RAW_ENDINGS = ("", ".bin", ".raw", ".dat")

#: Extensions of other formats, under which raw bytes are not written because the name would mislead.
FOREIGN_ENDINGS = frozenset(
    ".csv .tsv .txt .json .h5 .hdf5 .hdf .nc .nc4 .mat .pt .pth .pkl .pickle .gguf .onnx .pb"
    " .parquet .arrow .feather .png .jpg .jpeg .gif .tif .tiff .bmp .svg .html .pdf .xls .xlsx .fits"
    " .gz .bz2 .xz .zst .zip .tar .tgz .7z".split()
)


def save_npy(path: str | os.PathLike[str], array: Any, *, progress: Progress | None = None) -> None:
    """Write an array to a ``.npy`` file, its element type included; `strided.load_npy` reads it back.

    Parameters
    ----------
    path : path
    array : LayoutArray, ShardedArray or array-like
        The first two are converted block by block and need not fit into memory.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The file cannot be written; an earlier file stays as it was.
    UnsupportedError
        A dtype that XLA lacks.

    Examples
    --------
    >>> import os, tempfile, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.npy")
    ...     save_npy(path, sd.LayoutArray.from_numpy(np.eye(2, dtype=np.int8), "{0,1:T(2,128)}"))
    ...     sd.load_npy(path)
    array([[1, 0],
           [0, 1]], dtype=int8)
    """
    path = path_text(path, "path")
    check_progress(progress)
    array = _as_array(array)
    with replaced(path) as file:
        _write_npy(file, array, result_shape(array, None), progress)


def save_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    layout: str | Layout | None = None,
    *,
    progress: Progress | None = None,
) -> None:
    """Write arrays to a safetensors file by name; ``strided.open("FILE:NAME")`` and the safetensors library read it.

    Types that the format lacks, such as int4, and buffers in a layout are stored as ``U8``, with the text of their
    shape in the metadata: `strided.open` then returns the array, the safetensors library its bytes.

    Parameters
    ----------
    path : path
    arrays : mapping of str to LayoutArray, ShardedArray or array-like
        The first two are converted block by block and need not fit into memory.
    layout : str or Layout, optional
        Store buffers in this layout, with zeros as padding. By default the values are stored row-major.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The file cannot be written; an earlier file stays as it was.
    UnsupportedError
        A dtype that XLA lacks; a name that is not valid text.
    LayoutError, NotationError
        The layout is invalid, or does not fit.

    Examples
    --------
    >>> import os, tempfile, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "w.safetensors")
    ...     save_safetensors(path, {"w": np.eye(3, dtype=np.float32)}, "{0,1:T(2,128)}")
    ...     sd.open(f"{path}:w")[1]
    LayoutArray([0., 1., 0.], dtype=float32, view of f32[3,3]{0,1:T(2,128)})
    """
    path = path_text(path, "path")
    check_progress(progress)
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays are given by name, as in {{'w': array}}, not as {type(arrays).__name__}")
    found = {name: _as_array(array) for name, array in arrays.items()}
    shapes = result_shapes(found, layout)
    with replaced(path) as file:
        _write_safetensors(file, found, shapes, progress)


def convert_file(
    source: str | os.PathLike[str],
    shape: str | AnyShape | None,
    target: str | os.PathLike[str],
    *,
    layout: str | Layout | None = None,
    offset: SupportsIndex = 0,
    bitorder: str = "little",
    overwrite: bool = True,
    progress: Progress | None = None,
) -> int:
    """Convert an array in a file to another file; returns the new file's size in bytes.

    Parameters
    ----------
    source : path
        Raw bytes or a ``.npy`` file, which may be compressed by gzip or Zstandard; the content decides. With an
        offset, or if its size is exactly the shape's, a file is taken for raw bytes whatever it begins with. Compressed
        data are written decompressed to a temporary file, as far as needed. Without a shape, also a ``.npz`` or
        ``.safetensors`` file of one array, or ``FILE:NAME`` for one of several.
    shape : str, Shape or None
        None for files that state their shape.
    target : path
        Its extension decides the format: ``.npy``, ``.npz``, ``.safetensors``, ``.zarr`` (a folder, version 3); raw
        bytes for ``.bin``, ``.raw``, ``.dat`` and none; for any other, raw bytes with a layout, ``.npy`` without. In a
        container, an array keeps its name from the source, or gets the source file's name without its extension.
    offset, bitorder
        As for `strided.open`.
    layout : str or Layout, optional
        Layout of the raw bytes to write, or of each chunk of a ``.zarr``, with zeros as padding. Default: row-major.
    overwrite : bool, optional
        Whether to replace an existing file, as `numpy.save` does.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The target cannot be written, is the source, or contains it; an earlier file stays. FileExistsError if it exists
        and `overwrite` is false.
    UnsupportedError
        The target has the extension of another format; raw bytes without a shape; a tuple shape.
    NotationError
        The text is not a valid shape or layout.
    BufferSizeError
        The source does not have the shape's size, or was truncated meanwhile.
    DumpError
        Broken compressed data; a damaged header.
    StridedError
        A source of several arrays without a name, or with an unknown one.
    LayoutError
        A ``.npy`` file of another shape; a layout that does not fit the array.
    ValueError
        An unknown `bitorder`.

    Examples
    --------
    >>> import os, tempfile, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     raw, new = os.path.join(folder, "a.bin"), os.path.join(folder, "b.bin")
    ...     np.arange(6, dtype=np.uint8).tofile(raw)
    ...     convert_file(raw, "u8[2,3]", new, layout="{0,1:T(2,2)}")
    ...     np.fromfile(new, np.uint8).tolist()
    8
    [0, 3, 1, 4, 2, 5, 0, 0]
    """
    check_progress(progress)
    name, member = split_name(path_text(source, "source"))
    target = path_text(target, "target")
    with open(name, "rb") as file:
        check_target([os.fstat(file.fileno())], target, layout, overwrite=overwrite)
        if shape is None and (container := open_container(file, name)) is not None:
            with container:
                only = chosen(container, member, name)
                return write_arrays({only: container[only]}, target, layout, overwrite=overwrite, progress=progress)
        if member is not None:
            raise UnsupportedError(f"{name} holds one array, which has no name: leave ':{member}' out")
        with open_file(file, name, shape, RawFormat(whole(offset, "offset"), bitorder)) as array:
            return write_arrays({name_of(name): array}, target, layout, overwrite=overwrite, progress=progress)


def check_target(
    sources: list[os.stat_result], target: str | os.PathLike[str], layout: object, *, overwrite: bool
) -> None:
    """Raise OSError or UnsupportedError if these sources must not be converted to this target."""
    refuse_name(target, layout)
    refuse_within(target, sources)
    if ending_of(target) == ".zarr":
        refuse_folder(target, sources, overwrite=overwrite)
        return
    for source in sources:
        refuse_same(source, target)
    if not overwrite:
        refuse_existing(target)


def refuse_name(target: str | os.PathLike[str], layout: object) -> None:
    """Raise UnsupportedError if the extension of a file's name is that of another format.

    >>> refuse_name("out.csv", None)
    Traceback (most recent call last):
    strided.errors.UnsupportedError: out.csv: files that end in .csv are not written, only .npy, .npz, .safetensors, .zarr and raw bytes
    """  # noqa: E501
    name, ending = os.fsdecode(target), ending_of(target)
    if ending in FOREIGN_ENDINGS:
        raise UnsupportedError(
            f"{name}: files that end in {ending} are not written, only .npy, .npz, .safetensors, .zarr and raw bytes"
        )
    if ending in (".npy", ".npz") and layout is not None:
        raise UnsupportedError(
            f"{name}: {ending} files are row-major: leave the layout out, or use another ending for raw bytes"
        )


def layout_in(target: str | os.PathLike[str], layout: str | Layout | None, rank: int) -> str | Layout | None:
    """The layout in which a file of this name holds an array; None for formats that hold row-major values.

    >>> str(layout_in("x.bin", None, 2)), layout_in("x.npy", None, 2)
    ('{1,0}', None)
    """
    return Layout(descending(rank)) if layout is None and ending_of(target) in RAW_ENDINGS else layout


def write_arrays(
    arrays: Mapping[str, Any],
    target: str | os.PathLike[str],
    layout: str | Layout | None,
    *,
    element_type: str | None = None,
    overwrite: bool,
    grouped: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write arrays to a file, in the format given by its name and the layout; return its size in bytes.

    Only containers take several arrays. Values are cast to `element_type`, as by ``astype``. A single array becomes the
    root of a ``.zarr`` folder, or with `grouped` a named member of its root group.
    """
    layout = layout_in(target, layout, len(next(iter(arrays.values())).shape))
    shapes = result_shapes(arrays, layout, element_type)
    if ending_of(target) == ".zarr":
        with replaced_folder(target, overwrite=overwrite) as folder:
            return write_zarr(folder, arrays, shapes, progress, in_layout=layout is not None, grouped=grouped)
    with replaced(target, overwrite=overwrite) as file:
        match ending_of(target):
            case ".safetensors":
                _write_safetensors(file, arrays, shapes, progress)
            case ".npz":
                _write_npz(file, arrays, shapes, progress)
            case _:
                [(name, array)] = arrays.items()
                if layout is None:
                    header = npy_header(ELEMENT_TYPES[shapes[name].element_type], array.shape)
                    file.write(header)
                    write_array(file, array, shapes[name], len(header), progress)
                else:
                    write_array(file, array, shapes[name], 0, progress)
        return file.seek(0, os.SEEK_END)


def result_shape(array: Any, layout: str | Layout | None, element_type: str | None = None) -> Shape:
    """The shape of an array in another layout (None: row-major) and element type (None: the array's own)."""
    known = None if getattr(array, "is_view", False) else getattr(array, "xla_shape", None)
    if known is None or known.dimensions != array.shape or known.dtype != array.dtype:
        known = Shape(element_type_of_dtype(array.dtype).name, array.shape)
    shape = Shape(element_type or known.element_type, known.dimensions, dynamic=known.dynamic)
    return array_shape(shape.with_layout(None if layout is None else layout_of(layout)))


def result_shapes(
    arrays: Mapping[str, Any], layout: str | Layout | None, element_type: str | None = None
) -> dict[str, Shape]:
    """`result_shape` for several arrays; a LayoutError names the one that the layout does not fit."""
    found = {}
    for name, array in arrays.items():
        try:
            found[name] = result_shape(array, layout, element_type)
        except LayoutError as error:
            if len(arrays) == 1:
                raise
            raise LayoutError(f"{name!r}: {error}; a layout fits arrays of one rank: give those alone") from None
    return found


def _as_array(array: Any) -> Any:
    """The array itself if it can be read block by block, else an ndarray."""
    found = array if isinstance(array, (LayoutArray, GridArray)) else np.asanyarray(array)
    if isinstance(found, np.ma.MaskedArray):
        raise UnsupportedError("files hold no masks, and this one would be lost: give array.filled(value)")
    return found


def _write_npy(file: Any, array: Any, shape: Shape, progress: Progress | None) -> None:
    file.write(npy_header(ELEMENT_TYPES[shape.element_type], array.shape))
    write_rows(file, array, shape.dtype, progress)


def _write_npz(
    file: BinaryIO, arrays: Mapping[str, Any], shapes: Mapping[str, Shape], progress: Progress | None
) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            check_is_text(name, ".npz")
            if "\0" in name:  # where zipfile would cut the name
                raise UnsupportedError(f"no array in a .npz file can be called {name!r}")
            # Without a time stamp, the same arrays give the same bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                _write_npy(member, array, shapes[name], progress)


def _write_safetensors(
    file: BinaryIO, arrays: Mapping[str, Any], shapes: Mapping[str, Shape], progress: Progress | None
) -> None:
    header, places = safetensors_header(shapes)
    file.write(header)
    for name, start in places.items():
        write_array(file, arrays[name], shapes[name], start, progress)
