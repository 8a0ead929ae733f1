"""Buffers as flat bytes, and whether their size fits a layout."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.dtypes import element_type
from strided.errors import BufferSizeError, LayoutError, UnsupportedError
from strided.formats import HEAD_BYTES, format_of
from strided.layout import AnyShape, BufferShape, Layout, Shape, TupleShape
from strided.notation import parse
from strided.regular import open_regular

Bytes: TypeAlias = npt.NDArray[np.uint8]

#: NumPy's limit on dimensions.
_MAX_NDIM = 64
_BYTE = np.dtype(np.uint8)
#: Sizes that allocators and file systems round buffers up to, in bytes.
GRANULES = (512, 1024, 4096)


def flat_bytes(buffer: Any) -> Bytes:
    """Any contiguous buffer as an array of bytes on the same memory, read-only where the buffer is.

    Raises
    ------
    TypeError
        No buffer.
    UnsupportedError
        An array whose elements do not lie one after another.

    >>> flat_bytes(np.array([1, 2], np.int16)).tolist()
    [1, 0, 2, 0]
    """
    if isinstance(buffer, np.ndarray):
        if buffer.dtype.hasobject:
            raise TypeError(f"a buffer of dtype {buffer.dtype} holds references, not data")
        if not buffer.flags.c_contiguous:
            raise UnsupportedError("the buffer's elements do not lie one after another; copy it first")
        flat = np.asarray(buffer).ravel()
        return flat if flat.dtype is _BYTE else flat.view(_BYTE)
    try:
        memory = memoryview(buffer)
    except (TypeError, BufferError):
        raise TypeError(f"{type(buffer).__name__} has no buffer; give bytes, an ndarray or the like") from None
    if not memory.c_contiguous:
        raise UnsupportedError("the buffer's elements do not lie one after another; copy it first")
    if memory.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(memory, np.uint8)


def array_shape(shape: str | AnyShape) -> Shape:
    """The shape of one array from text or a value.

    Raises
    ------
    NotationError
        Text that is no shape.
    UnsupportedError
        A shape that is not one array's.
    """
    parsed = parse(shape) if isinstance(shape, str) else shape
    if isinstance(parsed, BufferShape):
        parsed = parsed.shape
    if not isinstance(parsed, Shape):
        if isinstance(parsed, TupleShape):
            raise UnsupportedError(f"{parsed} is a tuple: every element has a buffer of its own, wrap them one by one")
        if isinstance(parsed, Layout):
            raise LayoutError(f"{parsed} is a layout alone; write the shape with it, as in f32[3,5]{parsed}")
        raise TypeError(
            f"shape must be text or a Shape, not {type(shape).__name__}; the buffer comes first, then its shape"
        )
    if parsed.layout is None:
        raise UnsupportedError(f"{parsed} holds no values")
    if parsed.rank > _MAX_NDIM:
        raise UnsupportedError(f"an array of {parsed.rank} dimensions: NumPy's have {_MAX_NDIM} at most")
    return parsed


def stored_bits(shape: Shape) -> int:
    """Bits of one element in the buffer, checked to be a width that can be read.

    Raises
    ------
    UnsupportedError
        The layout's ``E(n)`` is neither the width of the type in memory nor a packing of it.
    """
    kind, bits = element_type(shape.element_type), shape.element_bits
    if bits != kind.storage_bits and not (bits == kind.bits and bits in (1, 2, 4)):
        packed = f" or packed, E({kind.bits})" if kind.bits in (1, 2, 4) else ""
        raise UnsupportedError(
            f"{shape} asks for {bits} bits an element; {kind.name} is read in {kind.storage_bits} bits{packed}"
        )
    return bits


def cut(memory: Bytes, shape: Shape, offset: int, allow_excess: bool) -> Bytes:
    """The bytes of `memory` that belong to an array of a shape.

    They start `offset` bytes in, behind the metadata prefix that ``M(n)`` announces.

    Raises
    ------
    BufferSizeError
        As `extent`.
    """
    head = b"" if memory.size == shape.buffer_byte_size else memory[:HEAD_BYTES].tobytes()
    start, stop = extent(memory.size, shape, offset, allow_excess, head)
    return memory if (start, stop) == (0, memory.size) else memory[start:stop]


def extent(size: int, shape: Shape, offset: int, allow_excess: bool, head: bytes) -> tuple[int, int]:
    """The bytes, from and to, that belong to an array of a shape in a buffer of `size` bytes that begins with `head`.

    Raises
    ------
    BufferSizeError
        Too few bytes. More than rounding up to a granule explains, or what begins as another format does and is longer
        than the array: unless `allow_excess` or an offset is given.
    """
    prefix = 0 if shape.layout is None else shape.layout.dynamic_shape_metadata_prefix_bytes
    needed, have = shape.buffer_byte_size, size - offset
    if not 0 <= offset <= size:
        raise BufferSizeError(f"offset {offset} is outside a buffer of {size} bytes", actual=size)
    if have != needed and not (offset or allow_excess) and (found := format_of(head, size)) is not None:
        raise BufferSizeError(
            f"{shape} takes {needed} bytes, but the buffer has {have} and begins as {found.name} does: {found.advice}"
            + (". allow_excess=True takes the bytes as they are" if have > needed else ""),
            actual=have,
            needed=needed,
        )
    if have < needed:
        raise BufferSizeError(_too_short(shape, have, needed, prefix), actual=have, needed=needed)
    if have > needed and not (offset or allow_excess or _is_explained(shape, have, needed, prefix)):
        raise BufferSizeError(
            f"{shape} takes {needed} bytes, but the buffer has {have}: {have - needed} too many for padding. "
            "Check the shape; give an offset if the array lies inside a larger buffer, or allow_excess=True",
            actual=have,
            needed=needed,
        )
    return offset + prefix, offset + needed


def _is_explained(shape: Shape, have: int, needed: int, prefix: int) -> bool:
    """Whether a buffer is longer than needed as allocators make it."""
    if any(have <= -(-needed // granule) * granule for granule in GRANULES):
        return True
    # The CPU runtime reports packed elements with one byte each, and allocates as much.
    return shape.element_bits < 8 and have == prefix + shape.expansion.address_elements


def _too_short(shape: Shape, have: int, needed: int, prefix: int) -> str:
    message = f"{shape} takes {needed} bytes, but the buffer has {have}"
    if prefix:
        message += f" (M({prefix}) puts {prefix} bytes of metadata in front of the data)"
    if needed - prefix > shape.byte_size:
        message += (
            f". XLA allocates {shape.byte_size} bytes for it, counting by the first tile alone, "
            "but a later tile pads again and its addresses reach further"
        )
    elif have == shape.unpadded_byte_size:
        message += ". That is the size without padding: the data are row-major, or of another layout without tiles"
    return message


@dataclass(slots=True, eq=False)
class MappedFile:
    """A file, and its bytes mapped into memory.

    Attributes
    ----------
    path : str
        Absolute; empty where only the mapping is known.
    mode : str
        "r", "r+" or "c".
    offset, size : int
        Which bytes of the file are mapped.
    content : ndarray of uint8
        Those bytes.
    mapping : mmap.mmap or None
        None where there are no bytes.
    inode : tuple of int
        Device and inode of the file: another file may come to lie at the path.
    touched : bool
        Mode "c": whether the bytes may no longer be the file's.
    """

    path: str
    mode: str
    offset: int
    size: int
    content: Bytes
    mapping: mmap.mmap | None
    inode: tuple[int, int]
    touched: bool = False

    @property
    def is_the_file(self) -> bool:
        """Whether the bytes in memory are those of the file, as far as this process goes."""
        return bool(self.path) and (self.mode != "c" or not self.touched)

    def touch(self) -> None:
        """Remember that the bytes may be changed from now on, or are in the hands of somebody who may change them."""
        if self.mode == "c":
            self.touched = True

    def mapped_anew(self, start: int, size: int, mode: str = "c") -> MappedFile | None:
        """Some of the bytes mapped once more; None where the path no longer leads to the file.

        Nothing is read: the file has to stay as it is while the new mapping is in use.
        """
        try:
            found = map_file(self.path, mode, self.offset + start, size)
        except (OSError, BufferSizeError):
            return None
        return found if found.inode == self.inode else None

    def check(self) -> None:
        """Make sure that the bytes are still there: reading behind the end of a file kills the process.

        Raises
        ------
        BufferSizeError
            The file was truncated.
        """
        if self.mapping is not None and (now := self.mapping.size()) < self.offset + self.size:
            name = repr(self.path) if self.path else "a mapped file"
            raise BufferSizeError(
                f"{name} was truncated: it has {now} bytes, bytes {self.offset} to {self.offset + self.size} "
                "of it were mapped",
                actual=now,
                needed=self.offset + self.size,
            )

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """What tells this content from another: path, inode, size in bytes, time of the last change in nanoseconds."""
        status = os.stat(self.path)
        return self.path, status.st_ino, status.st_size, status.st_mtime_ns


def map_file(path: str | os.PathLike[str], mode: str, offset: int, length: int | None) -> MappedFile:
    """A file's bytes, mapped: from `offset` on, `length` of them or all.

    Modes are those of numpy.memmap: "r" (read-only), "r+" (writes go to the file), "c" (writes stay in memory).

    Raises
    ------
    BufferSizeError
        The file is shorter.
    DumpError
        A FIFO, a device, a socket.
    """
    access = {"r": mmap.ACCESS_READ, "r+": mmap.ACCESS_WRITE, "c": mmap.ACCESS_COPY}
    if mode not in access:
        raise ValueError(f'mode must be "r", "r+" or "c", not {mode!r}')
    name = os.path.abspath(os.fsdecode(path))
    with open_regular(path, writable=mode == "r+") as file:
        size, status = file.seek(0, os.SEEK_END), os.fstat(file.fileno())
        inode = status.st_dev, status.st_ino
        length = size - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > size:
            raise BufferSizeError(
                f"{os.fspath(path)!r} has {size} bytes; bytes {offset} to {offset + length} are asked for",
                actual=size,
                needed=offset + length,
            )
        if length == 0:
            return MappedFile(name, mode, offset, 0, np.empty(0, np.uint8), None, inode)
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapping = mmap.mmap(file.fileno(), offset - start + length, access=access[mode], offset=start)
    content = np.frombuffer(mapping, np.uint8)[offset - start :]
    return MappedFile(name, mode, offset, length, content, mapping, inode)


def mapping_behind(memory: Bytes) -> MappedFile | None:
    """The file that somebody mapped and `memory` is a part of; None of other memory.

    Of the file only the bytes that are mapped are known, from the one that the mapping begins with.
    """
    owner: Any = memory.base
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, mmap.mmap):
        return None
    try:
        owner.size()
    except (OSError, ValueError):  # no file at all
        return None
    return MappedFile("", "r", 0, len(owner), memory, owner, (0, 0))


def read_file(
    path: str | os.PathLike[str], mode: str, shape: Shape, offset: int, allow_excess: bool
) -> tuple[Bytes, int]:
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
