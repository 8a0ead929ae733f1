"""The arrays that a command's operands name."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click

import strided
from strided.arrays.layout_array import LayoutArray
from strided.cli import options
from strided.cli.file_kinds import (
    ABOUT_MEMORY,
    is_about_memory,
    is_npy,
    kind_of_dump,
    named_arrays,
    refuse_empty,
)
from strided.errors import BufferSizeError, StridedError, UnsupportedError
from strided.files.regular import is_seekable, naming_in_read_errors, refuse_irregular
from strided.io import file_array
from strided.io.containers import Container, chosen, ending_of, is_container, name_of, open_container, split_name
from strided.io.raw_format import NoShapeError, RawFormat
from strided.io.zarr_store import ZarrArray, ZarrStore, is_zarr
from strided.layout import AnyShape
from strided.layout.element_types import element_type_of_dtype
from strided.layout.parser import array_shape, is_shape
from strided.wording import names_meant

#: The name of standard input and output.
STANDARD = "-"
#: The shell's brace expansion turns ``f32[3,5]{1,0}`` into ``f32[3,5]1 f32[3,5]0``.
_EXPANDED_BRACES = re.compile(r"[a-z]\w*\[[\d,]*\]\d")


def array_of(operands: Sequence[str], reading: Reading) -> tuple[Any, Sequence[str]]:
    """The array that the first operands name, and the operands after it."""
    source, shape, rest = shaped(operands)
    try:
        opened = reading.opened(source, shape)
    except NoShapeError as error:
        if not rest:
            raise
        if (later_shape := next(filter(is_shape, rest), None)) is not None:
            raise click.UsageError(f"the shape comes right after its file: {source} '{later_shape}'") from None
        raise click.UsageError(f"{rest[0]!r} is no shape, and {error}") from None
    return opened.meant(), rest


def only_array_of(operands: Sequence[str], reading: Reading) -> Any:
    """The array that all operands name."""
    array, rest = array_of(operands, reading)
    if rest:
        raise click.UsageError(f"one operand too many: {rest[0]!r}")
    return array


def is_dump_folder(path: str) -> bool:
    """Whether a path is a folder that is not a zarr store."""
    return os.path.isdir(path) and not is_zarr(path)


def holds_names(source: str) -> bool:
    """Whether a source, given without ``:NAME``, holds named arrays: an archive, a store, a snapshot."""
    if os.path.isdir(source):
        return is_zarr(source)
    if not os.path.isfile(source):  # standard input, a pipe, FILE:NAME, or nothing at all
        return False
    with open(source, "rb") as file:
        return is_container(file, source) or kind_of_dump(file, Path(source)) == "snapshot"


def mapped(array: Any) -> Any:
    """The array mapped with its padding if it is in a file; any other as it is."""
    return array.mapped() if isinstance(array, (file_array.FileArray, ZarrArray)) else array


def with_layout(array: Any, name: str) -> LayoutArray:
    """The array with its padding; UsageError if it has no layout, such as strings in a ``.npy`` file."""
    if isinstance(found := mapped(array), LayoutArray):
        return found
    of_known_type(array, name)
    raise click.UsageError(f"{name} has no layout, or lies in many pieces: name one file with its shape")


def of_known_type(array: Any, name: str) -> Any:
    """The array; UnsupportedError that names it if XLA has no such type."""
    try:
        element_type_of_dtype(array.dtype)
    except UnsupportedError:
        raise UnsupportedError(f"{name} holds {array.dtype}, which XLA has no element type for") from None
    return array


@dataclass(frozen=True)
class Opened:
    """The arrays in a source by name, read on use, and the name of the selected one, if any."""

    path: str
    arrays: Mapping[str, Any]
    name: str | None

    def meant(self) -> Any:
        """The selected array, or the only one; StridedError if there are several."""
        return self.array(chosen(self.arrays, None, self.path) if self.name is None else self.name)

    def all_meant(self) -> dict[str, Any]:
        """The selected array, or else all of them, without tokens, which hold nothing."""
        if self.name is not None:
            return {self.name: self.array(self.name)}
        values = {name: self._value(name) for name in self.arrays}
        return {name: self._checked(name, value) for name, value in values.items() if value is not None}

    def array(self, name: str) -> Any:
        """An array; StridedError if there is none of that name."""
        return self._checked(name, self._value(name))

    def _value(self, name: str) -> Any:
        try:
            return self.arrays[name]
        except KeyError as error:
            said = str(error.args[0])
            if said == name:  # the message of a plain mapping
                said = f"no array is named {name!r}; {names_meant(name, self.arrays)}"
            raise StridedError(f"{self.path}: {said}") from None

    def _checked(self, name: str, value: Any) -> Any:
        """The value of that name; StridedError for a token or a tuple of a snapshot."""
        if hasattr(value, "dtype"):
            return value
        kind = "a token, which holds nothing" if value is None else "a tuple of values"
        raise StridedError(f"{self.path}:{name} is {kind}, and no array")


class _Source(NamedTuple):
    """A source of arrays: its text, its path, and the name of one array if it ends in ``:NAME``."""

    text: str
    path: str
    name: str | None

    @classmethod
    def parse(cls, text: str) -> _Source:
        return cls(text, *((STANDARD, None) if text == STANDARD else split_name(text)))


@dataclass(frozen=True)
class Reading:
    """How sources are read: a command's options, and the stack that closes their files.

    Attributes
    ----------
    raw : RawFormat
        How an array lies in raw bytes.
    kind : str or None
        What a file of a dump holds, in place of what it seems to hold.
    stack : ExitStack
    """

    raw: RawFormat
    kind: str | None
    stack: contextlib.ExitStack

    def opened(self, text: str, shape: str | None, otherwise: str | AnyShape | None = None) -> Opened:
        """Open the arrays in a file, a folder or standard input; `text` may end in ``:NAME``.

        `otherwise` is the shape to use if `shape` is None and the source does not state its own.
        """
        source = _Source.parse(text)
        if self.raw.offset and shape is None and otherwise is None:
            raise click.UsageError(f"--offset goes with the shape of raw bytes, which {text} has not")
        if os.path.isdir(source.path):
            if shape is not None:
                raise click.UsageError(f"{source.path} is a folder; a shape goes with a file of raw bytes")
            return Opened(source.path, _arrays_in_folder(source.path), source.name)
        file, label = open_operand(source.path, self.stack)
        if source.name is None and (shape is not None or not is_seekable(file)):
            return self._one_array(file, label, shape, otherwise)
        refuse_irregular(file.fileno(), source.path)  # a container is not read in order, as a pipe must be
        if (container := open_container(file, label)) is not None:
            self.stack.enter_context(container)
            return Opened(label, self._contained(container, source, shape), source.name)
        if source.name is None and otherwise is not None:
            return self._one_array(file, label, shape, otherwise)
        if shape is None:
            refuse_empty(source.path)
        return self._dumped(file, label, source, shape)

    def _contained(self, container: Container, source: _Source, shape: str | None) -> Mapping[str, Any]:
        """The arrays of a container; with a shape, only the named one, in that shape."""
        if shape is None or source.name is None:
            return container
        if self.raw.offset:
            raise click.UsageError(f"--offset goes with a file of raw bytes, and {source.text} says where it lies")
        return {source.name: container.open(source.name, array_shape(shape))}

    def _dumped(self, file: BinaryIO, label: str, source: _Source, shape: str | None) -> Opened:
        """The arrays in a file of a dump, or in one of raw bytes. UsageError if it holds none of that name."""
        origin = bytes_of(file, label) if source.path == STANDARD else Path(source.path)
        kind = self.kind or kind_of_dump(file, origin)
        if kind == "allocations":
            raise click.UsageError(
                f"{label} says where values lie, and holds no arrays: 'strided ls --json' lists them, and "
                "strided.read_allocations(...).open(image) reads an image of memory by them"
            )
        if source.name is None and kind != "snapshot":
            _refuse_without_arrays(kind, label, origin)
            return self._one_array(file, label, shape)
        if kind == "binary" or is_npy(file):
            raise click.UsageError(f"{label} holds one array, which has no name: leave ':{source.name}' out")
        if shape is not None:
            raise click.UsageError(f"{source.text} has a shape of its own: leave {shape!r} out")
        content = strided.read_dump(origin, kind if kind == "snapshot" else self.kind, mapped=False)
        return Opened(label, named_arrays(content), source.name)

    def _one_array(
        self, file: BinaryIO, label: str, shape: str | None, otherwise: str | AnyShape | None = None
    ) -> Opened:
        """The array in a raw or ``.npy`` file, named as the file is."""
        is_standard = sys.stdin is not None and file is sys.stdin.buffer
        name = "array" if is_standard else name_of(label)
        try:
            found = file_array.open_file(file, label, shape, self.raw, otherwise=otherwise)
            array: Any = self.stack.enter_context(found)
        except BufferSizeError as error:
            # Advice helps only if the shape was given: a file with its own shape must be truncated or damaged.
            advice = "" if shape is None and otherwise is None else _advice(error)
            raise click.UsageError(f"{error}{advice}") from None
        except UnsupportedError:
            # .npy files may hold types that XLA lacks.
            if shape is not None or ending_of(label) != ".npy" or (array := strided.load_npy(label)).dtype.kind == "V":
                raise
        return Opened(label, {name: array}, name)


def _arrays_in_folder(path: str) -> Mapping[str, Any]:
    """The arrays of a zarr store or a dump; UsageError for a folder without arrays."""
    if is_zarr(path):
        return ZarrStore(path)
    dump = strided.open_dump(path, mapped=False)
    if not dump:
        raise click.UsageError(f"{path} holds no arrays of a program; 'strided ls' lists its files")
    return dump


def _refuse_without_arrays(kind: str | None, label: str, origin: Any) -> None:
    """UsageError for a file of a dump whose kind holds no arrays."""
    if kind == "hlo":
        raise click.UsageError(f"{label} holds a program, and no arrays: 'strided hlo' lists its values")
    if kind in ABOUT_MEMORY and is_about_memory(origin):
        raise click.UsageError(f"{label} is about memory, and holds no arrays: 'strided memory' reads it")
    if kind in ("text", "used values", "live ranges"):
        raise click.UsageError(f"{label} is text, and holds no array that strided can read")


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options on reading sources as one argument, `reading`; close the files when it ends."""

    @functools.wraps(command)
    def reading_command(
        *args: Any, offset: int, bitorder: str, allow_excess: bool, kind: str | None, **kwargs: Any
    ) -> None:
        with contextlib.ExitStack() as stack:
            command(*args, reading=Reading(RawFormat(offset, bitorder, allow_excess), kind, stack), **kwargs)

    return options.offset(options.bitorder(options.allow_excess(options.kind(reading_command))))


def _advice(error: BufferSizeError) -> str:
    """What to try if the number of bytes does not fit the shape."""
    if not error.actual or not error.needed or error.found_format is not None:
        return ""
    factor = max(error.actual, error.needed) / min(error.actual, error.needed)
    may_be_type = factor in (2, 4, 8) and error.packed_bits is None
    types = f"; sizes that differ by a factor of {factor:g} may be those of two element types" * may_be_type
    return f"{types}; 'strided identify' looks for layouts that fit"


def bytes_of(file: BinaryIO, label: str) -> Any:
    """All bytes of a file, mapped; errors name the file by `label`."""
    with naming_in_read_errors(label):
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.seek(0, os.SEEK_END) else b""


def shaped(operands: Sequence[str]) -> tuple[str, str | None, Sequence[str]]:
    """The first source, its shape if one follows, and the operands after it."""
    first, *rest = operands
    if rest and rest[0][:1] in ("'", '"') and rest[0][:1] == rest[0][-1:] and is_shape(rest[0][1:-1]):
        rest[0] = rest[0][1:-1]
    if any(map(_EXPANDED_BRACES.match, rest)):
        raise click.UsageError("the shell has taken a shape's braces: quote it, as in 'bf16[17,300]{1,0:T(8,128)}'")
    if is_shape(first) and rest and os.path.exists(rest[0]) and not os.path.exists(first):
        raise click.UsageError(f"the file comes first, then its shape: {rest[0]} '{first}'")
    if is_shape(first) and not rest and not os.path.exists(first):
        raise click.UsageError(f"{first} is a shape: a file comes in front of it; 'strided info' explains it alone")
    if rest and is_shape(rest[0]) and not os.path.exists(rest[0]):
        return first, rest[0], rest[1:]
    return first, None, rest


def open_operand(name: str, stack: contextlib.ExitStack) -> tuple[BinaryIO, str]:
    """The open file, and its name in errors."""
    if name != STANDARD:
        if os.path.isdir(name):
            raise click.UsageError(f"{name} is a folder, where a file is expected; 'strided ls' lists what is in it")
        file = stack.enter_context(open(name, "rb"))
        if is_seekable(file):  # a pipe is accepted, a device is not
            refuse_irregular(file.fileno(), name)
        return file, name
    if sys.stdin is None:
        raise click.UsageError("standard input is closed: give a file, or pipe bytes in")
    if stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode):
        kind = "terminal" if sys.stdin.isatty() else "device"
        raise click.UsageError(f"standard input is a {kind}: give a file, or pipe bytes in")
    return sys.stdin.buffer, "standard input"
