"""Images of memory, read by a buffer assignment: every value as an array at its offset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strided.arrays.buffers import flat_bytes
from strided.arrays.layout_array import LayoutArray
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.source import open_source
from strided.errors import DumpError, StridedError
from strided.escape import visible
from strided.runtime.aliases import Bytes
from strided.runtime.argument_checks import whole
from strided.runtime.lazy import lazy
from strided.wording import counted, some


class ImageArrays(Mapping[str, LayoutArray]):
    """The arrays in images of allocations, by name. Made by `BufferAssignment.open`.

    Names are those of the dump (``fusion{0}``); if two values share one, the later is ``fusion{0}#id``. Arrays are
    views of the images: overlapping ones share bytes, and assigning to one writes to the image, if that is writable.
    """

    def __init__(self, places: Sequence[tuple[Allocation, Bytes]]) -> None:
        self._places: dict[str, tuple[Value, Bytes]] = {}
        for allocation, content in places:
            for value in allocation.values:
                name = value.label if value.label not in self._places else f"{value.label}#{value.id}"
                self._places[name] = value, content

    def value(self, name: str) -> Value:
        """The entry of the buffer assignment."""
        return self._found(name)[0]

    def _found(self, name: str) -> tuple[Value, Bytes]:
        try:
            return self._places[name]
        except KeyError:
            raise KeyError(f"no value is named {name!r} in these allocations") from None

    def __getitem__(self, name: str) -> LayoutArray:
        """The array; DumpError says why if the value is not readable as one."""
        value, content = self._found(name)
        if (problem := _problem(value, content)) is not None:
            raise DumpError(f"{name}: {problem}")
        return _array(value, content)

    @lazy
    def unreadable(self) -> dict[str, str]:
        """The values that cannot be read as arrays, and why."""
        found = {name: _problem(value, content) for name, (value, content) in self._places.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._places if name not in self.unreadable)

    def __len__(self) -> int:
        return len(self._places) - len(self.unreadable)

    def __contains__(self, name: object) -> bool:
        return name in self._places and name not in self.unreadable

    def __str__(self) -> str:
        kinds = Counter(value.kind for name, (value, _) in self._places.items() if name in self.unreadable)
        rest = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        head = self._counts() + (f" ({rest})" if rest else "")
        return "\n".join([head, *(visible(f"  {name}: {self.value(name).shape}") for name in self)])

    def _counts(self) -> str:
        unreadable = f", {counted(len(self.unreadable), 'value')} unreadable" if self.unreadable else ""
        return f"{counted(len(self), 'array')}{unreadable}"

    def __repr__(self) -> str:
        return f"<ImageArrays: {self._counts()}>"


def _array(value: Value, content: Bytes) -> LayoutArray:
    shape = value.array_shape
    assert shape is not None
    length = min(value.size, shape.byte_size) if value.kind == "element" else value.size
    return LayoutArray(content[value.offset : value.offset + length], shape)


def _problem(value: Value, content: Bytes) -> str | None:
    if value.problem is not None:
        return value.problem
    end = value.offset + value.size
    if end > content.size:
        return f"it lies at bytes {value.offset} to {end}, the image of its allocation has {content.size}"
    try:
        _array(value, content)
    except StridedError as error:
        return str(error)
    return None


def open_images(
    allocations: Sequence[Allocation], image: Any, at: Mapping[int, int] | None, memory_space: int, path: str | None
) -> ImageArrays:
    """See `BufferAssignment.open`."""
    by_index = {one.index: one for one in allocations}
    if isinstance(image, Mapping):
        if at is not None:
            raise DumpError("at= belongs to one image of a memory space, not to an image of each allocation", path=path)
        _check(image, by_index, path)
        return ImageArrays([(by_index[index], _content(one)) for index, one in image.items()])
    if at is None:
        here = [one for one in allocations if one.memory_space == memory_space and not one.is_thread_local]
        if len(here) != 1:
            names = f" ({some(f'{one.index} ({one.size} bytes)' for one in here)})" if here else ""
            raise DumpError(
                f"memory space {memory_space} holds {len(here)} allocations{names}, and a buffer assignment does not "
                "say where they lie: give at={number: byte} or an image of each",
                path=path,
            )
        at = {here[0].index: 0}
    if not isinstance(at, Mapping):
        raise TypeError(f"at must be a mapping of allocations to bytes, not {type(at).__name__}: at={{number: byte}}")
    _check(at, by_index, path)
    content = _content(image)
    for index, byte in at.items():
        if whole(byte, "the byte at which an allocation begins") < 0:
            raise DumpError(f"allocation {index} cannot begin at byte {byte}", path=path)
    return ImageArrays([(by_index[k], content[byte : byte + by_index[k].size]) for k, byte in at.items()])


def _check(numbers: Mapping[int, Any], by_index: Mapping[int, Allocation], path: str | None) -> None:
    missing = [number for number in numbers if number not in by_index]
    if missing:
        raise DumpError(f"there is no allocation {missing[0]!r}", path=path)


def _content(image: Any) -> Bytes:
    """The bytes of an image: a file is mapped, a buffer is not copied."""
    is_path = isinstance(image, (str, os.PathLike))
    return flat_bytes(open_source(image, mapped=True).view if is_path else image)
