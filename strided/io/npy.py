"""``.npy`` files that keep their element type.

NumPy's format has no name for bfloat16, float8 or int4: ``np.save`` writes them as untyped bytes, ``|V2`` or ``|V1``.
Files written here name the type in a comment in the header's padding::

    {'descr': '|V2', 'fortran_order': False, 'shape': (17, 300), } # bf16

`load_npy` reads the comment. ``np.load`` returns untyped bytes, which ``.view(dtype)`` turns into the type.
"""

from __future__ import annotations

import ast
import contextlib
import math
import os
import re
import warnings
from collections.abc import Sequence
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strided.errors import DumpError, LayoutError, UnsupportedError
from strided.escape import visible
from strided.files.magic import NPY_MAGIC
from strided.files.regular import naming_in_read_errors, open_regular
from strided.layout import Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES, ElementType, is_builtin, known_element_type
from strided.layout.element_types import element_type as element_type_named
from strided.layout.layout import descending
from strided.runtime.argument_checks import path_text

_ARCHIVE = b"PK"
#: Values begin at a multiple of this, as NumPy's format requires for aligned mapping.
_ALIGNMENT = 64
#: The longest header that is read, in bytes; NumPy's own limit.
_LONGEST_HEADER = 10_000
_LONG = re.compile(r"(?<=\d)L(?=[,)])")
#: What Python may warn about in a literal: invalid escapes, and numbers directly followed by letters.
_WARNED_OF = re.compile(r"\\|\d[a-z]", re.IGNORECASE)
#: NumPy's descriptions of float8_e5m2, which NumPy writes but cannot read: the only small type of kind "f".
_FLOATS_OF_ONE_BYTE = ("<f1", ">f1", "|f1")
_COMMENT = re.compile(rb"#\s*(\w+)\s*$")
#: An example type for each size in bytes: one that NumPy has no name for, if there is any.
_EXAMPLES = {1: "f8e4m3fn", 2: "bf16", 4: "f32", 8: "f64", 16: "c128"}


def npy_header(element_type: ElementType, dimensions: Sequence[int]) -> bytes:
    """The header of a ``.npy`` file of row-major values; its size is a multiple of 64 bytes.

    >>> from strided.layout.element_types import element_type
    >>> npy_header(element_type("bf16"), (17, 300))[10:].rstrip()
    b"{'descr': '|V2', 'fortran_order': False, 'shape': (17, 300), } # bf16"
    """
    assert element_type.dtype is not None
    description = element_type.dtype.str if is_builtin(element_type.dtype) else f"|V{element_type.dtype.itemsize}"
    text = f"{{'descr': {description!r}, 'fortran_order': False, 'shape': {tuple(dimensions)!r}, }}"
    if not is_builtin(element_type.dtype):
        text += f" # {element_type.name}"
    # Version 1.0 has two bytes for the header's length: enough for any array of at most 64 dimensions.
    unpadded = len(NPY_MAGIC) + 4 + len(text) + 1
    text += " " * (-unpadded % _ALIGNMENT) + "\n"
    return NPY_MAGIC + bytes((1, 0)) + len(text).to_bytes(2, "little") + text.encode("ascii")


def load_npy(
    path: str | os.PathLike[str], *, element_type: str | None = None, mmap_mode: Literal["r", "r+", "c"] | None = None
) -> npt.NDArray[Any]:
    """The array in a ``.npy`` file, with its element type.

    Parameters
    ----------
    path : path
    element_type : str, optional
        XLA's name of the type (``"bf16"``), for files that do not name it, such as those of ``np.save``, and hold
        untyped bytes, or the bits as integers.
    mmap_mode : optional
        As in `numpy.load`: the array is mapped, not read.

    Raises
    ------
    ValueError
        The file is no ``.npy`` file or damaged, or its elements have another size or type than `element_type`.
    UnsupportedError
        XLA has no `element_type`.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "bits.npy")
    ...     np.save(path, np.array([0x3F80, 0x4000], np.uint16))
    ...     load_npy(path, element_type="bf16")
    array([1, 2], dtype=bfloat16)
    """
    if mmap_mode not in (None, "r", "r+", "c"):  # NumPy's "w+" would overwrite the file
        raise ValueError(f'mmap_mode must be None, "r", "r+" or "c", not {mmap_mode!r}')
    path = path_text(path, "path")
    shown = visible(path)
    header = _checked_header(path)
    if header.dtype.hasobject:
        raise ValueError(f"{shown} holds Python objects, which are not read: unpickling runs code")
    try:
        array = _values(path, header, mmap_mode)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # NumPy trusts the header, and may fail in any way
        raise ValueError(f"{shown} is no .npy file, or is damaged: {visible(str(error), 200)}") from error
    stored = header.type_name if array.dtype.kind == "V" else None
    name = stored if element_type is None else element_type
    if name is None:
        return array
    dtype = element_type_named(name).dtype
    if dtype is None or dtype.itemsize != array.dtype.itemsize:
        raise ValueError(f"{shown} holds {array.dtype.itemsize}-byte elements, which cannot be {name}")
    if array.dtype.newbyteorder("=") == dtype:
        return array
    # Types that NumPy lacks are stored as untyped bytes, or as integers of the same bits.
    is_bits = array.dtype.kind in "iu" and array.dtype.isnative and not is_builtin(dtype)
    if not is_bits and array.dtype.kind != "V":
        raise ValueError(f"{shown} holds {array.dtype}, not {name}: leave element_type out, and convert with astype")
    return array.view(dtype)


def _values(
    path: str | os.PathLike[str], header: NpyHeader, mmap_mode: Literal["r", "r+", "c"] | None
) -> npt.NDArray[Any]:
    """The values after a header, as `numpy.load` would return them, without reading the header again."""
    dimensions, order = header.dimensions, header.order
    if mmap_mode is not None:
        with naming_in_read_errors(path):
            return np.memmap(path, header.dtype, mmap_mode, header.offset, dimensions, order)
    with open_regular(path) as file, naming_in_read_errors(path):
        file.seek(header.offset)
        return np.fromfile(file, header.dtype, math.prod(dimensions)).reshape(dimensions, order=order)


def _checked_header(path: str | os.PathLike[str]) -> NpyHeader:
    """The header, checked against the file's size before NumPy allocates memory."""
    with open_regular(path) as file:
        header = read_npy_header(file, os.fspath(path))
        refuse_short(header, os.fstat(file.fileno()).st_size, os.fspath(path))
    return header


def refuse_short(header: NpyHeader, size: int, path: str | bytes) -> None:
    """Raise DumpError if a file of `size` bytes, header included, is too short for its values."""
    have = size - header.offset
    if math.prod(header.dimensions) * header.dtype.itemsize > have:
        message = f"a damaged .npy file: an array of shape {header.dimensions} in {have} bytes"
        raise DumpError(message, path=os.fsdecode(path))


class NpyHeader(NamedTuple):
    """The header of a ``.npy`` file; the values begin at byte `offset` of the file.

    `dtype` is as NumPy reads it: untyped bytes (``|V2``) for a type it does not know, except float8_e5m2. `type_name`
    is XLA's name of the type; None if XLA has none or the file does not name it.
    """

    dtype: np.dtype[Any]
    type_name: str | None
    dimensions: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of the values, as NumPy's `order` argument."""
        return "F" if self.fortran_order else "C"

    @property
    def layout(self) -> Layout:
        """The order of the values, as a layout."""
        rank = len(self.dimensions)
        return Layout(tuple(range(rank)) if self.fortran_order else descending(rank))


def read_npy_header(file: BinaryIO, path: str | None = None) -> NpyHeader:
    """Read the header of a ``.npy`` file of any version from the file's position. DumpError for anything else.

    >>> import io
    >>> from strided.layout.element_types import element_type
    >>> read_npy_header(io.BytesIO(npy_header(element_type("bf16"), (17, 300))))[1:]
    ('bf16', (17, 300), False, 128)
    """
    start = file.read(len(NPY_MAGIC) + 4)
    if start.startswith(_ARCHIVE):
        raise DumpError("not a .npy file but an archive: strided.open('FILE:NAME') opens an array in it", path=path)
    if len(start) < len(NPY_MAGIC) + 4 or not start.startswith(NPY_MAGIC) or start[6] not in (1, 2, 3):
        raise DumpError("not a .npy file: it does not begin with a header of version 1, 2 or 3", path=path)
    length = start[8:] if start[6] == 1 else start[8:] + file.read(2)
    size = int.from_bytes(length, "little")
    if size > _LONGEST_HEADER:
        raise DumpError(f"a .npy header of {size} bytes; at most {_LONGEST_HEADER} are read", path=path)
    text = file.read(size)
    if len(text) < size:
        raise DumpError(f"a .npy header of {size} bytes, of which the file has {len(text)}", path=path)
    try:
        found = _literal(text.decode("utf-8" if start[6] == 3 else "latin-1").strip(), is_old=start[6] < 3)
        dtype = _dtype_of(found["descr"])
        dimensions, fortran = found["shape"], found["fortran_order"]
        if not (type(dimensions) is tuple and all(type(n) is int and 0 <= n < 1 << 63 for n in dimensions)):
            raise ValueError("its shape is invalid")
        if type(fortran) is not bool or len(found) != 3:
            raise ValueError("it must have exactly the keys descr, fortran_order and shape")
    except Exception as error:  # evaluating a Python literal fails in many ways
        raise DumpError(f"a damaged .npy header: {visible(str(error), 200)}", path=path) from error
    return NpyHeader(dtype, _type_name(dtype, text), dimensions, fortran, len(start + length[2:]) + size)


def _dtype_of(description: Any) -> np.dtype[Any]:
    """The dtype that a header describes."""
    if description in _FLOATS_OF_ONE_BYTE:
        dtype = ELEMENT_TYPES["f8e5m2"].dtype
        assert dtype is not None
        return dtype
    return np.lib.format.descr_to_dtype(description)


def _literal(text: str, *, is_old: bool) -> Any:
    """Evaluate a header's text. ValueError if it is no literal, in plainer words than Python's.

    With `is_old`, long integers may be written as ``3L``, as Python 2 did.
    """
    # Warning filters are shared by all threads, so they change only for unusual texts.
    quietly = warnings.catch_warnings(action="ignore") if _WARNED_OF.search(text) else contextlib.nullcontext()
    try:
        with quietly:
            return ast.literal_eval(text)
    except ValueError:
        raise ValueError("it is no literal of Python") from None
    except SyntaxError:
        if not is_old or (without := _LONG.sub("", text)) == text:
            raise
        return _literal(without, is_old=False)


def _type_name(dtype: np.dtype[Any], header: bytes) -> str | None:
    """XLA's name of a header's type; None if XLA has none or the file does not name it."""
    if dtype.kind != "V":
        found = known_element_type(dtype)
        return None if found is None else found.name
    comment = _COMMENT.search(header.rstrip())
    named = None if comment is None else ELEMENT_TYPES.get(comment[1].decode())
    return None if named is None or named.dtype is None or named.dtype.itemsize != dtype.itemsize else named.name


def mappable_shape_of_npy(header: NpyHeader, given: Shape | None, path: str) -> Shape:
    """`shape_of_npy` for values to be mapped: UnsupportedError if they are not in native byte order."""
    shape = shape_of_npy(header, given, path)
    if not header.dtype.isnative:
        raise UnsupportedError(
            f"{path} holds {header.dtype}, in the byte order of other machines, and cannot be mapped: "
            "`strided convert` writes it to a file that can be"
        )
    return shape


def shape_of_npy(header: NpyHeader, given: Shape | None, path: str) -> Shape:
    """The shape of the values after a header, checked against `given`; they may be in either byte order.

    `given` is needed if the header does not name the type (such as bfloat16 from ``np.save``); its layout must be the
    file's, or the default, row-major. LayoutError if the header has another shape; UnsupportedError for a type that XLA
    lacks, or that the file does not name.
    """
    name, size = header.type_name, header.dtype.itemsize
    example = f"give its shape, as in {_EXAMPLES.get(size)}{list(header.dimensions)}"
    if name is None:
        untyped = header.dtype.kind == "V" and header.dtype.names is None and header.dtype.subdtype is None
        if not untyped or size not in _EXAMPLES:
            raise UnsupportedError(f"{path} holds {header.dtype}, which XLA has no element type for")
        if given is None:
            raise UnsupportedError(f"{path} holds {size}-byte elements and does not say of which type: {example}")
        if given.dtype.itemsize == size:
            name = given.element_type
    found = None if name is None else Shape(name, header.dimensions, header.layout)
    if given is not None and given not in (found, None if found is None else found.with_layout(None)):
        if found is None:
            raise LayoutError(f"{path} holds {size}-byte elements, {header.dimensions}, not {given}; {example}")
        raise LayoutError(f"{path} holds {found}, not {given}; leave the shape out, or give the one that it has")
    assert found is not None
    return found
