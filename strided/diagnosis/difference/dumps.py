"""`diff_dumps`: where two runs differ, in their modules, arguments and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from strided.diagnosis.difference.modules import how_modules_differ
from strided.diagnosis.difference.named import differences_of
from strided.diagnosis.difference.named_result import DumpDifference, ValueDifference
from strided.diagnosis.difference.values import Tolerance
from strided.dumps.directory.dump import Dump
from strided.dumps.directory.programs import Program
from strided.dumps.hlo.module import Module
from strided.errors import DumpError, StridedError
from strided.runtime.argument_checks import check_progress


def diff_dumps(
    a: Dump,
    b: Dump,
    *,
    rtol: float = 0,
    atol: float = 0,
    max_ulp: int | np.integer[Any] | None = None,
    equal_nan: bool = True,
    limit: SupportsIndex = 10,
    progress: Callable[[str], object] | None = None,
) -> DumpDifference:
    """Compare two dump folders of `strided.open_dump`: modules, then arguments and results by name.

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
        `a` or `b` is no Dump, but a path, for example.
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
            raise TypeError(f"{name} must be a Dump, not {type(given).__name__}: strided.open_dump opens a folder")
    check_progress(progress)
    tolerance = Tolerance(rtol, atol, max_ulp, equal_nan)
    first, second = _programs(a), _programs(b)
    if not first and not second:
        raise DumpError(f"nothing to compare: neither {a.path} nor {b.path} holds a program")
    modules: dict[str, str] = {}
    values: list[ValueDifference] = []
    only_a, only_b = [name for name in first if name not in second], [name for name in second if name not in first]
    for name in (name for name in first if name in second):
        one, other = first[name], second[name]
        module = _module_or_why(one)
        modules[name] = how_modules_differ(module, _module_or_why(other))
        names = _in_order(one, module)
        only_a += [f"{name}/{value}" for value in names if value not in other.arrays]
        only_b += [f"{name}/{value}" for value in other.arrays if value not in one.arrays]
        for key, value in _in_both(name, (one, other), names):
            if progress is not None:
                progress(value.name)
            values += differences_of(value, (one.arrays, other.arrays), key, tolerance, limit)
    unread = [
        f"{letter}: {name}: {problem}"
        for letter, programs in (("a", first), ("b", second))
        for name, program in programs.items()
        for problem in program.problems
    ]
    return DumpDifference(a.path, b.path, modules, tuple(values), tuple(only_a), tuple(only_b), tuple(unread))


def _programs(dump: Dump) -> dict[str, Program]:
    """Programs by name; those that share one, by name and order, because numbers vary from run to run."""
    found: dict[str, Program] = {}
    turns: Counter[str] = Counter()
    for program in dump.programs:
        name = program.name or program.label
        turns[name] += 1
        found[f"{name} ({turns[name]})" if turns[name] > 1 else name] = program
    return found


def _module_or_why(program: Program) -> Module | str | None:
    """The latest module of a program; None if there is none, or text that says why it cannot be read."""
    try:
        return program.latest_module
    except (StridedError, OSError) as error:
        return str(error)


def _in_order(program: Program, module: Module | str | None) -> dict[str, str]:
    """The values of a program's runs in the order of computation, each with its instruction's name."""
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


def _in_both(
    name: str, programs: tuple[Program, Program], names: Mapping[str, str]
) -> Iterator[tuple[str, ValueDifference]]:
    """The values that both programs have, not compared yet, by key, with the instruction if known."""
    for key, instruction in names.items():
        if key in programs[1].arrays:
            first, second = (_file_of(program, key) for program in programs)
            yield key, ValueDifference(f"{name}/{key}", instruction, files=(first, second))


def _file_of(program: Program, value: str) -> Path:
    """The snapshot that holds a value."""
    run = value.split("/", 1)[0]
    return program.runs[int(run.removeprefix("run")) if run.startswith("run") and "/" in value else 0].path
