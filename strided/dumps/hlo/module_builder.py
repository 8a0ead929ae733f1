"""Collects a module's computations while its text is read, checks them, and records what cannot be parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import Unparsed
from strided.dumps.hlo.lexer import is_value
from strided.dumps.hlo.names import NameUniquer
from strided.dumps.hlo.quoting import unescape
from strided.dumps.hlo.statements import OPENING
from strided.dumps.hlo.text_instruction import TextInstruction, undefined_names
from strided.dumps.hlo.tuple_elements import with_tuple_elements
from strided.errors import DumpError, NotationError
from strided.layout import AnyShape
from strided.layout.parser import parse_prefix

#: XLA's name for computations printed inside their callers.
BODY = "_"

#: Attributes after a computation's closing brace.
_OF_COMPUTATIONS = ("execution_thread", "backend_config")


def are_alike(one: AnyShape | None, other: AnyShape | None) -> bool:
    """Whether two shapes have the same element types and sizes, ignoring layouts; True if one is unknown."""
    return one is None or other is None or one.text(layout=False) == other.text(layout=False)


class RepeatedNameError(DumpError):
    """A name is defined twice."""


class Mark(NamedTuple):
    """A state of the builder, to which `forget` can return."""

    unread: int
    computations: int
    anonymous: int


class ModuleBuilder:
    """Collects the computations of one module. Lines count from 0 here and from 1 in results.

    Attributes
    ----------
    computations : list of Computation
    entry : Computation or None
        The one marked ENTRY.
    unread : list of Unparsed
    anonymous : NameUniquer
        Makes names for instructions without names.
    """

    def __init__(self, lines: Sequence[str], path: str | None) -> None:
        self.computations: list[Computation] = []
        self.entry: Computation | None = None
        self.unread: list[Unparsed] = []
        self.anonymous = NameUniquer()
        self._lines, self._path = lines, path
        self._named: set[str] = set()

    def add(self, opening: str, found: Sequence[TextInstruction], attributes: Mapping[str, str], first: int) -> None:
        """Add a computation that opens on line `first`, with the attributes after its brace."""
        if not found:
            self.leave(first, "a computation without instructions")
            return
        matched = OPENING.match(opening)
        assert matched is not None  # at least the empty beginning
        entry, name = matched.groups("")
        if entry and self.entry is not None:
            raise self._repeated("a second ENTRY", first + 1)
        if name and name in self._named:
            raise self._repeated(f"a second computation {name!r}", first + 1)
        for key, value in attributes.items():
            if key not in _OF_COMPUTATIONS or not is_value(value):
                # The line of the closing brace is unknown; the last instruction's is the nearest.
                self.leave(found[-1].line - 1, f"no attribute of a computation: {key}={value[:60]}")
        config = attributes.get("backend_config")
        computation = self.keep(name, found, signature=opening.strip())
        computation.execution_thread = unescape(attributes.get("execution_thread", ""))
        computation.backend_config = config if config is None or config.startswith("{") else unescape(config)
        self._named.add(name)
        if entry:
            self.entry = computation

    def keep(self, name: str, found: Sequence[TextInstruction], *, signature: str = "") -> Computation:
        """Add a computation to the module, and check the names in it. DumpError for a name that is defined twice."""
        names = {instruction.name for instruction in found}
        if len(names) < len(found):
            counts = Counter(instruction.name for instruction in found)
            twice = [instruction for instruction in found if counts[instruction.name] > 1][-1]
            raise self._repeated(f"a second instruction {twice.name!r}", twice.line)
        if len(roots := [instruction for instruction in found if instruction.is_root]) > 1:
            raise self._repeated("a second ROOT", roots[1].line)
        if undefined := list(undefined_names(found, names)):
            found, undefined = with_tuple_elements(found, undefined)
        computation = Computation(name, tuple(found), signature=signature)
        self.computations.append(computation)
        self._check_parameters(found)
        if not roots:
            self._check_last(found[-1], signature)
        if undefined:
            self._leave_undefined(undefined, found[0].line)
        return computation

    def check(self, instruction: TextInstruction) -> None:
        """Record what is wrong with an instruction by itself."""
        if instruction.shape_text is not None and instruction.written_shape is None:
            self.leave(instruction.line - 1, f"no shape: {instruction.shape_text[:60]}")
        if instruction.holds_another:
            self.leave(instruction.line - 1, "another instruction begins inside its brackets")
        for fault in instruction.faults():
            self.leave(instruction.line - 1, fault)

    def leave(self, position: int, reason: str, text: str | None = None) -> None:
        """Record a line, or a text that begins there, as unparsed."""
        self.unread.append(Unparsed(position + 1, self._lines[position] if text is None else text, reason))

    def mark(self) -> Mark:
        """The current state, for `forget`."""
        return Mark(len(self.unread), len(self.computations), len(self.anonymous))

    def forget(self, mark: Mark) -> None:
        """Discard what was read since `mark`."""
        for computation in self.computations[mark.computations :]:
            if computation.signature:  # not a body inside its caller, whose name another computation may have
                self._named.discard(computation.name)
            if computation is self.entry:
                self.entry = None
        del self.unread[mark.unread :], self.computations[mark.computations :]
        self.anonymous.forget(mark.anonymous)

    def _leave_undefined(self, undefined: Sequence[tuple[TextInstruction, str]], first: int) -> None:
        """Record undefined operands, one for each line, of a computation that begins on line `first`."""
        told = self._told_since(first)
        for instruction, operand in undefined:
            if instruction.line not in told:
                self.leave(instruction.line - 1, f"no instruction {operand[:60]!r}")

    def _told_since(self, line: int) -> set[int | None]:
        """The lines from `line` that are in `unread`; only its end is examined, since these were read last."""
        told = set[int | None]()
        for count, part in enumerate(reversed(self.unread)):
            if (part.line or 0) >= line:
                told.add(part.line)
            elif count:  # the very last may be the line above, which opens the computation
                break
        return told

    def _check_parameters(self, found: Sequence[TextInstruction]) -> None:
        numbers = set[int]()
        for instruction in found:
            if instruction.opcode != "parameter":
                continue
            number = instruction.parameter_number
            if number is None or number < 0 or number in numbers:
                reason = "no parameter number" if number is None or number < 0 else f"a second parameter {number}"
                self.leave(instruction.line - 1, reason)
            else:
                numbers.add(number)

    def _check_last(self, last: TextInstruction, signature: str) -> None:
        """Record a computation without ROOT whose last instruction does not have the signature's shape."""
        _, arrow, text = signature.rpartition("->")
        try:
            result = parse_prefix(text)[0] if arrow else None
        except NotationError:
            return
        if not are_alike(result, last.written_shape):
            self.leave(last.line - 1, "no ROOT, and not what the computation gives")

    def _repeated(self, words: str, line: int | None) -> DumpError:
        return RepeatedNameError(words, path=self._path, line=line, column=1)
