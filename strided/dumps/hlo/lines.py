"""One instruction as its line of text: what is taken from it at once, and what when somebody asks."""

from __future__ import annotations

import re

from strided.dumps.hlo.instruction import CALLEES, Instruction
from strided.dumps.hlo.module import Computation
from strided.dumps.hlo.shapes import shape_of
from strided.dumps.hlo.syntax import (
    Gatherer,
    closing,
    inside,
    integer,
    read_attributes,
    split_list,
    trimmed,
    without_comments,
)
from strided.errors import UnsupportedError
from strided.layout import AnyShape

#: Names of instructions, computations and attributes: XLA prints letters, digits and ``_.-``, other producers more.
NAME = r"[^\s=(){}\[\],\"]++"

#: A line as XLA prints it. ``b(`` opens a buffer's shape and is no opcode.
_LINE = re.compile(rf"([ \t]*+)(ROOT )?%?({NAME}) = (?:(\S.*?) )??((?!b\()[a-z][\w\-.]*+)\(")
#: The same with blanks and line ends wherever they may stand.
_STATEMENT = re.compile(
    rf"(\s*+)(ROOT\s++)?%?({NAME})\s*+=\s*+(?:(\S.*?)(?<!\s)\s*+)??(?<![\w\-.])((?!b\s*+\()[a-z][\w\-.]*+)\s*+\(",
    re.DOTALL,
)
_NAMES = re.compile(r"[^\s,%]++")
_PERCENT_NAMES = re.compile(r"%([^\s,()]++)")
_CALL = re.compile(r"[a-z\-]\(|\.\.\.")
_ELISION = re.compile(r"\.\.\.(?:\(\+\d+\))?")

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b'(){}[]"')

match_line = _LINE.match


def is_whole(line: str) -> bool:
    """Whether every bracket, string and comment that opens in `line` closes in it, and nothing more is announced."""
    # Brackets and quotes in even numbers are taken at their word; a string may hold any, so the rest is looked at.
    count = line.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS).count
    if (
        count(b"(") == count(b")")
        and count(b"{") == count(b"}")
        and count(b"[") == count(b"]")
        and not count(b'"') & 1
        and ("/*" not in line or line.count("/*") == line.count("*/"))
    ):
        return line.rstrip()[-1:] not in (",", "=")
    state = Gatherer()
    state.feed(line)
    return state.whole and state.last not in (",", "=")


def match_statement(text: str) -> re.Match[str] | None:
    """The parts of an instruction written with any blanks and comments, which are places in ``.string``."""
    found = _STATEMENT.match(text)
    return found if found or "/" not in text else _STATEMENT.match(without_comments(text))


class TextInstruction(Instruction):
    """An instruction as its line.

    Attributes
    ----------
    text : str
        The line.
    shape_text : str or None
        The shape in it.
    bodies : mapping of str to list of Computation, or None
        The computations printed inside the line, by attribute.
    """

    __slots__ = ("_close", "_open", "bodies", "shape_text", "text")

    def __init__(self, found: re.Match[str], text: str, line: int) -> None:
        _, root, name, self.shape_text, opcode = found.groups()
        super().__init__(name, opcode, root is not None, line)
        self.text, self._open, self._close = text, found.end(), -1
        self.bodies: dict[str, list[Computation]] | None = None

    @property
    def shape(self) -> AnyShape | None:
        return None if self.shape_text is None else shape_of(self.shape_text)

    @property
    def operand_text(self) -> str:
        """What stands between the parentheses."""
        if self._close < 0:
            end = closing(self.text, self._open - 1)
            self._close = end - 1 if end > 0 else len(self.text)
        return self.text[self._open : self._close]

    @property
    def operand_names(self) -> tuple[str, ...]:
        if self.opcode in ("parameter", "constant"):
            return ()
        text = self.operand_text
        if "/" in text:
            text = without_comments(text)
        if not _CALL.search(text):
            if "%" in text:
                return tuple(_PERCENT_NAMES.findall(text))
            if "[" not in text:
                return tuple(_NAMES.findall(text))
        parts = (_operand_name(part) for part in split_list(text))
        return tuple(name for name in parts if name)

    @property
    def literal(self) -> str | None:
        return self.operand_text.strip() if self.opcode == "constant" else None

    @property
    def parameter_number(self) -> int | None:
        if self.opcode != "parameter":
            return None
        return integer(trimmed(self.operand_text))

    def _read_attributes(self) -> dict[str, str]:
        _ = self.operand_text  # finds where the attributes begin
        found, end = read_attributes(self.text, self._close + 1)
        if rest := trimmed(self.text[end:]):
            found[""] = rest
        return found

    def _read_callees(self) -> tuple[Computation, ...]:
        if not self.bodies:
            return super()._read_callees()
        module, callees = self.computation.module, list[Computation]()
        for key in (key for key in CALLEES if key in self.attributes):
            if key in self.bodies:
                callees += self.bodies[key]
            else:
                callees += [module.computation(name) for name in split_list(inside(self.attributes[key]))]
        return tuple(callees)

    def _read_operands(self) -> tuple[Instruction, ...]:
        return tuple(self._nested(name) or self.computation.instruction(name) for name in self.operand_names)

    def _nested(self, name: str) -> Instruction | None:
        if "(" not in name or (found := match_statement(f"operand = {name}")) is None:
            return None
        instruction = TextInstruction(found, found.string, self.line or 0)
        instruction.name, instruction.computation = name, self.computation
        return instruction

    def printed(self, *, print_large_constants: bool = False, sort_backend_config: bool = False) -> str:
        if print_large_constants or sort_backend_config:
            raise UnsupportedError("what was read from text is printed as it was read; a proto can be printed in ways")
        return self.text.strip()


def _operand_name(part: str) -> str:
    """The name in ``f32[2]{0} %name``. An instruction written in the place of a name goes by its text."""
    words = part.split()
    last = words[-1] if words else ""
    if last.startswith("%") or (last and not any(c in last for c in "()[]{}")):
        return "" if _ELISION.fullmatch(last) else last.removeprefix("%")
    return "" if _ELISION.fullmatch(part) else part
