"""HLO text, read at two speeds.

XLA prints an instruction on a line of its own::

    [ROOT ][%]name = shape opcode(operands){, attribute=value}

so text is read by lines: a count of brackets and quotes shows that a line is complete, a regular expression finds name,
shape, opcode and operands, and everything after the opening parenthesis stays text until it is needed. Other lines, as
in programs written by hand and bodies printed inside callers, are gathered until their brackets close and read token by
token.

What is still no statement is kept verbatim (`Module.unread`) and reported by one DumpWarning. Text without a
computation, or that ends inside one, is refused.
"""

from __future__ import annotations

import re

from strided.dumps.hlo.asynchronous import unfold
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.computation_text import ComputationReader
from strided.dumps.hlo.header import TABLES
from strided.dumps.hlo.lexer import BLANKS, read_attributes, single_end, skip_space, trimmed
from strided.dumps.hlo.mlir import refuse_mlir, refuse_mlir_module
from strided.dumps.hlo.module import Module
from strided.dumps.hlo.module_builder import BODY, ModuleBuilder, RepeatedNameError, are_alike
from strided.dumps.hlo.names import rename
from strided.dumps.hlo.operands import with_parameters
from strided.dumps.hlo.statements import STATEMENT_START, LineGroups, indent_of, opening_of
from strided.dumps.hlo.text_header import TextHeader, is_row, split_rows
from strided.dumps.hlo.text_instruction import NAME
from strided.dumps.source import BYTE_ORDER_MARK, split_lines
from strided.errors import DumpError

_HEADING = re.compile(rf"\s*+({'|'.join(TABLES)})\b{BLANKS}(?=[0-9]|\Z)", re.DOTALL)
#: The most lines of a row of a source table; with each token on its own line, there are 15.
_ROW_LINES = 32
_HEADER = re.compile(rf"\s*+HloModule\b{BLANKS}((?:(?!/[/*])[^\s,]|(?!))*+)", re.DOTALL)
#: The beginning of a computation.
_COMPUTATION = re.compile(rf"ENTRY\b|%?{NAME}\s*+[({{]")
#: The message for other text.
NO_COMPUTATION = "no HLO computation in this text"
#: The separator of modules in files of XLA's tests.
_DIVIDER = "// -----"


class SeveralModulesError(DumpError):
    """A text has several modules, and no index was given."""


def read_text(text: str, index: int | None = None) -> Module:
    """Read the module in HLO text; of several, the one at `index`, counted from 0.

    DumpError, with line and column, for text that has no computation, ends inside one, or defines a name twice; also
    for several modules without an `index`, or an `index` out of range.

    >>> module = read_text("HloModule m\\n\\nENTRY e {\\n  ROOT p = f32[2]{0} parameter(0)\\n}\\n")
    >>> print(module.entry.root.shape)
    f32[2]{0}
    """
    return read_lines(split_lines(text.removeprefix(BYTE_ORDER_MARK)), None, index)


def read_lines(lines: list[str], path: str | None, index: int | None) -> Module:
    """As `read_text`, for the lines of a text."""
    refuse_mlir_module(lines, path)
    groups = LineGroups(lines)
    may_fold = groups.mention("async")
    try:
        readers = _read_all(groups, path, divided=False, may_fold=may_fold)
    except RepeatedNameError:  # perhaps a file of XLA's tests, with several modules
        if not any(_DIVIDER in line for line in lines):
            raise
        groups.restore()
        readers = _read_all(LineGroups(lines), path, divided=True, may_fold=may_fold)
    count = len(readers)
    if index is None and count > 1:
        words = f"this text holds {count} modules: index=0 to index={count - 1} picks one"
        raise SeveralModulesError(words, path=path, line=readers[1].start + 1, column=1)
    number = index or 0
    if not 0 <= number < count:
        raise DumpError(f"there is no module {index}: this text holds {count}", path=path)
    return readers[number].module()


def _read_all(groups: LineGroups, path: str | None, *, divided: bool, may_fold: bool) -> list[_ModuleReader]:
    """Read all modules of a text, with a reader each; an empty text also has one."""
    readers, position = list[_ModuleReader](), 0
    while not readers or position < len(groups.lines):
        readers.append(_ModuleReader(groups, path, position, divided=divided, may_fold=may_fold))
        position = readers[-1].read()
    return readers


def _fits(header: TextHeader, entry: Computation) -> bool:
    """Whether a computation has the header's entry shapes, ignoring layouts, or the header has none."""
    try:
        layout = header.entry_layout
    except DumpError:
        return True
    if layout is None:
        return True
    # Shapes that the text leaves out are not inferred yet, which needs the whole module.
    given = [one.shape if one.has_shape else None for one in (*entry.parameters, entry.root)]
    told = *layout.parameters, layout.result
    return len(given) == len(told) and all(map(are_alike, given, told))


def _begins_part(text: str, place: int) -> bool:
    """Whether a source table or a computation begins at a position in a text."""
    return (_HEADING.match(text, place) or _COMPUTATION.match(text, place)) is not None


class _ModuleReader:
    """Reads one module of a text, in particular what is between its computations. Lines count from 0."""

    def __init__(self, groups: LineGroups, path: str | None, start: int, *, divided: bool, may_fold: bool) -> None:
        self.groups, self.lines, self.path, self.start = groups, groups.lines, path, start
        self.divided, self.may_fold = divided, may_fold
        self.name: str | None = None
        self.tables: dict[str, list[str]] = {}
        self.header = TextHeader({}, self.tables)
        self.single: Computation | None = None
        self.builder = ModuleBuilder(self.lines, path)
        self.reader = ComputationReader(groups, self.builder, path)

    def read(self) -> int:
        """Read the module; return the line on which the next one begins, or the number of lines."""
        table: str | None = None
        position = self.start
        while position < len(self.lines):
            line = self.lines[position]
            word = line.strip()
            bare = trimmed(word)
            if table is not None and bare[:1].isdigit():
                position = self._read_rows(table, position)
            elif heading := _HEADING.match(line):
                table = heading[1]
                if table in self.tables:
                    self.builder.leave(position, f"a second table {table}")
                position = self._read_rows(table, position, heading.end())
            elif not word:
                position += 1
            elif position > self.start and self._begins_module(word):
                return position
            elif word[0] == "#":  # a comment for the tools of XLA's tests
                position += 1
            else:
                if bare:  # blank lines and comments do not end a table
                    table = None
                position = self._read_top(position)
        return position

    def _read_rows(self, table: str, position: int, start: int = 0) -> int:
        """Read the rows of a source table from `start` in a line; return the next line to read.

        A row may span several lines, and others, or what follows the table, may be on the same line. An unclosed row is
        kept as its line.
        """
        line = self.lines[position]
        for count in (1, _ROW_LINES):
            text = line if count == 1 else "\n".join(self.lines[position : position + count])
            rows, end = split_rows(text, start)
            following = skip_space(text, end)
            last = position + text.count("\n", 0, following)
            if following == len(text) or "\n" in text[end:following]:
                self._keep_rows(table, rows, position)
                return last + (following == len(text))
            if rows and _begins_part(text, following) and self.groups.may_go_on(last):
                self._keep_rows(table, rows, position)
                return self.groups.go_on(last, following - text.rfind("\n", 0, following) - 1)
        self._keep_rows(table, [trimmed(line[start:])], position)
        return position + 1

    def _keep_rows(self, table: str, rows: list[str], position: int) -> None:
        """Add rows to a source table; record invalid ones as unparsed."""
        kept = self.tables.setdefault(table, [])
        for number, row in enumerate(rows, len(kept) + 1):
            if not is_row(table, number, row):
                self.builder.leave(position, f"not row {number} of {table}: {row[:60]}")
        kept += rows

    def _begins_module(self, word: str) -> bool:
        """Whether a line begins another module: a second header, or a separator."""
        if word.startswith(_DIVIDER):
            return self.divided and bool(self.builder.computations)
        return (self.name is not None or bool(self.builder.computations)) and _HEADER.match(word) is not None

    def _read_top(self, position: int) -> int:
        """Read a computation, or lines with the header or several computations; return the next line."""
        line = self.lines[position]
        if (opening := opening_of(line)) is not None:
            return self.reader.read_computation(opening, position)
        text, end, whole = self.groups.gather(position)
        if header := _HEADER.match(text):
            return self._read_header(header, text, position, end, whole)
        if self.reader.read_block(text, position) or not trimmed(text):
            return end
        self.builder.leave(position, "neither a computation nor a part of the header")
        return position + 1

    def _read_header(self, header: re.Match[str], text: str, position: int, end: int, whole: bool) -> int:
        """Read the header in the lines from `position` to `end`; return the next line to read."""
        self.name = header[1].removeprefix("%").removesuffix(":")
        repeated: list[str] = []
        attributes, rest = read_attributes(text, header.end(), single_end, repeated)
        self.header = TextHeader(attributes, self.tables)
        for name in repeated:
            self.builder.leave(position, f"a second {name}")
        for name, text_of_value in self.header.unreadable():
            self.builder.leave(position, f"no value of {name}: {text_of_value[:60]}")
        if heading := _HEADING.match(text, rest):
            start = text.rfind("\n", 0, heading.start(1)) + 1
            return self.groups.go_on(position + text.count("\n", 0, start), heading.start(1) - start)
        if not whole:
            self.builder.leave(position, "a header whose brackets do not close")
        elif trimmed(text[rest:]) and not self.reader.read_block(text[rest:], position + text.count("\n", 0, rest)):
            self.builder.leave(position, "a header that goes on behind its attributes")
        return end

    def module(self) -> Module:
        """The module that was read. DumpError if there is none, or the text ends before its entry."""
        if not self.builder.computations or self.builder.unread:
            self._read_single()
        if not self.builder.computations:
            refuse_mlir(self.lines[self.start :], self.path)
            raise self._no_computation()
        entry = self.builder.entry or self.builder.computations[-1]
        if self.builder.entry is None and not _fits(self.header, entry):
            words = "no computation is the one that entry_computation_layout tells of: the text ends before its ENTRY"
            raise DumpError(words, path=self.path, line=len(self.lines), column=len(self.lines[-1]) + 1)
        folded = set(unfold(self.builder.computations, self.builder.leave) if self.may_fold else ()) - {entry}
        renamed = rename(sorted(self.builder.computations, key=lambda one: one is not self.single))
        module = Module(
            f"module_{entry.name}" if self.name is None else self.name,
            self.header,
            [computation for computation in self.builder.computations if computation not in folded],
            entry,
            renamed=renamed,
            unread=self.builder.unread,
            path=self.path,
        )
        for body in folded:
            body.module = module
        return module

    def _no_computation(self) -> DumpError:
        number = next((n for n in range(self.start, len(self.lines)) if self.lines[n].strip()), self.start)
        words, line = NO_COMPUTATION, self.lines[number]
        if STATEMENT_START.match(line):
            words += ": instructions stand between 'ENTRY e {' and '}', but for a single one"
        return DumpError(words, path=self.path, line=number + 1, column=indent_of(line) + 1)

    def _read_single(self) -> None:
        """If the text is a single instruction, read it, with parameters for its operands."""
        if self.name is not None or self.builder.entry is not None:
            return
        found = with_parameters("\n".join(self.lines[self.start :]), self.start + 1)
        if found is None:
            return
        self.builder.unread, self.builder.computations, self.builder.entry = [], [], None
        self.builder.check(found[-1])
        self.reader.read_bodies(found[-1], 0)
        self.name, self.header = BODY, TextHeader({"is_scheduled": "true"}, self.tables)
        self.single = self.builder.keep(BODY, found, signature=f"ENTRY %{BODY}")
