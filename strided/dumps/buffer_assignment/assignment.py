"""Read buffer assignments, which say where XLA places values, from the dump's text or a module's HloProto.

A program's memory is a list of *allocations*, each in one memory space. A parameter, a constant or a result often has
its own; temporaries share one, at offsets such that values alive at the same time do not overlap. A *value* is what one
instruction (or one element of its tuple) produces ::

    allocation 6: size 3072, maybe-live-out:
     value: <23 fusion{0} @0> (size=3072,offset=0): s4[17,129]{1,0:T(8,128)(8,1)E(4)}

`BufferAssignment.open` reads the values in an image of memory as arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from strided.dumps.buffer_assignment.compiled import hlo_proto_of, is_compiled
from strided.dumps.buffer_assignment.images import ImageArrays, open_images
from strided.dumps.buffer_assignment.proto import AssignmentReader
from strided.dumps.buffer_assignment.text import HEADER, read_assignment_text
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.source import (
    BYTE_ORDER_MARK,
    is_contents,
    is_text,
    naming_in_dump_errors,
    open_source,
    refuse_utf16,
)
from strided.errors import DumpError, UnsupportedError
from strided.runtime.argument_checks import one_of, string, whole
from strided.runtime.lazy import lazy
from strided.wording import counted, names_meant

#: The most rows of a printed assignment.
_SHOWN = 20


@dataclass(frozen=True, repr=False)
class BufferAssignment:
    """The allocations of a program. Made by `read_allocations`.

    Attributes
    ----------
    allocations : tuple of Allocation
    aliases : tuple of (int, str)
        The id of a value, and another name for it; only from protos.
    unread : tuple of (int, str)
        Lines that could not be parsed: their number, counted from 1, and text. A DumpWarning reported them.
    cut : str
        A sign that the text was truncated, of which a DumpWarning warned; empty if there is none.
    is_complete : bool
        Whether it is certain that no allocation is missing: true for protos, and for texts with a total (until April
        2026).
    path : str or None
    """

    allocations: tuple[Allocation, ...]
    aliases: tuple[tuple[int, str], ...] = ()
    unread: tuple[tuple[int, str], ...] = ()
    cut: str = ""
    is_complete: bool = field(default=True, compare=False)
    path: str | None = field(default=None, compare=False)

    @lazy
    def values(self) -> tuple[Value, ...]:
        """All values, allocation by allocation."""
        return tuple(value for allocation in self.allocations for value in allocation.values)

    @lazy
    def _by_label(self) -> dict[str, Value]:
        return {value.label: value for value in reversed(self.values)}

    def allocation(self, index: SupportsIndex) -> Allocation:
        """The allocation with this number.

        Raises
        ------
        DumpError
            There is none.
        """
        number = whole(index, "index")
        for one in self.allocations:
            if one.index == number:
                return one
        raise DumpError(f"there is no allocation {number}", path=self.path)

    def value(self, label: str) -> Value:
        """The value with this `label`, such as ``fusion`` or ``fusion{0}``.

        Raises
        ------
        DumpError
            There is none.
        """
        name = string(label, "label").removeprefix("%")
        found = self._by_label.get(name) or self._by_label.get(name + "{}")
        if found is None:
            raise DumpError(f"no value is named {label!r}; {names_meant(name, self._by_label)}", path=self.path)
        return found

    @property
    def parameters(self) -> dict[int, tuple[Allocation, ...]]:
        """The allocations of each entry parameter, by its number; several for a tuple."""
        found: dict[int, list[Allocation]] = {}
        for one in sorted(self.allocations, key=lambda one: (one.parameter_number or 0, one.parameter_shape_index)):
            if one.parameter_number is not None:
                found.setdefault(one.parameter_number, []).append(one)
        return {number: tuple(allocations) for number, allocations in found.items()}

    @property
    def outputs(self) -> tuple[Allocation, ...]:
        """The allocations that outlive the program, including those of donated parameters."""
        return tuple(one for one in self.allocations if one.maybe_live_out)

    def bytes_by_memory_space(self) -> dict[int, int]:
        """Total bytes of allocations by memory space, without thread-local ones: the program's peak."""
        totals: Counter[int] = Counter()
        for one in self.allocations:
            if not one.is_thread_local:
                totals[one.memory_space] += one.size
        return dict(sorted(totals.items()))

    def kinds(self) -> Counter[str]:
        """Number of values of each kind (see `Value.kind`)."""
        return Counter(value.kind for value in self.values)

    def open(self, image: Any, *, at: Mapping[int, int] | None = None, memory_space: SupportsIndex = 0) -> ImageArrays:
        """Read the values in an image of memory as LayoutArrays, by name.

        Parameters
        ----------
        image : path, buffer, or mapping of int to path or buffer
            The image of a memory space, or an image of each allocation, by its number. Files are mapped.
        at : mapping of int to int, optional
            Byte of the image at which each allocation begins; not needed if the memory space has only one.
        memory_space : int
            The memory space of a single image.

        Returns
        -------
        ImageArrays
            A mapping of names to LayoutArrays; ``.unreadable`` has the other values, with reasons.

        Raises
        ------
        DumpError
            An allocation number does not exist, or `at` is missing for an image of several allocations.
        OSError
            The file of an image cannot be opened.
        UnsupportedError
            An ndarray that is not contiguous.
        """
        return open_images(self.allocations, image, at, whole(memory_space, "memory_space"), self.path)

    def __iter__(self) -> Iterator[Allocation]:
        return iter(self.allocations)

    def __len__(self) -> int:
        return len(self.allocations)

    def _counts(self) -> str:
        return f"{counted(len(self.allocations), 'allocation')}, {counted(len(self.values), 'value')}"

    def __str__(self) -> str:
        spaces = ", ".join(
            f"{size} {'byte' if size == 1 else 'bytes'} in memory space {space}"
            for space, size in self.bytes_by_memory_space().items()
        )
        lines = [f"{self._counts()}: {spaces or 'nothing'}"]
        largest = sorted(self.allocations, key=lambda one: -one.size)
        lines += [f"  {one.describe()}" for one in largest[:_SHOWN]]
        if len(largest) > _SHOWN:
            lines.append(f"  ... and {len(largest) - _SHOWN} smaller ones")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<BufferAssignment: {self._counts()}>"

    def _repr_html_(self) -> str:
        from strided.pictures.html import Section, card, table  # only notebooks need them

        found = sorted(self.allocations, key=lambda one: -one.size)
        rows = [(one.index, one.size, one.memory_space, one.describe().partition(": ")[2]) for one in found[:_SHOWN]]
        listed = table(("", "bytes", "space", "is"), rows, len(found) - len(rows))
        spaces = [(f"space {space}", counted(size, "byte")) for space, size in self.bytes_by_memory_space().items()]
        return card("BufferAssignment", self._counts(), spaces, [Section("allocations", listed, is_open=True)])


def read_allocations(
    source: Any, *, kind: str | None = None, max_bytes: SupportsIndex | None = None
) -> BufferAssignment:
    """Read the buffer assignment of a program.

    Parameters
    ----------
    source : path, buffer, str or jax.stages.Compiled
        ``*buffer-assignment.txt`` of any version of XLA, or an ``.hlo.pb`` with a BufferAssignmentProto (those after
        optimizations have one), possibly compressed by gzip or Zstandard. A str of several lines is the text itself.
        The result of ``jax.jit(f).lower(x).compile()`` has its assignment with it.
    kind : "text" or "proto", optional
        The format, if it is not recognised.
    max_bytes : int, optional
        Limit for compressed contents; by default 1 GiB for text, 2 GiB for anything else.

    Raises
    ------
    DumpError
        The source is neither format, broken, truncated inside a line, has several texts, or has a module without an
        assignment.
    OSError
        A file that cannot be opened.
    UnsupportedError
        A compiled program for which JAX does not provide the assignment.
    ValueError
        `kind` is neither of the two.

    >>> text = b"BufferAssignment:\\nallocation 0: size 8, parameter 0, shape |f32[2]| at ShapeIndex {}:\\n"
    >>> read_allocations(text + b" value: <3 p0 @0> (size=8,offset=0): f32[2]{0}\\n").value("p0").shape.byte_size
    8
    """
    if kind is not None:
        one_of(kind, ("text", "proto"), "kind")
    if is_compiled(source):
        found = hlo_proto_of(source)
        if found is None:
            raise UnsupportedError(
                "JAX provides no buffer assignment for this program: dump it with XLA_FLAGS=--xla_dump_to=DIR"
            )
        source, kind = found, "proto"
    elif isinstance(source, str) and is_contents(source, lambda line: line.startswith(HEADER.decode())):
        source = source.encode("utf-8", "surrogatepass")  # surrogates may come from a lenient decoder
    max_bytes = None if max_bytes is None else whole(max_bytes, "max_bytes")
    opened = open_source(source, max_bytes=max_bytes)
    if kind != "proto":
        refuse_utf16(opened.view, opened.path)
    if kind == "text" or (kind is None and _begins_as_text(opened.view)):
        text = read_assignment_text(opened.view, opened.path, max_bytes)
        return BufferAssignment(
            text.allocations, unread=text.unread, cut=text.cut, is_complete=text.is_complete, path=opened.path
        )
    if kind is None and opened.view and is_text(opened.view):
        raise DumpError(
            f"a text that does not begin with {HEADER.decode()!r} is no buffer assignment", path=opened.path
        )
    with naming_in_dump_errors(opened.path):
        allocations, aliases = AssignmentReader(opened.view).read()
    return BufferAssignment(allocations, aliases, path=opened.path)


def _begins_as_text(view: memoryview) -> bool:
    return bytes(view[:4096]).removeprefix(BYTE_ORDER_MARK.encode()).lstrip().startswith(HEADER)
