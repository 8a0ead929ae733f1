"""Instructions in HLO text, most of whose parts are parsed on demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from sys import intern

from strided.dumps.hlo.attributes import CALLEE_NAMES, LISTS
from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import in_braces
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.lexer import (
    brackets,
    closing,
    inside,
    integer,
    read_attributes,
    read_fields,
    read_strings,
    single_attributes,
    skip_space,
    split_list,
    trimmed,
    without_comments,
)
from strided.dumps.hlo.line_state import LineState
from strided.dumps.hlo.quoting import unescape, unquote
from strided.errors import StridedError, UnsupportedError
from strided.layout import AnyShape, Shape, parser

#: Names of instructions, computations and attributes: XLA uses letters, digits and ``_.-``, other producers also other
#: characters, but no comments. For ``(?!)`` see `lexer.BLANKS`.
NAME = r"(?![<>\-'/?*+~#])[^\s=(){}\[\],\"/%]++(?:(?:/(?![/*])|(?<=:)//|(?!))[^\s=(){}\[\],\"/%]*+)*+"

#: Operands as XLA prints them: names, after their shapes in older text, and elements of tuples (`tuple_elements`).
_NAMED = r"(?:/\*index=\d++\*/|(?!))?+%?[\w.\-#]++"
_TYPED = rf"(?:[a-z]\w*+\[[\d,<=? ]*+\](?:\{{[^{{}}]*+\}}|(?!))?+ |(?!))?+{_NAMED}"

_HEAD = rf"[ \t]*+(ROOT )?%?({NAME}) = (?:(\S.*?) )??((?!b\()[a-z][\w\-.]*+)\("
_NAMES_ONLY = rf"((?:{_NAMED}(?:, {_NAMED}|(?!))*+|(?!))?+)\)"

#: A line as XLA prints it, with its operands if these are only names. ``b(`` begins a buffer's shape, not operands.
_LINE = re.compile(rf"{_HEAD}(?:{_NAMES_ONLY})?")
#: The same, with blanks and line ends wherever they are allowed.
_STATEMENT = re.compile(
    rf"\s*+(ROOT(?:\s++|(?=%)))?%?({NAME})\s*+=\s*+(?:(\S.*?)(?<!\s)\s*+)??(?<![\w\-.])((?!b\s*+\()[a-z][\w\-.]*+)\s*+\("
    rf"(?:{_NAMES_ONLY})?",
    re.DOTALL,
)
_TYPED_LIST = re.compile(rf"{_TYPED}(?:, {_TYPED}|(?!))*+\)")


_WORD, _VALUE = r"[A-Za-z0-9_.\-]++", r"[A-Za-z0-9_.\-#]++"
#: The form of nearly all lines, without comments, and with ASCII sets, which Python matches twice as fast.
_PLAIN = re.compile(
    rf" *+(ROOT )?%?((?!-){_WORD}) = ([a-z][!-.0-~]*+|\([ -.0-~]*?) ([a-z]{_WORD})"
    rf"\(((?:%?{_VALUE}(?:, %?{_VALUE}|(?!))*+|(?!))?+)\)(?=,|\Z)"
)

#: Strings and values in which no other instruction can seem to begin.
_PLAIN_STRING = r'"[^"\\%]*+(?:\\[^%][^"\\%]*+|(?!))*+"'
_PLAIN_VALUE = rf"{_PLAIN_STRING}|[A-Za-z0-9_%.\-:>]++|{brackets(3, _PLAIN_STRING, without='%')}"

_NUMBER = "-?[0-9]++"
_BOUNDS = rf"\[\s*+{_NUMBER}(?:\s*+:\s*+{_NUMBER}|(?!)){{1,2}}+\s*+\]"
_PADDED = rf"{_NUMBER}(?:_{_NUMBER}|(?!)){{1,2}}+"


def _list_of(item: str) -> str:
    return rf"\{{\s*+(?:{item}(?:\s*+,\s*+{item}|(?!))*+)?\s*+\}}"


#: Patterns for the values of attributes that are sizes, indices and axes; other attributes may have any text.
_FORMS = {
    "batch_group_count channel_id cross_program_prefetch_index delta exponent_bits feature_group_count feature_index "
    "index index_vector_dim inferred_dimension iota_dimension k mantissa_bits num_carries": _NUMBER,
    "collapsed_slice_dims dimensions dynamic_slice_sizes fft_length inserted_window_dims input_batching_dims "
    "lhs_batch_dims lhs_contracting_dims offset_dims operand_batching_dims rhs_batch_dims rhs_contracting_dims "
    "scatter_dims_to_operand_dims scatter_indices_batching_dims start_index_map start_indices_batching_dims "
    "update_window_dims": _list_of(_NUMBER),
    "slice": _list_of(_BOUNDS),
    "padding": rf"{_PADDED}(?:x{_PADDED}|(?!))*+",
    "direction": "EQ|NE|G[ET]|L[ET]",
}
_FORM_OF = {name: re.compile(form) for names, form in _FORMS.items() for name in names.split()}
#: An attribute whose value does not match its pattern.
_MISSHAPEN = "|".join(rf"(?:{names.replace(' ', '|')})=(?!(?:{form})(?:,|\Z))" for names, form in _FORMS.items())

#: All attributes of a plain line, which is complete: each name once, with a valid value. They are limited in number,
#: because the rest of the line is searched for each.
_PLAIN_ATTRIBUTES = re.compile(
    rf"(?:, (?!{_MISSHAPEN})([A-Za-z_][A-Za-z0-9_]*+)=(?=[^,]*+(?:,(?! \1=)[^,]*+|(?!))*+\Z)(?:{_PLAIN_VALUE})(?=,|\Z)"
    r'|(?!)){0,32}+(?<!ROOT)(?<=[A-Za-z0-9)}\]"])\Z',
    re.DOTALL,
)

_OPERAND = re.compile(rf"(?:(.*[\s)\]}}]))?%?({NAME})", re.DOTALL)
_NAMES = re.compile(r"%?+([^\s,]++)")
#: Instructions whose operands are looked up at a time: more would take more memory and be no faster.
_BATCH = 1 << 12
#: What may replace operands: parameter numbers, constants.
_NO_OPERAND = re.compile(r"[+-]?[0-9][\w.+\-]*+|true|false|[+-]?(?:inf|nan)|")
#: Opcodes with a number or a value instead of operands.
_WITHOUT_OPERANDS = ("parameter", "constant")
_ELISION = re.compile(r"\.\.\.(?:\(\+\d+\))?")

_TOKEN = Shape("token", ())

#: The beginning of a statement without a blank before its equals sign, which is allowed only after a ``%`` name.
_SQUEEZED = re.compile(r"%[\w.\-]++=", re.ASCII)
#: The beginning of attributes after a constant's value.
_FIRST_ATTRIBUTE = re.compile(r"\)\s*+,\s*+[A-Za-z_][\w.\-]*+\s*+=")
#: XLA's numbering comments.
_COUNTING = re.compile(r"/\*index=[0-9]++\*/")

#: A line with such an end, possibly before a comment, continues on the next.
UNFINISHED = (",", "=", ">")
#: The same for a line with as many closing as opening brackets, whose last one may open the next computation.
_ANNOUNCING = (*UNFINISHED, "{", "(", "[")
_UNFINISHED_BEFORE_COMMENT = re.compile(rf"(?:[{''.join(UNFINISHED)}]|ROOT)\s*+(?:/\*[^*]*+\*/\s*+|(?!))*+(?://|\Z)")

match_line = _LINE.match


def match_plain_line(line: str) -> re.Match[str] | None:
    """The parts of a line that is one complete instruction in XLA's usual form; else None."""
    matched = _PLAIN.match(line)
    if matched is None or "//" in line or _PLAIN_ATTRIBUTES.match(line, matched.end()) is None:
        return None
    return matched if _is_plain_shape(matched[3]) and line.find(" =", matched.end()) < 0 else None


def _is_balanced(text: str) -> bool:
    """Whether the numbers of brackets and quotes match, which is taken as proof, although strings may contain any."""
    count = text.count
    return count("(") == count(")") and count("{") == count("}") and count("[") == count("]") and not count('"') & 1


def is_whole(line: str) -> bool:
    """Whether a line is complete: it closes every bracket, string and comment, and its end does not need more."""
    if line.count("/*") == line.count("*/") and _is_balanced(line) and not _UNFINISHED_BEFORE_COMMENT.search(line):
        return line.rstrip()[-1:] not in _ANNOUNCING
    state = LineState()
    state.feed(line)
    return state.whole and state.last not in UNFINISHED


def is_alone(found: re.Match[str], line: str) -> bool:
    """Whether a complete line has only one statement, and no comment or string in which another could seem to begin."""
    end = found.end(4)
    head = line[:end]
    if "/" in head and ("/" in _COUNTING.sub("", head) or shape_of(found[3]) is None):
        return False
    return line.find(" =", end) < 0 and not (line.rstrip().endswith("ROOT") or _SQUEEZED.search(line, end))


def match_statement(text: str) -> re.Match[str] | None:
    """The parts of an instruction with any blanks and comments, as positions in ``.string``."""
    found = _STATEMENT.match(text)
    head = text[: found.end(4)] if found else text
    if "/" not in head:
        return found
    if found and "//" not in head and head.count("/*") == head.count("*/") and shape_of(found[3] or "") is not None:
        return found
    return _STATEMENT.match(without_comments(text))  # a comment may contain anything, even statements


@lru_cache(maxsize=1 << 15)
def shape_of(text: str) -> AnyShape | None:
    """Parse a shape; None if it is invalid. Cached, because a module repeats few shapes many times.

    >>> print(shape_of("(f32[2,3]{1,0:T(2,128)}, pred[])"))
    (f32[2,3]{1,0:T(2,128)}, pred[])
    """
    try:
        shape, end = parser.parse_prefix(text, lenient=True)
    except StridedError:
        return None
    return shape if skip_space(text, end) == len(text) else None


@lru_cache(maxsize=1 << 12)
def _is_plain_shape(text: str) -> bool:
    return _is_balanced(text) and shape_of(text) is not None


class TextInstruction(Instruction):
    """An instruction in its line of text.

    Attributes
    ----------
    text : str
        The line. Instructions nested in the operands have been replaced by names, and are separate instructions.
    shape_text : str or None
        The text of the shape.
    bodies : mapping of str to list of Computation, or None
        The computations printed inside the line, by attribute.
    """

    __slots__ = ("_close", "_open", "bodies", "shape_text", "text")
    line: int

    def __init__(self, found: re.Match[str], text: str, line: int) -> None:
        root, name, shape_text, opcode, names = found.groups()
        # Interned, because a program repeats few opcodes and shapes many times.
        super().__init__(name, intern(opcode), root is not None, line)
        self.shape_text = None if shape_text is None else intern(shape_text)
        self.text = text
        self._open, self._close = found.span(5) if names is not None else (text.index("(", found.end(4)) + 1, -1)
        self.bodies: dict[str, list[Computation]] | None = None

    @property
    def shape(self) -> AnyShape | None:
        if self.shape_text is None:
            return self.computation.module.shapes_left_out.get(self)
        return self.written_shape

    @property
    def written_shape(self) -> AnyShape | None:
        """The shape in the line; None if it is missing or invalid."""
        if self.shape_text is None:
            return None
        # The shape before an outfeed may be that of its operand.
        return _TOKEN if self.opcode == "outfeed" else shape_of(self.shape_text)

    @property
    def has_shape(self) -> bool:
        return self.shape_text is not None

    @property
    def operand_text(self) -> str:
        """The text between the parentheses."""
        return self.text[self._open : self._end_of_operands()]

    @operand_text.setter
    def operand_text(self, text: str) -> None:
        self.text = self.text[: self._open] + text + self.text[self._end_of_operands() :]
        self._close = self._open + len(text)

    def _end_of_operands(self) -> int:
        """The position of the parenthesis that ends the operands, or the end of the line; cached."""
        if self._close < 0:
            end = closing(self.text, self._open - 1)
            self._close = end - 1 if end > 0 else len(self.text)
        return self._close

    @property
    def behind_operands(self) -> str:
        """The text after the parentheses: the attributes."""
        return self.text[self._end_of_operands() + 1 :]

    def faults(self) -> Iterator[str]:
        """Errors after the operands: repeated attributes, invalid values, other text."""
        if self.opcode != "constant" or self._close >= 0:
            close = self._end_of_operands()
        else:  # literals may be long, and are not scanned until they are needed
            first = _FIRST_ATTRIBUTE.search(self.text, self._open)
            close = first.start() if first else self.text.rfind(")", self._open)
        if close < 0 or close == len(self.text):
            return
        found, end = single_attributes(self.text, close + 1)
        times = Counter[str]()
        for name, value in found:
            times[name] += 1
            if times[name] == 2:  # reported once
                yield f"a second {name}"
            elif times[name] == 1 and name in _FORM_OF and not _FORM_OF[name].fullmatch(trimmed(value)):
                yield f"no value of {name}: {value[:60]}"
        if end < len(self.text):
            yield f"no attributes: {self.text[end : end + 60]}"

    @property
    def operand_names(self) -> tuple[str, ...]:
        names = self.written_operands
        renamed = self.computation.renamed
        return tuple([renamed.get(name, name) for name in names] if renamed else names)

    @property
    def written_operands(self) -> list[str]:
        """The operands' names as in the text."""
        return [] if self.opcode in _WITHOUT_OPERANDS else read_names(self.operand_text)

    @property
    def literal(self) -> str | None:
        return self.operand_text.strip() if self.opcode == "constant" else None

    @property
    def parameter_number(self) -> int | None:
        return integer(trimmed(self.operand_text)) if self.opcode == "parameter" else None

    @property
    def written_attributes(self) -> dict[str, str]:
        """The attributes as in the text."""
        found, end = read_attributes(self.text, self._end_of_operands() + 1)
        if rest := trimmed(self.text[end:]):
            found[""] = rest
        return found

    @property
    def holds_another(self) -> bool:
        """Whether a line inside its brackets is another instruction, where neither operands nor computations are."""
        if "\n" not in self.text:
            return False
        texts = [text for key, text in self.written_attributes.items() if key not in CALLEE_NAMES]
        if self.opcode == "constant":
            texts.append(self.operand_text)
        lines = (line for text in texts for line in text.split("\n")[1:])
        return any((found := match_line(line)) is not None and shape_of(found[3] or "") is not None for line in lines)

    def _read_attributes(self) -> dict[str, str]:
        found = self.written_attributes
        if self.computation.renamed and "control-predecessors" in found:
            found["control-predecessors"] = _renamed(found["control-predecessors"], self.computation.renamed)
        if new_names := self.computation.module.renamed:
            found.update({key: _renamed(found[key], new_names) for key in CALLEE_NAMES if key in found})
        for key, bodies in (self.bodies or {}).items():
            names = [f"%{body.name}" for body in bodies]
            found[key] = in_braces(names, ", ") if key in LISTS else ", ".join(names)
        return found

    def _read_callees(self) -> tuple[Computation, ...]:
        named = [
            name for key in CALLEE_NAMES if key in self.attributes for name in split_list(inside(self.attributes[key]))
        ]
        return tuple(self.computation.module.computation(name) for name in named)

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        names = split_list(inside(self.attributes.get("control-predecessors", "")))
        return tuple(self.computation.instruction(name) for name in names)

    @property
    def metadata(self) -> dict[str, str | int]:
        fields = read_fields(self.attributes.get("metadata", "")).items()
        return {name: unescape(text) if (number := integer(text)) is None else number for name, text in fields}

    @property
    def frontend_attributes(self) -> dict[str, str]:
        return read_strings(self.attributes.get("frontend_attributes", ""))

    @property
    def backend_config(self) -> str | None:
        text = self.attributes.get("backend_config")
        return None if text is None else unquote(text)

    def rewrite(self, opcode: str, attributes: Mapping[str, str]) -> None:
        """Change the opcode and the attributes."""
        root, shape = "ROOT " if self.is_root else "", "" if self.shape_text is None else f"{self.shape_text} "
        head = f"{self.text[: len(self.text) - len(self.text.lstrip())]}{root}%{self.name} = {shape}{opcode}("
        operands = self.operand_text
        self.opcode, self._open, self._close = opcode, len(head), len(head) + len(operands)
        self.text = "".join([head, operands, ")", *(f", {name}={text}" for name, text in attributes.items())])

    def printed(self, *, print_large_constants: bool = False, sort_backend_config: bool = False) -> str:
        if print_large_constants or sort_backend_config:
            raise UnsupportedError("a module read from text is printed as it was read; these options are for protos")
        return self.text.strip()


def are_names(found: re.Match[str], line: str) -> bool:
    """Whether the operands are names in XLA's form; constants have none."""
    return found[5] is not None or found[4] in _WITHOUT_OPERANDS or _TYPED_LIST.match(line, found.end()) is not None


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """A name or list of names with the new names."""
    new = [
        f"%{names[name]}" if (name := part.removeprefix("%")) in names else part for part in split_list(inside(text))
    ]
    return in_braces(new, ", ") if text.startswith("{") else ", ".join(new)


def undefined_names(found: Sequence[TextInstruction], names: Set[str]) -> Iterator[tuple[TextInstruction, str]]:
    """The operands of a computation's instructions that are not among the `names` it defines."""
    calls = [i for i in found if i.opcode not in _WITHOUT_OPERANDS]
    for k in range(0, len(calls), _BATCH):
        batch = calls[k : k + _BATCH]
        used = ", ".join(["", *(i.text[i._open : i._close] for i in batch if i._close != i._open)])
        if "/" in used and "/" in (used := _COUNTING.sub("", used)):
            used = without_comments(used)
        unknown = set(used.replace(", %", ", ").split(", ")).difference(names)
        if all(map(_NO_OPERAND.fullmatch, unknown)):
            continue
        for instruction in batch:
            for name in instruction.written_operands:
                if name not in names:
                    yield instruction, name


def read_names(text: str) -> list[str]:
    """The names in a list of operands, which may have shapes before them; other text is kept.

    >>> read_names("%a, b, f32[2]{0} %c, (), ...(+3)")
    ['a', 'b', 'c', '()']
    """
    if "(" not in text and "[" not in text and "..." not in text and text.count(" ") <= text.count(","):
        return _NAMES.findall(without_comments(text) if "/" in text else text)
    named = ((part, split_operand(part)) for part in split_list(text) if not _ELISION.fullmatch(part))
    return [part if operand is None else operand[1] for part, operand in named]


def split_operand(text: str) -> tuple[str, str] | None:
    """Split ``f32[2]{0} %name`` into shape (may be empty) and name; None for anything else.

    >>> split_operand("() t"), split_operand("a b"), split_operand("add(a, b)")
    (('()', 't'), None, None)
    """
    if _ELISION.fullmatch(text):
        return "", ""
    found = _OPERAND.fullmatch(text)
    if found is None:
        return None
    shape = trimmed(found[1] or "")
    return (shape, found[2]) if not shape or shape_of(shape) is not None else None
