"""`diff_dumps`: where do two runs differ, in their modules, and in their arguments and results by name?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, SupportsIndex

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.compare import compared
from strided.diagnosis.difference.dump_result import DumpDifference, ValueDifference
from strided.diagnosis.difference.modules import how_modules_differ
from strided.diagnosis.difference.operands import operand_of
from strided.diagnosis.difference.result import Difference
from strided.diagnosis.difference.values import Tolerance
from strided.dumps.directory.dump import Dump
from strided.dumps.directory.programs import Program
from strided.dumps.hlo.module import Module
from strided.errors import DumpError, StridedError


def diff_dumps(
    a: Dump,
    b: Dump,
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | None = None,
    equal_nan: bool = True,
    limit: SupportsIndex = 10,
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

    Examples
    --------
    >>> import os, tempfile, numpy as np, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for run, result in (("a", 3), ("b", 4)):
    ...         os.mkdir(os.path.join(folder, run))
    ...         name = os.path.join(folder, run, "module_0000.jit_f.snapshot.1.pb")
    ...         sd.write_snapshot(name, [np.int8([1, 2])], np.int8(result))
    ...     found = diff_dumps(sd.open_dump(os.path.join(folder, "a")), sd.open_dump(os.path.join(folder, "b")))
    >>> [(value.name, value.equal) for value in found.values]
    [('jit_f/argument0', True), ('jit_f/result0', False)]
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
        modules[name] = how_modules_differ(*(_module_or_why(each) for each in pair))
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
    """The module after optimizations, or before it; None if there is none, or why it cannot be read."""
    try:
        return program.latest_module
    except (StridedError, OSError) as error:
        return str(error)


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
    name: str,
    value: str,
    instruction: str,
    programs: tuple[Program, Program],
    tolerance: Tolerance,
    limit: SupportsIndex,
) -> Iterator[ValueDifference]:
    """The differences of one value: of each of its arrays, if it is a tuple."""
    files = _file_of(programs[0], value), _file_of(programs[1], value)
    try:
        arrays = [dict(_flat(name, program.arrays[value])) for program in programs]
    except (DumpError, OSError) as error:
        yield ValueDifference(name, instruction, None, str(error), files)
        return
    for part in arrays[0] | arrays[1]:
        if part not in arrays[0] or part not in arrays[1]:
            yield ValueDifference(part, instruction, None, f"only in {'a' if part in arrays[0] else 'b'}", files)
        elif (found := _difference_or_why(arrays[0][part], arrays[1][part], tolerance, limit)) is not None:
            problem = found if isinstance(found, str) else ""
            yield ValueDifference(part, instruction, None if isinstance(found, str) else found, problem, files)


def _difference_or_why(x: Any, y: Any, tolerance: Tolerance, limit: SupportsIndex) -> Difference | str | None:
    """The difference of two values, or why they cannot be compared; None for two tokens, which hold nothing."""
    if not (isinstance(x, LayoutArray) and isinstance(y, LayoutArray)):
        return None if type(x) is type(y) else f"{type(x).__name__} in a, {type(y).__name__} in b"
    if x.shape != y.shape:
        return f"{x.spec} in a, {y.spec} in b"
    try:
        return compared(operand_of(x, "a"), operand_of(y, "b"), tolerance, limit)
    except (StridedError, OSError) as error:  # a file that is gone or shorter by now
        return str(error)


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
