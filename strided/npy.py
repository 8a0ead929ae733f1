"""``.npy`` files that keep their element type.

NumPy has no name for bfloat16, float8 or int4: ``np.save`` writes them as ``|V2`` or ``|V1``, bytes without a meaning.
The files made here say it in a comment, in the space that pads the header::

    {'descr': '|V2', 'fortran_order': False, 'shape': (17, 300), } # bf16

`load_npy` reads the comment. ``np.load`` passes over it and returns the bytes; ``np.load(path).view(dtype)`` gives them
their type back.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from strided.dtypes import ELEMENT_TYPES, ElementType
from strided.dtypes import element_type as element_type_named
from strided.errors import DumpError
from strided.foreign import visible
from strided.regular import open_regular

_MAGIC = b"\x93NUMPY"
_ARCHIVE = b"PK"
_ALIGNMENT = 64
#: How the header is read, by the version of the format. The third differs from the second in the names of fields.
_HEADERS: dict[bytes, Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    b"\x01\x00": np.lib.format.read_array_header_1_0,
    b"\x02\x00": np.lib.format.read_array_header_2_0,
    b"\x03\x00": np.lib.format.read_array_header_2_0,
}
_COMMENT = re.compile(rb"#\s*(\w+)\s*$")


def npy_header(element_type: ElementType, dimensions: Sequence[int]) -> bytes:
    """What a ``.npy`` file of row-major values of this type begins with, a multiple of 64 bytes.

    >>> from strided.dtypes import element_type
    >>> npy_header(element_type("bf16"), (17, 300))[10:].rstrip()
    b"{'descr': '|V2', 'fortran_order': False, 'shape': (17, 300), } # bf16"
    """
    assert element_type.dtype is not None
    description = element_type.dtype.str if is_numpys_own(element_type.dtype) else f"|V{element_type.dtype.itemsize}"
    text = f"{{'descr': {description!r}, 'fortran_order': False, 'shape': {tuple(dimensions)!r}, }}"
    if not is_numpys_own(element_type.dtype):
        text += f" # {element_type.name}"
    # Version 1.0 counts the header's length in two bytes: enough for any array of at most 64 dimensions.
    unpadded = len(_MAGIC) + 4 + len(text) + 1
    text += " " * (-unpadded % _ALIGNMENT) + "\n"
    return _MAGIC + bytes((1, 0)) + len(text).to_bytes(2, "little") + text.encode("ascii")


def is_numpys_own(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself knows a type, so that its files can name it."""
    return dtype.isbuiltin == 1


def load_npy(
    path: str | os.PathLike[str],
    *,
    element_type: str | None = None,
    mmap_mode: Literal["r", "r+", "c"] | None = None,
) -> npt.NDArray[Any]:
    """The array in a ``.npy`` file, with its type.

    Parameters
    ----------
    element_type : str, optional
        XLA's name of the type (``"bf16"``), for files that do not say it: those that ``np.save`` wrote.
    mmap_mode : optional
        As in `numpy.load`: the array is mapped, not read.

    Raises
    ------
    ValueError
        The file is no ``.npy`` file or a damaged one, or its elements do not have the size of `element_type`.
    OSError
        A file that cannot be opened.
    """
    if mmap_mode not in (None, "r", "r+", "c"):  # NumPy's fourth one would write a new file over this one
        raise ValueError(f'mmap_mode must be None, "r", "r+" or "c", not {mmap_mode!r}')
    shown = visible(os.fsdecode(path))
    try:
        _check(path)
        array: npt.NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (OSError, DumpError, MemoryError):
        raise
    except Exception as error:  # NumPy evaluates the header as Python: whatever that raises
        raise ValueError(f"{shown} is no .npy file, or a damaged one: {visible(str(error), 200)}") from error
    name = element_type or (_named_type(path) if array.dtype.kind == "V" else None)
    if name is None or (element_type is None and name not in ELEMENT_TYPES):
        return array
    dtype = element_type_named(name).dtype
    if dtype is None or dtype.itemsize != array.dtype.itemsize:
        raise ValueError(f"{shown} holds elements of {array.dtype.itemsize} bytes, which are no {name}")
    return array.view(dtype)


def _check(path: str | os.PathLike[str]) -> None:
    """Raise where a file's header cannot be read, or says more than the file holds: NumPy allocates before it reads."""
    with open_regular(path) as file:
        start = file.read(len(_MAGIC) + 2)
        if start.startswith(_ARCHIVE):
            raise ValueError("it is an archive of several arrays")
        if not start.startswith(_MAGIC):
            raise ValueError("it does not begin as one")
        read = _HEADERS.get(start[len(_MAGIC) :])
        if read is None:
            return
        try:
            shape, _, dtype = read(file)
        except (MemoryError, OSError) as error:  # of the parser: there is no more than ten kilobytes to it
            raise ValueError(f"its header cannot be read: {error}") from error
        have, needed = os.fstat(file.fileno()).st_size - file.tell(), math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or needed > have:
            raise ValueError(f"an array of shape {shape} in {have} bytes")


def _named_type(path: str | os.PathLike[str]) -> str | None:
    """The type that the header's comment names."""
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC) + 4)
        # Later versions count the header's length in four bytes; what was just read may be half of that count.
        length = start[8:] if start[6:7] == b"\x01" else start[8:] + file.read(2)
        found = _COMMENT.search(file.read(int.from_bytes(length, "little")).rstrip())
    return None if found is None else found[1].decode()
