"""What stands above the computations of an HLO module: layouts of the entry, aliases, donors, and source tables.

The values here are read from the text of the header's attributes::

    entry_computation_layout={(f32[3,5]{0,1}, s32[])->f32[3,5]{1,0}}
    input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {2}, must-alias) }
    buffer_donor={ (2, {}) }
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from strided.dumps.hlo.lexer import escape, inside, integer, read_fields, skip_space, split_list, unescape
from strided.errors import DumpError, NotationError
from strided.escape import visible
from strided.layout import AnyShape, TupleShape, parser

_INDEX = r"\{([0-9,\s]*)\}"
_ALIAS = re.compile(rf"{_INDEX}\s*:\s*\(\s*([0-9]{{1,18}})\s*(?:,\s*{_INDEX})?\s*(?:,\s*([\w-]+))?\s*\)")
_DONOR = re.compile(rf"\(\s*([0-9]{{1,18}})\s*,\s*{_INDEX}\s*\)")
_ROW = re.compile(r"\s*([0-9]{1,18})\s+(.*\S)")

#: The lines that begin the source tables, in the order in which XLA prints them.
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """Shapes of a program's parameters and of its result; prints as XLA does.

    >>> print(entry_layout("{(f32[2]{0}, s32[])->f32[2]{0}}"))
    (f32[2]{0}, s32[])->f32[2]{0}
    """

    parameters: tuple[AnyShape, ...]
    result: AnyShape

    def __str__(self) -> str:
        return f"{TupleShape(self.parameters)}->{self.result}"


@dataclass(frozen=True, slots=True)
class Alias:
    """One result that lies in the buffer of a parameter.

    Attributes
    ----------
    output_index : tuple of int
        Place in the result's tuple; () for all of it.
    parameter_number : int
    parameter_index : tuple of int
        Place in the parameter's tuple.
    kind : str
        "may-alias" or "must-alias".
    """

    output_index: tuple[int, ...]
    parameter_number: int
    parameter_index: tuple[int, ...] = ()
    kind: str = "may-alias"

    def __str__(self) -> str:
        parameter = f"({self.parameter_number}, {index_text(self.parameter_index)}, {self.kind})"
        return f"{index_text(self.output_index)}: {parameter}"


@dataclass(frozen=True, slots=True)
class Donor:
    """A parameter whose buffer any result may take: its number, and the place in its tuple."""

    parameter_number: int
    parameter_index: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"({self.parameter_number}, {index_text(self.parameter_index)})"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the program that an instruction came from; columns and lines count from 1, 0 where unknown."""

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
    """A part that was not understood.

    Attributes
    ----------
    line : int or None
        Number of the line, from 1; None in a proto.
    text : str
        The line as it stands; the instruction's name in a proto.
    reason : str
    """

    line: int | None
    text: str
    reason: str

    def __str__(self) -> str:
        return visible(f"{self.text if self.line is None else f'line {self.line}'}: {self.reason}", 200)


@dataclass(frozen=True, slots=True)
class SourceTables:
    """File names, function names, places and stack frames by their ids, which count from 1.

    Attributes
    ----------
    locations : mapping of int to mapping of str to int
        ``file_name_id``, ``function_name_id``, ``line``, ``column``, ``end_line``, ``end_column``.
    frames : mapping of int to (int, int)
        Location and parent frame; a parent of 0 is none.
    """

    files: Mapping[int, str]
    functions: Mapping[int, str]
    locations: Mapping[int, Mapping[str, int]]
    frames: Mapping[int, tuple[int, int]]

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """The frames from `frame_id` outwards, the innermost first; as many as the tables hold."""
        found: list[Frame] = []
        seen: set[int] = set()
        while frame_id in self.frames and frame_id not in seen:
            seen.add(frame_id)
            location_id, frame_id = self.frames[frame_id]
            place = self.locations.get(location_id, {})
            found.append(
                Frame(
                    self.files.get(place.get("file_name_id", 0), "?"),
                    self.functions.get(place.get("function_name_id", 0), "?"),
                    place.get("line", 0),
                    place.get("column", 0),
                    place.get("end_line", 0),
                    place.get("end_column", 0),
                )
            )
        return tuple(found)

    def __str__(self) -> str:
        """The tables as XLA prints them; nothing where there are no frames."""
        if not self.frames:
            return ""
        places = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        rows: tuple[dict[int, str], ...] = (
            {number: f'"{escape(name)}"' for number, name in self.files.items()},
            {number: f'"{escape(name)}"' for number, name in self.functions.items()},
            {n: f"{{{' '.join(f'{k}={place.get(k, 0)}' for k in places)}}}" for n, place in self.locations.items()},
            {n: f"{{file_location_id={at} parent_frame_id={up + 1}}}" for n, (at, up) in self.frames.items()},
        )
        blocks = []
        for title, table in zip(TABLES, rows, strict=True):
            blocks.append("\n".join([title, *(f"{number} {text}" for number, text in table.items())]) + "\n")
        return "\n".join(blocks)


NO_TABLES = SourceTables({}, {}, {}, {})


def entry_layout(text: str) -> EntryLayout:
    """The shapes in ``{(parameter, ...)->result}``.

    Raises
    ------
    DumpError
        Text that is none; the message shows it.
    """
    body = inside(text) if text.lstrip().startswith("{") else text
    try:
        parameters, position = parser.parse_prefix(body)
        position = skip_space(body, position)
        if not isinstance(parameters, TupleShape) or not body.startswith("->", position):
            raise DumpError(f"expected (parameters)->result, found {text[:80]!r}")
        result, _ = parser.parse_prefix(body, position + 2)
    except NotationError as error:
        raise DumpError(f"an entry layout that cannot be read: {error}") from error
    return EntryLayout(tuple(parameters.elements), result)


def aliases(text: str) -> tuple[Alias, ...]:
    """The entries of ``input_output_alias``.

    >>> aliases("{ {0}: (1, {2}, must-alias) }")
    (Alias(output_index=(0,), parameter_number=1, parameter_index=(2,), kind='must-alias'),)
    """
    return tuple(
        Alias(_index(found[1]), int(found[2]), _index(found[3] or ""), found[4] or "may-alias")
        for found in _entries(_ALIAS, text)
    )


def donors(text: str) -> tuple[Donor, ...]:
    """The entries of ``buffer_donor``.

    >>> donors("{ (2, {}) }")
    (Donor(parameter_number=2, parameter_index=()),)
    """
    return tuple(Donor(int(found[1]), _index(found[2])) for found in _entries(_DONOR, text))


def _entries(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The entries of a list in braces, every one of which has the form of `pattern`.

    Raises
    ------
    DumpError
        One that has another form.
    """
    for part in split_list(inside(text)):
        found = pattern.fullmatch(part)
        if found is None:
            raise DumpError(f"no entry of this list: {part[:60]!r}")
        yield found


def aliases_text(found: Iterable[Alias]) -> str:
    """Aliases as XLA prints them.

    >>> aliases_text(aliases("{ {0}: (1, {}) }"))
    '{ {0}: (1, {}, may-alias) }'
    """
    return f"{{ {', '.join(map(str, found))} }}"


def donors_text(found: Iterable[Donor]) -> str:
    """Donors as XLA prints them."""
    return f"{{ {', '.join(map(str, found))} }}"


def index_text(index: Iterable[int]) -> str:
    """A shape index as XLA prints it.

    >>> index_text((2, 0))
    '{2,0}'
    """
    return f"{{{','.join(map(str, index))}}}"


def _index(text: str) -> tuple[int, ...]:
    return tuple(number for part in text.split(",") if (number := integer(part.strip())) is not None)


def source_tables(tables: Mapping[str, list[str]]) -> SourceTables:
    """The source tables from the lines below each of their headings; lines of another form are left out.

    A stack frame's parent counts one more in text than in a proto: a frame without a parent prints 1.
    """
    rows: dict[str, dict[int, str]] = {}
    for name in TABLES:
        matches = (_ROW.fullmatch(line) for line in tables.get(name, []))
        rows[name] = {int(found[1]): found[2] for found in matches if found}
    frames = {}
    for number, text in rows["StackFrames"].items():
        frame = _numbers(text)
        frames[number] = frame.get("file_location_id", 0), frame.get("parent_frame_id", 1) - 1
    return SourceTables(
        {number: unescape(text) for number, text in rows["FileNames"].items()},
        {number: unescape(text) for number, text in rows["FunctionNames"].items()},
        {number: _numbers(text) for number, text in rows["FileLocations"].items()},
        frames,
    )


def _numbers(text: str) -> dict[str, int]:
    return {name: number for name, text in read_fields(text).items() if (number := integer(text)) is not None}
