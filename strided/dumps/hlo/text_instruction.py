"""One instruction as its line of text: what is taken from it at once, and what on demand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from sys import intern

from strided.dumps.hlo.instruction import ComputationLike, Instruction
from strided.dumps.hlo.lexer import (
    Gatherer,
    closing,
    inside,
    integer,
    read_attributes,
    read_fields,
    read_strings,
    split_list,
    trimmed,
    unescape,
    unquote,
    without_comments,
)
from strided.dumps.hlo.module import Computation
from strided.dumps.hlo.shapes import shape_of
from strided.errors import UnsupportedError
from strided.layout import AnyShape, Shape

#: Names of instructions, computations and attributes: XLA uses letters, digits and ``_.-``, other producers more.
NAME = r"(?![<>\-'/?*+~#])[^\s=(){}\[\],\"]++"

#: Operands as XLA prints them: names, after their shapes in older text.
_NAMED = r"(?:/\*index=\d++\*/)?+%?[\w.\-]++"
_TYPED = rf"(?:[a-z]\w*+\[[\d,<=? ]*+\](?:\{{[^{{}}]*+\}})?+ )?+{_NAMED}"

_HEAD = rf"([ \t]*+)(ROOT )?%?({NAME}) = (?:(\S.*?) )??((?!b\()[a-z][\w\-.]*+)\("
_NAMES_ONLY = rf"((?:{_NAMED}(?:, {_NAMED})*+)?+)\)"

#: A line as XLA prints it, with its operands if they are only names. ``b(`` opens a buffer and is not an opcode.
_LINE = re.compile(rf"{_HEAD}(?:{_NAMES_ONLY})?+")
#: The same with blanks and line ends wherever they are allowed.
_STATEMENT = re.compile(
    rf"(\s*+)(ROOT\s++)?%?({NAME})\s*+=\s*+(?:(\S.*?)(?<!\s)\s*+)??(?<![\w\-.])((?!b\s*+\()[a-z][\w\-.]*+)\s*+\("
    rf"(?:{_NAMES_ONLY})?+",
    re.DOTALL,
)
_TYPED_LIST = re.compile(rf"{_TYPED}(?:, {_TYPED})*+\)")
#: The short way for nearly all lines of XLA: operands are names, and attributes to the end of the line words, strings,
#: and braces around both, up to three deep. Nothing is open or nested there, and no other statement follows.
_STRING = r'"[^"\\]*+"'
_BRACES = rf"\{{(?:[^{{}}\"\\=]++|(?<! )=|{_STRING})*+\}}"
_BRACES = rf"\{{(?:[^{{}}\"\\=]++|(?<! )=|{_STRING}|{_BRACES})*+\}}"
_BRACES = rf"\{{(?:[^{{}}\"\\=]++|(?<! )=|{_STRING}|{_BRACES})*+\}}"
_PLAIN_END = rf"(?:, [\w.\-]++=(?:[\w.%\-:>]++(?<!>)|{_STRING}|{_BRACES}))*+\Z"
_PLAIN_LINE = re.compile(rf"(?>{_HEAD}){_NAMES_ONLY}{_PLAIN_END}")

_OPERAND = re.compile(rf"(?:(.*[\s)\]}}]))?%?({NAME})", re.DOTALL)
_NAMES = re.compile(r"[^\s,%]++")
#: Instructions whose operands are looked up at a time: more is no faster, and takes memory.
_BATCH = 1 << 12
#: What stands in place of operands: numbers of parameters, constants.
_NO_OPERAND = re.compile(r"[+-]?[0-9][\w.+\-]*+|true|false|[+-]?(?:inf|nan)|")
_ELISION = re.compile(r"\.\.\.(?:\(\+\d+\))?")

#: The attributes that name computations.
CALLEES = (
    "to_apply",
    "calls",
    "condition",
    "body",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
)
#: Attributes that list computations in braces, even a single one.
_LISTS = ("branch_computations", "called_computations")

_TOKEN = Shape("token", ())

_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b'(){}[]"')

#: A line that ends so goes on in the next.
UNFINISHED = (",", "=", ">")

match_line = _LINE.match
#: The parts of most lines that XLA prints. The line is whole if its shape is one.
match_plain_line = _PLAIN_LINE.match


def is_whole(line: str) -> bool:
    """Whether every bracket, string and comment that opens in `line` closes in it, and nothing more is announced."""
    # Balanced counts of brackets and quotes are trusted; a string may hold any, so other lines are scanned.
    count = line.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS).count
    if (
        count(b"(") == count(b")")
        and count(b"{") == count(b"}")
        and count(b"[") == count(b"]")
        and not count(b'"') & 1
        and ("/*" not in line or line.count("/*") == line.count("*/"))
    ):
        return line.rstrip()[-1:] not in UNFINISHED
    state = Gatherer()
    state.feed(line)
    return state.whole and state.last not in UNFINISHED


def is_alone(found: re.Match[str], line: str) -> bool:
    """Whether a whole line holds one statement, and no comment or string in which another might seem to begin."""
    end = found.end(5)
    return "/" not in line[:end] and line.find(" =", end) < 0 and not line.rstrip().endswith("ROOT")


def match_statement(text: str) -> re.Match[str] | None:
    """The parts of an instruction written with any blanks and comments, which are places in ``.string``."""
    found = _STATEMENT.match(text)
    head = text[: found.end(5)] if found else text
    if "/" not in head or (found and "//" not in head and head.count("/*") == head.count("*/")):
        return found
    return _STATEMENT.match(without_comments(text))  # a comment may hold anything, statements too


class TextInstruction(Instruction):
    """An instruction as its line.

    Attributes
    ----------
    text : str
        The line. Instructions that stood in the place of operands are named there, and are instructions of their own.
    shape_text : str or None
        The shape in it.
    bodies : mapping of str to list of Computation, or None
        The computations printed inside the line, by attribute.
    """

    __slots__ = ("_close", "_open", "bodies", "shape_text", "text")

    def __init__(self, found: re.Match[str], text: str, line: int) -> None:
        _, root, name, shape_text, opcode, names = found.groups()
        super().__init__(name, intern(opcode), root is not None, line)
        # A program has few opcodes and shapes, each of them many times.
        self.shape_text = None if shape_text is None else intern(shape_text)
        self.text = text
        if names is None:
            self._open, self._close = text.index("(", found.end(5)) + 1, -1
        else:
            self._open, self._close = found.span(6)
        self.bodies: dict[str, list[Computation]] | None = None

    @property
    def shape(self) -> AnyShape | None:
        if self.shape_text is None:
            return self.computation.module.shapes_left_out.get(self)
        return self.written_shape

    @property
    def written_shape(self) -> AnyShape | None:
        """The shape that the line says; None if it says none, or none that can be read."""
        if self.shape_text is None:
            return None
        # The shape written before an outfeed may be that of its operand.
        return _TOKEN if self.opcode == "outfeed" else shape_of(self.shape_text)

    @property
    def has_shape(self) -> bool:
        return self.shape_text is not None

    @property
    def operand_text(self) -> str:
        """The text between the parentheses."""
        if self._close < 0:
            end = closing(self.text, self._open - 1)
            self._close = end - 1 if end > 0 else len(self.text)
        return self.text[self._open : self._close]

    @operand_text.setter
    def operand_text(self, text: str) -> None:
        _ = self.operand_text  # finds where it ends
        self.text = self.text[: self._open] + text + self.text[self._close :]
        self._close = self._open + len(text)

    @property
    def behind_operands(self) -> str:
        """The text after the parentheses: the attributes."""
        _ = self.operand_text
        return self.text[self._close + 1 :]

    @property
    def operand_names(self) -> tuple[str, ...]:
        names = self.written_operands
        renamed = self.computation.renamed
        return tuple([renamed.get(name, name) for name in names] if renamed else names)

    @property
    def written_operands(self) -> list[str]:
        """Names of the operands, as written."""
        return [] if self.opcode in ("parameter", "constant") else read_names(self.operand_text)

    @property
    def literal(self) -> str | None:
        return self.operand_text.strip() if self.opcode == "constant" else None

    @property
    def parameter_number(self) -> int | None:
        if self.opcode != "parameter":
            return None
        return integer(trimmed(self.operand_text))

    @property
    def written_attributes(self) -> dict[str, str]:
        """The attributes, as written."""
        _ = self.operand_text  # finds where the attributes begin
        found, end = read_attributes(self.text, self._close + 1)
        if rest := trimmed(self.text[end:]):
            found[""] = rest
        return found

    def _read_attributes(self) -> dict[str, str]:
        found = self.written_attributes
        if self.computation.renamed and "control-predecessors" in found:
            found["control-predecessors"] = _named_anew(found["control-predecessors"], self.computation.renamed)
        if new_names := self.computation.module.renamed:
            found.update({key: _named_anew(found[key], new_names) for key in CALLEES if key in found})
        for key, bodies in (self.bodies or {}).items():
            names = ", ".join(f"%{body.name}" for body in bodies)
            found[key] = f"{{{names}}}" if key in _LISTS else names
        return found

    def _read_callees(self) -> tuple[ComputationLike, ...]:
        named = [name for key in CALLEES if key in self.attributes for name in split_list(inside(self.attributes[key]))]
        return tuple(self.computation.module.computation(name) for name in named)

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        names = split_list(inside(self.attributes.get("control-predecessors", "")))
        return tuple(self.computation.instruction(name) for name in names)

    @property
    def metadata(self) -> dict[str, str | int]:
        found: dict[str, str | int] = {}
        for name, text in read_fields(self.attributes.get("metadata", "")).items():
            number = integer(text)
            found[name] = unescape(text) if number is None else number
        return found

    @property
    def frontend_attributes(self) -> dict[str, str]:
        return read_strings(self.attributes.get("frontend_attributes", ""))

    @property
    def backend_config(self) -> str | None:
        text = self.attributes.get("backend_config")
        return None if text is None else unquote(text)

    def rewrite(self, opcode: str, attributes: Mapping[str, str]) -> None:
        """Make it another operation, with other attributes."""
        root, shape = "ROOT " if self.is_root else "", "" if self.shape_text is None else f"{self.shape_text} "
        head = f"{self.text[: len(self.text) - len(self.text.lstrip())]}{root}%{self.name} = {shape}{opcode}("
        operands = self.operand_text
        self.opcode, self._open, self._close = opcode, len(head), len(head) + len(operands)
        self.text = "".join([head, operands, ")", *(f", {name}={text}" for name, text in attributes.items())])

    def printed(self, *, print_large_constants: bool = False, sort_backend_config: bool = False) -> str:
        if print_large_constants or sort_backend_config:
            raise UnsupportedError("what was read from text is printed as it was read; a proto can be printed in ways")
        return self.text.strip()


def are_names(found: re.Match[str], line: str) -> bool:
    """Whether the operands of an instruction are names, in the form in which XLA prints them; constants have none."""
    return (
        found[6] is not None
        or found[5] in ("constant", "parameter")
        or _TYPED_LIST.match(line, found.end()) is not None
    )


def _named_anew(text: str, names: Mapping[str, str]) -> str:
    """A list of names, or one name, with the new names."""
    new = [
        f"%{names[name]}" if name in names else part
        for part in split_list(inside(text))
        for name in [part.removeprefix("%")]
    ]
    return f"{{{', '.join(new)}}}" if text.startswith("{") else ", ".join(new)


def undefined_names(found: Sequence[TextInstruction], names: Set[str]) -> Iterator[tuple[TextInstruction, str]]:
    """The operands of a computation's instructions that are none of the `names` that it defines."""
    calls = [i for i in found if i.opcode != "parameter"]
    for k in range(0, len(calls), _BATCH):
        batch = calls[k : k + _BATCH]
        used = ", ".join([i.text[i._open : i._close] for i in batch if i._close != i._open])
        if "/" in used:
            used = without_comments(used)
        unknown = set(used.replace("%", "").split(", ")).difference(names)
        if all(_NO_OPERAND.fullmatch(text) for text in unknown):
            continue
        for instruction in batch:
            for name in instruction.written_operands:
                if name not in names:
                    yield instruction, name


def read_names(text: str) -> list[str]:
    """The names in a list of operands, with or without shapes before them; other text is kept.

    >>> read_names("%a, b, f32[2]{0} %c, (), ...(+3)")
    ['a', 'b', 'c', '()']
    """
    if "(" not in text and "[" not in text and "..." not in text and text.count(" ") <= text.count(","):
        return _NAMES.findall(without_comments(text) if "/" in text else text)
    named = ((part, split_operand(part)) for part in split_list(text) if not _ELISION.fullmatch(part))
    return [part if operand is None else operand[1] for part, operand in named]


def split_operand(text: str) -> tuple[str, str] | None:
    """Shape and name in ``f32[2]{0} %name``, the shape empty where there is none; None for anything else.

    >>> split_operand("() t"), split_operand("a b"), split_operand("add(a, b)")
    (('()', 't'), None, None)
    """
    found = _OPERAND.fullmatch(text)
    if found is None or _ELISION.fullmatch(text):
        return ("", "") if _ELISION.fullmatch(text) else None
    shape = trimmed(found[1] or "")
    return (shape, found[2]) if not shape or shape_of(shape) is not None else None
