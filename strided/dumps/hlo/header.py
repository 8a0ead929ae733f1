"""Values of an HLO module's header: entry layout, aliases, donors, and source tables.

`text_header` reads them from the text of the header's attributes, `proto_header` from a proto, which it also prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strided.dumps.hlo.quoting import quote
from strided.escape import visible
from strided.layout import AnyShape, TupleShape

#: Headings of the source tables, in XLA's order.
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """The shapes of a program's parameters and its result. Prints as XLA does.

    >>> from strided import parse
    >>> print(EntryLayout((parse("f32[2]"),), parse("s32[]")))
    (f32[2]{0})->s32[]
    """

    parameters: tuple[AnyShape, ...]
    result: AnyShape

    def __str__(self) -> str:
        return f"{TupleShape(self.parameters)}->{self.result}"


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that shares the buffer of a parameter.

    Attributes
    ----------
    output_index : tuple of int
        The index in the result's tuple; () for the whole result.
    parameter_number : int
    parameter_index : tuple of int
        The index in the parameter's tuple.
    kind : str
        "may-alias" or "must-alias".
    """

    output_index: tuple[int, ...]
    parameter_number: int
    parameter_index: tuple[int, ...] = ()
    kind: str = "may-alias"

    def __str__(self) -> str:
        parameter = f"({self.parameter_number}, {in_braces(self.parameter_index)}, {self.kind})"
        return f"{in_braces(self.output_index)}: {parameter}"


@dataclass(frozen=True, slots=True)
class Donor:
    """A parameter whose buffer any result may reuse: its number, and the index in its tuple."""

    parameter_number: int
    parameter_index: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"({self.parameter_number}, {in_braces(self.parameter_index)})"


@dataclass(frozen=True, slots=True)
class Frame:
    """A source line that an instruction came from. Lines and columns count from 1; 0 if unknown."""

    file: str
    function: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return visible(f"{self.file}:{self.line}:{self.column} in {self.function}")


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A part of a dump that could not be parsed.

    Attributes
    ----------
    line : int or None
        The line's number, counted from 1; None in a proto.
    text : str
        The line, verbatim; for a proto, the instruction's name.
    reason : str
    """

    line: int | None
    text: str
    reason: str

    def __str__(self) -> str:
        return visible(f"{self.text if self.line is None else f'line {self.line}'}: {self.reason}", 200)


@dataclass(frozen=True, slots=True)
class SourceTables:
    """File names, function names, locations and stack frames by their ids, which count from 1.

    Attributes
    ----------
    locations : mapping of int to mapping of str to int
        ``file_name_id``, ``function_name_id``, ``line``, ``column``, ``end_line``, ``end_column``.
    frames : mapping of int to (int, int)
        Location and parent frame; 0 means no parent.
    """

    files: Mapping[int, str]
    functions: Mapping[int, str]
    locations: Mapping[int, Mapping[str, int]]
    frames: Mapping[int, tuple[int, int]]

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """The frames from `frame_id` outwards, innermost first, as far as the tables have them."""
        found: list[Frame] = []
        seen: set[int] = set()
        while frame_id in self.frames and frame_id not in seen:
            seen.add(frame_id)
            location_id, frame_id = self.frames[frame_id]
            place = self.locations.get(location_id, {})
            file = self.files.get(place.get("file_name_id", 0), "?")
            function = self.functions.get(place.get("function_name_id", 0), "?")
            numbers = (place.get(name, 0) for name in ("line", "column", "end_line", "end_column"))
            found.append(Frame(file, function, *numbers))
        return tuple(found)

    def __str__(self) -> str:
        """The tables as XLA prints them; "" without frames."""
        if not self.frames:
            return ""
        places = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        rows: tuple[dict[int, str], ...] = (
            {number: quote(name) for number, name in self.files.items()},
            {number: quote(name) for number, name in self.functions.items()},
            {n: in_braces((f"{k}={place.get(k, 0)}" for k in places), " ") for n, place in self.locations.items()},
            {n: f"{{file_location_id={at} parent_frame_id={up + 1}}}" for n, (at, up) in self.frames.items()},
        )
        blocks = []
        for title, table in zip(TABLES, rows, strict=True):
            blocks.append("\n".join([title, *(f"{number} {text}" for number, text in table.items())]) + "\n")
        return "\n".join(blocks)


def in_braces(parts: Iterable[object], separator: str = ",") -> str:
    """A list in braces, as XLA prints lists and shape indices.

    >>> in_braces((2, 0)), in_braces(("[0:2]", "[1:3]"), ", ")
    ('{2,0}', '{[0:2], [1:3]}')
    """
    return f"{{{separator.join(map(str, parts))}}}"
