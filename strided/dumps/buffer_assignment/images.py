"""Read images of memory by a buffer assignment: each value is an array at its offset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strided.arrays.buffers import flat_bytes
from strided.arrays.layout_array import LayoutArray
from strided.dumps.array_mapping import ArrayMapping, array_name
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.source import open_source
from strided.errors import DumpError, StridedError
from strided.escape import visible
from strided.runtime.aliases import Bytes
from strided.runtime.argument_checks import whole
from strided.runtime.lazy import lazy
from strided.wording import counted, names_meant, some


class _Place(NamedTuple):
    """Where a value lies: in an allocation that begins at byte `start` of an image."""

    value: Value
    allocation: Allocation
    image: Bytes
    start: int

    @property
    def content(self) -> Bytes:
        """The bytes of the allocation, truncated where the image ends."""
        return self.image[self.start : self.start + self.allocation.size]


class ImageArrays(ArrayMapping[LayoutArray]):
    """The arrays in images of allocations, by name. Made by `BufferAssignment.open`.

    Names are those of the dump (``fusion{0}``); if two values share one, the later is ``fusion{0}#id``. Arrays are
    views of the images: overlapping ones share bytes, and assigning to one writes to the image if that is writable.
    """

    def __init__(self, places: Mapping[int, tuple[Bytes, int]], allocations: Sequence[Allocation]) -> None:
        """`places` maps an allocation's number to its image, and the byte of the image at which it begins."""
        by_index = {one.index: one for one in allocations}
        self._allocations = allocations
        self._places: dict[str, _Place] = {}
        for index, (image, start) in places.items():
            for value in by_index[index].values:
                name = value.label if value.label not in self._places else f"{value.label}#{value.id}"
                self._places[name] = _Place(value, by_index[index], image, start)

    def value(self, name: str) -> Value:
        """The value in the buffer assignment."""
        return self._found(name).value

    def _found(self, name: str) -> _Place:
        name = array_name(name, self._places)
        try:
            return self._places[name]
        except KeyError:
            raise KeyError(self._why_absent(name)) from None

    def _why_absent(self, name: str) -> str:
        for one in self._allocations:
            if any(value.label == name for value in one.values):
                return f"{name!r} lies in allocation {one.index}, for which no image is given"
        return f"no value is named {name!r} in these allocations; {names_meant(name, self._places)}"

    def __getitem__(self, name: str) -> LayoutArray:
        """The array of a name; DumpError if the value cannot be read as one."""
        place = self._found(name)
        if (problem := _problem(place)) is not None:
            raise DumpError(f"{name}: {problem}")
        return _array(place)

    @lazy
    def unreadable(self) -> dict[str, str]:
        """The values that cannot be read as arrays, with the reason."""
        found = {name: _problem(place) for name, place in self._places.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._places if name not in self.unreadable)

    def __len__(self) -> int:
        return len(self._places) - len(self.unreadable)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places and name not in self.unreadable

    def __str__(self) -> str:
        kinds = Counter(place.value.kind for name, place in self._places.items() if name in self.unreadable)
        rest = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        head = self._counts() + (f" ({rest})" if rest else "")
        return "\n".join([head, *(visible(f"  {name}: {self.value(name).shape}") for name in self)])

    def _counts(self) -> str:
        unreadable = f", {counted(len(self.unreadable), 'value')} unreadable" if self.unreadable else ""
        return f"{counted(len(self), 'array')}{unreadable}"

    def __repr__(self) -> str:
        return f"<ImageArrays: {self._counts()}>"


def _array(place: _Place) -> LayoutArray:
    value = place.value
    shape = value.array_shape
    assert shape is not None
    length = min(value.size, shape.byte_size) if value.kind == "element" else value.size
    return LayoutArray(place.content[value.offset : value.offset + length], shape)


def _problem(place: _Place) -> str | None:
    value, start = place.value, place.start
    if value.problem is not None:
        return value.problem
    end = value.offset + value.size
    if end > place.allocation.size:
        return f"it lies at bytes {value.offset} to {end} of its allocation, which has {place.allocation.size}"
    if start + end > place.image.size:
        return f"it lies at bytes {start + value.offset} to {start + end} of the image, which has {place.image.size}"
    try:
        _array(place)
    except StridedError as error:
        return str(error)
    return None


def open_images(
    allocations: Sequence[Allocation], image: Any, at: Mapping[int, int] | None, memory_space: int, path: str | None
) -> ImageArrays:
    """See `BufferAssignment.open`."""
    if isinstance(image, Mapping):
        if at is not None:
            raise DumpError(
                "at= goes with one image of a memory space, not with an image of each allocation", path=path
            )
        _check(image, allocations, path)
        return ImageArrays({index: (_content(one), 0) for index, one in image.items()}, allocations)
    if at is None:
        here = [one for one in allocations if one.memory_space == memory_space and not one.is_thread_local]
        if len(here) != 1:
            names = f" ({some(f'{one.index} ({one.size} bytes)' for one in here)})" if here else ""
            raise DumpError(
                f"memory space {memory_space} holds {len(here)} allocations{names}, and a buffer assignment does not "
                "say where they begin: give at={number: byte} or an image of each",
                path=path,
            )
        at = {here[0].index: 0}
    if not isinstance(at, Mapping):
        raise TypeError(f"at must be a mapping of allocations to bytes, not {type(at).__name__}: at={{number: byte}}")
    _check(at, allocations, path)
    content = _content(image)
    for index, byte in at.items():
        if whole(byte, "the byte at which an allocation begins") < 0:
            raise DumpError(f"allocation {index} cannot begin at byte {byte}", path=path)
    return ImageArrays({index: (content, byte) for index, byte in at.items()}, allocations)


def _check(numbers: Iterable[int], allocations: Iterable[Allocation], path: str | None) -> None:
    known = {one.index for one in allocations}
    for number in numbers:
        if number not in known:
            raise DumpError(f"there is no allocation {number!r}", path=path)


def _content(image: Any) -> Bytes:
    """The bytes of an image: a file is mapped, a buffer is not copied."""
    is_path = isinstance(image, (str, os.PathLike))
    return flat_bytes(open_source(image, mapped=True).view if is_path else image)
