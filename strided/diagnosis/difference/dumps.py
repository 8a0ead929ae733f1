"""Where two runs differ: their modules, their arguments and results by name, and the first instruction that differs."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.compare import compared
from strided.diagnosis.difference.operands import operand_of
from strided.diagnosis.difference.result import Difference
from strided.diagnosis.difference.values import Tolerance
from strided.dumps.directory.dump import Dump
from strided.dumps.directory.programs import Program
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.module import Module
from strided.errors import DumpError
from strided.escape import counted, visible
from strided.pictures.html import Section, card, preformatted
from strided.runtime.given import whole

#: Attributes that say where an instruction comes from, not what it does.
_ORIGINS = ("metadata", "origin")
_ELEMENT = "get-tuple-element"
#: Elements of elements that are followed: damaged text may go round in a circle.
_MOST_NESTED = 64
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class ValueDifference:
    """One argument or result of two runs.

    Attributes
    ----------
    name : str
        As in the dump: ``"jit_f/run0/argument1"``.
    instruction : str
        The instruction of the first run's module that has this value; empty if unknown.
    difference : Difference or None
        None if the values cannot be compared.
    problem : str
        Why not.
    files : tuple of Path
        The snapshot of each run.
    """

    name: str
    instruction: str
    difference: Difference | None
    problem: str
    files: tuple[Path, Path]

    @property
    def equal(self) -> bool:
        """Whether all elements are."""
        return self.difference is not None and self.difference.equal

    def to_dict(self) -> dict[str, Any]:
        """Everything, of types that JSON has."""
        return {
            "name": self.name,
            "instruction": self.instruction,
            "equal": self.equal,
            "difference": None if self.difference is None else self.difference.to_dict(),
            "problem": self.problem,
            "files": list(map(str, self.files)),
        }


@dataclass(frozen=True, eq=False)
class DumpDifference:
    """Where two dump folders differ.

    Attributes
    ----------
    a, b : Path
        The folders.
    modules : mapping of str to str
        By program how the modules differ; empty text if they do not.
    values : tuple of ValueDifference
        The arguments and results that both runs have, in the order in which they are computed.
    only_in_a, only_in_b : tuple of str
        Programs and values that one folder alone has.
    unread : tuple of str
        The snapshots that cannot be read, so that their values are not compared: folder, program, file and why.
    """

    a: Path
    b: Path
    modules: Mapping[str, str]
    values: tuple[ValueDifference, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both folders hold the same modules and values, and all of them can be read."""
        return (
            not any(self.modules.values())
            and all(v.equal for v in self.values)
            and not self.only_in_a + self.only_in_b + self.unread
        )

    @property
    def first(self) -> ValueDifference | None:
        """The value of the first instruction that differs, of those whose value both runs have."""
        return next((value for value in self.values if not value.equal), None)

    @property
    def _count(self) -> str:
        differing = sum(not value.equal for value in self.values)
        unread = f", {counted(len(self.unread), 'snapshot')} cannot be read" if self.unread else ""
        return f"{differing} of {len(self.values)} arguments and results differ{unread}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, of types that JSON has."""
        return {
            "a": str(self.a),
            "b": str(self.b),
            "equal": self.equal,
            "modules": dict(self.modules),
            "first": None if self.first is None else self.first.name,
            "values": [value.to_dict() for value in self.values],
            "only_in_a": list(self.only_in_a),
            "only_in_b": list(self.only_in_b),
            "unread": list(self.unread),
        }

    def text(self, width: int = 80) -> str:
        """The report, at most `width` columns wide; what differs first is shown with its map."""
        width = whole(width, "width")
        lines = []
        for line in self._lines():
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            lines += textwrap.wrap(visible(line), max(20, width), subsequent_indent=indent) or [""]
        if self.first is not None and self.first.difference is not None:
            lines += ["", self.first.difference.text(width)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        first = "" if self.first is None else f", first {self.first.name}"
        return visible(f"<DumpDifference of {self.a} and {self.b}: {self._count}{first}>")

    def _repr_html_(self) -> str:
        sections = [Section("modules and values", preformatted("\n".join(self._lines())), is_open=True)]
        if self.first is not None and self.first.difference is not None:
            sections.append(Section(f"first to differ: {_named(self.first)}", self.first.difference._repr_html_()))
        return card("DumpDifference", f"{self.a} {self.b}", (), sections)

    def _lines(self) -> Iterator[str]:
        yield f"a: {self.a}"
        yield f"b: {self.b}"
        for program, how in self.modules.items():
            yield f"{program}: the modules {how or 'are equal'}"
        for letter, names in (("a", self.only_in_a), ("b", self.only_in_b)):
            if names:
                more = f", ... {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                yield f"only in {letter}: {', '.join(names[:_SHOWN])}{more}"
        for problem in self.unread[:_SHOWN]:
            yield f"cannot be read: {problem}"
        if len(self.unread) > _SHOWN:
            yield f"... {len(self.unread) - _SHOWN} more cannot be read"
        if not self.values and not self.unread:
            yield "no value is in both folders: run the program with --xla_dump_hlo_snapshots"
        differing = [value for value in self.values if not value.equal]
        if self.values or self.unread:
            yield self._count
        for value in differing[:_SHOWN]:
            found = value.difference
            how = value.problem if found is None else found.share_in_words
            yield f"  {_named(value)}: {how}"
        if len(differing) > _SHOWN:
            yield f"  ... {len(differing) - _SHOWN} more"
        if self.first is not None:
            yield f"first to differ: {_named(self.first)}"
            yield f"  a: {self.first.files[0]}"
            yield f"  b: {self.first.files[1]}"


def _named(value: ValueDifference) -> str:
    return f"{value.name} ({value.instruction})" if value.instruction else value.name


def diff_dumps(
    a: Dump,
    b: Dump,
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | None = None,
    equal_nan: bool = True,
    limit: int = 10,
    progress: Callable[[str], object] | None = None,
) -> DumpDifference:
    """Where two dump folders of `strided.open_dump` differ: modules, then arguments and results by name.

    Parameters
    ----------
    a, b : Dump
    rtol, atol, max_ulp, equal_nan, limit
        As for `strided.diff`.
    progress : callable, optional
        Called with the name of each value before it is compared.

    Raises
    ------
    TypeError
        No Dump, such as a path.
    ValueError
        A negative tolerance.
    DumpError
        Neither folder holds a program.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Dump):
            raise TypeError(f"{name} is no Dump but a {type(given).__name__}: strided.open_dump makes one of a folder")
    tolerance = Tolerance(rtol, atol, max_ulp, equal_nan)
    first, second = _programs(a), _programs(b)
    if not first and not second:
        raise DumpError(f"nothing to compare: neither {a.path} nor {b.path} holds a program")
    modules: dict[str, str] = {}
    values: list[ValueDifference] = []
    only_a, only_b = [name for name in first if name not in second], [name for name in second if name not in first]
    for name in (name for name in first if name in second):
        pair = first[name], second[name]
        modules[name] = _how_modules_differ(*(_module_or_why(each) for each in pair))
        names = _in_order(pair[0])
        only_a += [f"{name}/{value}" for value in names if value not in pair[1].arrays]
        only_b += [f"{name}/{value}" for value in pair[1].arrays if value not in pair[0].arrays]
        for value, instruction in names.items():
            if value in pair[1].arrays:
                if progress is not None:
                    progress(f"{name}/{value}")
                values += _compared(f"{name}/{value}", value, instruction, pair, tolerance, limit)
    unread = [
        f"{letter}: {name}: {problem}"
        for letter, programs in (("a", first), ("b", second))
        for name, program in programs.items()
        for problem in program.problems
    ]
    return DumpDifference(a.path, b.path, modules, tuple(values), tuple(only_a), tuple(only_b), tuple(unread))


def _programs(dump: Dump) -> dict[str, Program]:
    """Programs by name; those that share one by name and turn, for numbers vary from run to run."""
    found: dict[str, Program] = {}
    turns: Counter[str] = Counter()
    for program in dump.programs:
        name = program.name or program.label
        turns[name] += 1
        found[f"{name} ({turns[name]})" if turns[name] > 1 else name] = program
    return found


def _module_or_why(program: Program) -> Module | str | None:
    """The module after optimisation, or before it; None if there is none, or why it cannot be read."""
    try:
        return program.module or program.module_before
    except (DumpError, OSError) as error:
        return str(error)


def _how_modules_differ(a: Module | str | None, b: Module | str | None) -> str:
    """In words; empty if they do the same."""
    for letter, module in (("a", a), ("b", b)):
        if isinstance(module, str):
            return f"cannot be compared: {letter} has none that can be read: {module}"
    if a is None or b is None:
        return "" if a is b else f"cannot be compared: {'a' if a is None else 'b'} has none"
    assert isinstance(a, Module)
    assert isinstance(b, Module)
    for x, y in itertools.zip_longest(_told(a), _told(b)):
        if x is None or y is None:
            return f"differ: {'a' if y is None else 'b'} goes on with {(x or y).name}"
        if (one := _meaning(x)) != (other := _meaning(y)):
            what = next(k for k in one if one[k] != other[k])
            return f"differ, first in the {what} of {x.name}: {_cut(one[what])} in a, {_cut(other[what])} in b"
    return ""


def _told(module: Module) -> Iterator[Instruction]:
    """The instructions that say what a program does. Elements of tuples do so as operands: texts may leave them out."""
    return (one for one in module.instructions if one.opcode != _ELEMENT or one.is_root)


def _operand(instruction: Instruction, name: str) -> str:
    """An operand, whatever an element of a tuple is called."""
    numbers = []
    with suppress(DumpError):  # of a damaged text
        while (one := instruction.computation.instruction(name)).opcode == _ELEMENT and one.operand_names:
            numbers.append(f"#{one.attributes.get('index')}")
            name = one.operand_names[0]
            if len(numbers) > _MOST_NESTED:
                break
    return "".join([name, *reversed(numbers)])


def _meaning(instruction: Instruction) -> dict[str, object]:
    """What an instruction does, by the names of its parts."""
    attributes = {k: v for k, v in instruction.attributes.items() if k not in _ORIGINS}
    return {
        "name": instruction.name,
        "operation": instruction.opcode,
        "shape": str(instruction.shape),
        "operands": tuple(_operand(instruction, name) for name in instruction.operand_names),
        "attributes": attributes,
        "value": instruction.literal,
    }


def _cut(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return visible(text, 60)


def _in_order(program: Program) -> dict[str, str]:
    """The values of a program's runs, in the order in which they are computed, each with its instruction's name."""
    module = _module_or_why(program)
    names = dict.fromkeys(program.arrays, "")
    if module is None or isinstance(module, str):
        return names
    place = {instruction.name: k for k, instruction in enumerate(module.entry.instructions)}
    known = {f"argument{k}": each.name for k, each in enumerate(module.parameters)}
    known |= {f"result{k}": each.name for k, each in enumerate(module.results)}
    for name in names:
        names[name] = known.get(name.rpartition("/")[2], "")
    last = len(place)
    return dict(sorted(names.items(), key=lambda item: (item[0].rpartition("/")[0], place.get(item[1], last))))


def _compared(
    name: str, value: str, instruction: str, programs: tuple[Program, Program], tolerance: Tolerance, limit: int
) -> Iterator[ValueDifference]:
    """The differences of one value: of each of its arrays, if it is a tuple."""
    files = _file_of(programs[0], value), _file_of(programs[1], value)
    try:
        arrays = [dict(_flat(name, program.arrays[value])) for program in programs]
    except (DumpError, OSError) as error:
        yield ValueDifference(name, instruction, None, str(error), files)
        return
    for part in arrays[0] | arrays[1]:
        found, problem = None, ""
        if part not in arrays[0] or part not in arrays[1]:
            problem = f"only in {'a' if part in arrays[0] else 'b'}"
        else:
            x, y = arrays[0][part], arrays[1][part]
            if not (isinstance(x, LayoutArray) and isinstance(y, LayoutArray)):
                if type(x) is type(y):
                    continue  # tokens hold nothing
                problem = f"{type(x).__name__} in a, {type(y).__name__} in b"
            elif x.shape != y.shape:
                problem = f"{x.spec} in a, {y.spec} in b"
            else:
                try:
                    found = compared(operand_of(x, "a"), operand_of(y, "b"), tolerance, limit)
                except (DumpError, OSError) as error:  # a file that is gone or shorter by now
                    problem = str(error)
        yield ValueDifference(part, instruction, found, problem, files)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a value by name; those of a tuple by their places in it."""
    if isinstance(value, tuple):
        for k, each in enumerate(value):
            yield from _flat(f"{name}[{k}]", each)
    else:
        yield name, value


def _file_of(program: Program, value: str) -> Path:
    """The snapshot that holds a value."""
    run = value.split("/", 1)[0]
    return program.runs[int(run.removeprefix("run")) if run.startswith("run") and "/" in value else 0].path
