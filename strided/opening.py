"""How a file becomes an array: `strided.open`."""

from __future__ import annotations

import os

import numpy as np

from strided.arrays.buffers import extent
from strided.arrays.layout_array import LayoutArray, map_array
from strided.errors import BufferSizeError
from strided.files.magic import HEAD_BYTES
from strided.files.mapping import Bytes
from strided.files.regular import open_regular
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape


def open_array(
    path: str | os.PathLike[str],
    shape: str | AnyShape,
    mode: str = "r",
    offset: int = 0,
    *,
    mapped: bool = True,
    bitorder: str = "little",
    allow_excess: bool = False,
) -> LayoutArray:
    """The array in a file, mapped: nothing is read before it is asked for.

    A mapped file has to stay as long as it is: every access looks at its size first, but the system ends the process
    (SIGBUS) where somebody truncates it in the middle of one. So it does where a write to a sparse file, mapped with
    mode "r+", finds the disk full. ``mapped=False`` reads the file into memory instead, all of the array at once.

    Parameters
    ----------
    path : path
    shape : str or Shape
    mode : {"r", "r+", "c"}
        Read-only; assignments written through to the file; assignments kept in memory.
    offset : int
        Bytes in front of the array. With an offset, what follows the array in the file does not matter.
    mapped : bool, optional
        False reads the array into memory, which nothing that happens to the file changes. Not with mode "r+".
    bitorder, allow_excess
        As for LayoutArray.

    Raises
    ------
    OSError
        The file cannot be opened.
    BufferSizeError
        The file is too short, or longer than padding explains; or it is of another format, such as ``.npy`` or gzip,
        and longer than the array.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "dump.bin")
    ...     _ = LayoutArray.from_numpy(np.eye(3, dtype=np.float32), "{0,1:T(2,128)}").buffer.tofile(path)
    ...     open_array(path, "f32[3,3]{0,1:T(2,128)}")[1].tolist()
    [0.0, 1.0, 0.0]
    """
    if mapped:
        return map_array(path, shape, mode, offset, bitorder=bitorder, allow_excess=allow_excess)
    parsed = array_shape(shape)
    own, excess = _read(path, mode, parsed, offset, allow_excess)
    array = LayoutArray(own, parsed, bitorder=bitorder)
    array._memory.excess = excess
    return array


def _read(path: str | os.PathLike[str], mode: str, shape: Shape, offset: int, allow_excess: bool) -> tuple[Bytes, int]:
    """The bytes of an array in a file, in memory, and how many more the file has behind them.

    Raises
    ------
    ValueError
        Mode "r+": nothing written to memory reaches the file.
    BufferSizeError
        As `extent`; or the file was truncated while it was read.
    """
    if mode not in ("r", "c"):
        known = "" if mode == "r+" else f", and {mode!r} is none"
        raise ValueError(
            f'a file that is read into memory (mapped=False) has mode "r" or "c"{known}: "r+" needs a mapping'
        )
    with open_regular(path) as file:
        head, size = file.read(HEAD_BYTES), file.seek(0, os.SEEK_END)
        _, stop = extent(size, shape, offset, allow_excess, head)
        content = np.empty(stop - offset, np.uint8)
        file.seek(offset)
        have = file.readinto(content.data)  # type: ignore[attr-defined]
    if have < content.size:
        raise BufferSizeError(
            f"{os.fspath(path)!r} was truncated while it was read: {have} bytes of {content.size} were left",
            actual=have,
            needed=content.size,
        )
    content.flags.writeable = mode == "c"
    return content, size - stop
