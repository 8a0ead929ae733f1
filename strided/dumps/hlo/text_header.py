"""The header of a module in HLO text; values are parsed from its attributes on demand.

::

    entry_computation_layout={(f32[3,5]{0,1}, s32[])->f32[3,5]{1,0}}
    input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {2}, must-alias) }
    buffer_donor={ (2, {}) }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from strided.dumps.hlo.header import TABLES, Alias, Donor, EntryLayout, SourceTables
from strided.dumps.hlo.lexer import (
    BLANKS,
    COMMENT,
    STRING,
    inside,
    integer,
    read_fields,
    read_strings,
    skip_space,
    split_list,
    trimmed,
)
from strided.dumps.hlo.quoting import unescape
from strided.errors import DumpError, NotationError
from strided.layout import TupleShape, parser
from strided.runtime.lazy import lazy

_INDEX = r"\{([0-9,\s]*)\}"
_ALIAS = re.compile(rf"{_INDEX}\s*:\s*\(\s*([0-9]{{1,18}})\s*(?:,\s*{_INDEX})?\s*(?:,\s*([\w-]+))?\s*\)")
_DONOR = re.compile(rf"\(\s*([0-9]{{1,18}})\s*,\s*{_INDEX}\s*\)")
_ROW = re.compile(r"\s*([0-9]{1,18})\s+(.*\S)", re.DOTALL)
#: A row with a terminated string or brace.
_CLOSED_ROW = re.compile(
    rf"""{BLANKS}([0-9]++{BLANKS}(?:{STRING}|'[^'\n]*+'|\{{(?:[^{{}}"/]++|{COMMENT}|/|(?!))*+\}}))""", re.DOTALL
)
_NAME_OF_FIELD = re.compile(r"([a-z_]++)\s*+=")
_STRING_ROW = re.compile(rf"{STRING}|'[^'\n]*+'", re.DOTALL)
_FIELDS_ROW = re.compile(r"\{(?:[\s,]*+[a-z_]++\s*+=\s*+-?[0-9]++|(?!))++\s*+\}")
#: The fields of a row by table; end_line and end_column may be missing.
_ROW_FIELDS = {
    "FileLocations": frozenset("file_name_id function_name_id line end_line column end_column".split()),
    "StackFrames": frozenset(("file_location_id", "parent_frame_id")),
}
_MAY_LACK = frozenset(("end_line", "end_column"))
#: Patterns for the values of some attributes.
_FORMS = {
    "is_scheduled": re.compile("true|false"),
    "replica_count": re.compile("[0-9]{1,19}"),
    "num_partitions": re.compile("[0-9]{1,19}"),
}
#: The properties that parse attributes with several parts.
_PARTS = {"entry_computation_layout": "entry_layout", "input_output_alias": "aliases", "buffer_donor": "donors"}


class TextHeader:
    """A header as text: its attributes, and the rows of each source table."""

    attributes: Mapping[str, str]
    is_scheduled: bool
    replica_count: int
    num_partitions: int

    def __init__(self, attributes: Mapping[str, str], tables: Mapping[str, list[str]]) -> None:
        self.attributes, self._tables = attributes, tables
        self.is_scheduled = attributes.get("is_scheduled") == "true"
        self.replica_count, self.num_partitions = (
            integer(attributes.get(name, "1")) or 1 for name in ("replica_count", "num_partitions")
        )

    @lazy
    def entry_layout(self) -> EntryLayout | None:
        text = self.attributes.get("entry_computation_layout")
        return None if text is None else entry_layout(text)

    @lazy
    def aliases(self) -> tuple[Alias, ...]:
        return aliases(self.attributes.get("input_output_alias", ""))

    @lazy
    def donors(self) -> tuple[Donor, ...]:
        return donors(self.attributes.get("buffer_donor", ""))

    @property
    def frontend_attributes(self) -> dict[str, str]:
        return read_strings(self.attributes.get("frontend_attributes", ""))

    @lazy
    def tables(self) -> SourceTables:
        return source_tables(self._tables)

    def unreadable(self) -> Iterator[tuple[str, str]]:
        """The names and texts of attributes that should have a value but cannot be parsed.

        >>> list(TextHeader({"is_scheduled": "treu", "replica_count": "2", "other": "x"}, {}).unreadable())
        [('is_scheduled', 'treu')]
        """
        for name, text in self.attributes.items():
            if name in _FORMS and not _FORMS[name].fullmatch(text):
                yield name, text
            elif name in _PARTS:
                try:
                    getattr(self, _PARTS[name])  # which is kept
                except DumpError:
                    yield name, text


def entry_layout(text: str) -> EntryLayout:
    """Parse ``{(parameter, ...)->result}``. DumpError, which shows the text, for anything else."""
    body = inside(text) if text.lstrip().startswith("{") else text
    try:
        parameters, position = parser.parse_prefix(body)
        position = skip_space(body, position)
        if not isinstance(parameters, TupleShape) or not body.startswith("->", position):
            raise DumpError(f"expected (parameters)->result, found {text[:80]!r}")
        result, position = parser.parse_prefix(body, position + 2)
        if skip_space(body, position) < len(body):
            raise DumpError(f"expected nothing behind the result, found {body[position : position + 80]!r}")
    except NotationError as error:
        raise DumpError(f"an entry layout that cannot be read: {error}") from error
    return EntryLayout(tuple(parameters.elements), result)


def aliases(text: str) -> tuple[Alias, ...]:
    """Parse the entries of ``input_output_alias``, or of ``output_to_operand_aliasing``, whose parameters are operands.

    DumpError for an invalid entry.

    >>> aliases("{ {0}: (1, {2}, must-alias) }")
    (Alias(output_index=(0,), parameter_number=1, parameter_index=(2,), kind='must-alias'),)
    """
    return tuple(
        Alias(_index(found[1]), int(found[2]), _index(found[3] or ""), found[4] or "may-alias")
        for found in _entries(_ALIAS, text)
    )


def donors(text: str) -> tuple[Donor, ...]:
    """Parse the entries of ``buffer_donor``.

    >>> donors("{ (2, {}) }")
    (Donor(parameter_number=2, parameter_index=()),)
    """
    return tuple(Donor(int(found[1]), _index(found[2])) for found in _entries(_DONOR, text))


def _entries(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The entries of a list in braces, each matched by `pattern`; DumpError for one that does not match."""
    for part in split_list(inside(text)):
        found = pattern.fullmatch(part)
        if found is None:
            raise DumpError(f"no entry of this list: {part[:60]!r}")
        yield found


def _index(text: str) -> tuple[int, ...]:
    return tuple(number for part in text.split(",") if (number := integer(part.strip())) is not None)


def split_rows(text: str, start: int = 0) -> tuple[list[str], int]:
    """The consecutive rows of a source table from `start`, without comments, and where they end.

    >>> split_rows('1 "a.py" 2\\n"b.py"\\nENTRY')
    (['1 "a.py"', '2\\n"b.py"'], 17)
    """
    rows = []
    while row := _CLOSED_ROW.match(text, start):
        rows.append(trimmed(row[1]))
        start = row.end()
    return rows, start


def is_row(table: str, number: int, text: str) -> bool:
    """Whether a text is exactly row `number` of a source table.

    >>> [is_row("StackFrames", 1, f"1 {{file_location_id=1 {name}=1}}") for name in ("parent_frame_id", "parent")]
    [True, False]
    """
    found = _ROW.fullmatch(text)
    if found is None or int(found[1]) != number:
        return False
    if (fields := _ROW_FIELDS.get(table)) is None:
        return _STRING_ROW.fullmatch(found[2]) is not None
    names = _NAME_OF_FIELD.findall(found[2]) if _FIELDS_ROW.fullmatch(found[2]) else []
    return len(names) == len(set(names)) and fields - _MAY_LACK <= set(names) <= fields


def source_tables(tables: Mapping[str, list[str]]) -> SourceTables:
    """Parse the source tables from the rows of each; invalid rows are left out.

    A stack frame's parent is one more in text than in a proto: 1 means no parent.
    """
    rows: dict[str, dict[int, str]] = {}
    for name in TABLES:
        matches = (_ROW.fullmatch(row) for row in tables.get(name, []))
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
