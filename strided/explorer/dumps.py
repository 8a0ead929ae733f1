"""Data of a dump folder or a snapshot for a page: programs, and arrays with statistics and small maps.

The size of a page is bounded: for a large dump it has the instructions of only the largest programs, and maps of their
arrays; of the others, names and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from strided.arrays.layout_array import LayoutArray
from strided.dumps.directory.programs import Program, RunArrays, notes_of, numbered_places, reason_of
from strided.dumps.hlo.module import Module
from strided.dumps.snapshots.snapshot import Snapshot
from strided.errors import DumpError, StridedError
from strided.explorer.modules import Layouts, bytes_of, module_data
from strided.explorer.page import packed
from strided.explorer.values import MOST_SAMPLED, map_data, values_data
from strided.inspect.statistics import statistics
from strided.layout import Shape, TupleShape

#: The most programs whose instructions a page has: those with the largest files.
MOST_MODULES = 12
#: The most instructions of a program in the page of a dump; a larger one can be explored alone.
MOST_INSTRUCTIONS = 200_000
#: The most arrays with statistics and a map, largest programs first, and the most elements that are read for them.
MOST_MAPS, MOST_ELEMENTS = 100, 1 << 29
#: The most arrays that are listed.
MOST_LISTED = 100_000
#: Rows and columns of a map, and the most elements of an array whose values a page has.
_ROWS, _COLUMNS, _FEW = 32, 64, 1024


@dataclass(frozen=True)
class ProgramPart:
    """A program of a dump, or that of a snapshot."""

    label: str
    files: tuple[tuple[str, str, int], ...]
    notes: tuple[str, ...]
    arrays: RunArrays
    #: The argument for `strided.memory_report`; None if its instructions are left out.
    source: Program | Module | None

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(size for _, _, size in self.files)

    def module(self) -> Module | None:
        """Its module; None if that is missing or too large.

        Raises
        ------
        DumpError
            The module is damaged.
        """
        found = self.source if isinstance(self.source, Module) else None
        if isinstance(self.source, Program):
            found = self.source.latest_module
        return found if found is not None and len(found.instructions) <= MOST_INSTRUCTIONS else None


def parts_of(programs: Sequence[Program]) -> Iterator[ProgramPart]:
    """The programs of a folder; each is opened again, so that it does not stay in memory."""
    by_size = sorted(programs, key=lambda program: -sum(file.size for file in program.files))
    largest = set(map(id, by_size[:MOST_MODULES]))
    for program in programs:
        files = tuple((file.path.name, file.kind, file.size) for file in program.files)
        source = program.anew()
        notes = notes_of(source)
        if id(program) not in largest:
            notes.append("its instructions are not in this page: explore it alone")
        yield ProgramPart(program.label, files, tuple(notes), source.arrays, source if id(program) in largest else None)


def part_of_snapshot(snapshot: Snapshot) -> ProgramPart:
    """The program of a snapshot."""
    names = numbered_places("argument", snapshot.arguments)
    notes = []
    try:
        names |= numbered_places("result", snapshot.results)
    except DumpError as error:
        notes.append(f"missing: results ({reason_of(error)})")
    return ProgramPart(snapshot.module_name or "a program", (), tuple(notes), RunArrays(names), snapshot.module)


class ArraysData:
    """Collects the arrays of programs as data for a page, up to the limits above."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.layouts = Layouts()
        self.left_out = 0
        self._maps, self._elements = MOST_MAPS, MOST_ELEMENTS

    def add(self, part: ProgramPart, program: int) -> None:
        """Add the arrays of a program."""
        for name in part.arrays:
            head = {"program": program, "instruction": part.arrays.instruction(name)}
            shape = part.arrays.shape(name)
            if len(self.rows) >= MOST_LISTED:
                self.left_out += 1
            elif isinstance(shape, str):
                self.rows.append(head | {"name": name, "problem": shape})
            else:
                self._add_value(head, name, shape, part.arrays)

    def _add_value(self, head: dict[str, Any], name: str, shape: Any, arrays: RunArrays) -> None:
        """Add an array, or those of a tuple."""
        value = problem = None
        leaves = list(shape.leaves()) if isinstance(shape, TupleShape) else [((), shape)]
        if self._maps > 0 and self._elements > 0:
            try:
                value = arrays[name]
            except (DumpError, OSError) as error:
                problem = reason_of(error)
        for path, leaf in leaves:
            if not isinstance(leaf, Shape):
                continue
            row = head | {"name": name + "".join(f"[{k}]" for k in path), "shape": str(leaf)}
            row["bytes"], row["layout"] = bytes_of(leaf)[0], self.layouts.place(leaf)
            row |= {"problem": problem} if problem else {}
            array = value
            for k in path:
                array = array[k] if array is not None else None
            self.rows.append(row | (self._contents(array) if isinstance(array, LayoutArray) else {}))

    def _contents(self, array: LayoutArray) -> dict[str, Any]:
        """The statistics and map of an array, and its values if they are few."""
        if self._maps <= 0 or self._elements <= 0:
            return {}
        self._maps -= 1
        self._elements -= min(array.size, MOST_SAMPLED)
        found: dict[str, Any] = {"map": map_data(array, _ROWS, _COLUMNS)}
        steps = found["map"]["sample"] if found["map"] else []
        summary = statistics(array[tuple(slice(None, None, step) for step in steps)])
        figures = {"least": summary.minimum, "largest": summary.maximum, "mean": summary.mean}
        found["statistics"] = {name: _shown(figure) for name, figure in figures.items()}
        found["statistics"] |= {"nan": summary.nan, "inf": summary.inf, "size": array.size, "sampled": summary.size}
        if array.size <= _FEW:
            found["values"] = values_data(array)
        return found


def program_data(part: ProgramPart) -> tuple[dict[str, Any], dict[str, str] | None]:
    """The data of a program for a page, and its compressed instructions, None if it has none to show."""
    notes, module = list(part.notes), None
    try:
        found = part.module()
        module = None if found is None else module_data(found)
    except StridedError as error:
        notes.append(f"broken: {error}")
    return {"label": part.label, "files": part.files, "notes": notes}, module


def dump_data(parts: list[ProgramPart], arrays: ArraysData) -> dict[str, Any]:
    """The data of a page: programs and arrays, compressed together, and the instructions of each program."""
    found = [program_data(part) for part in parts]
    # The largest first: they get the maps.
    for number, part in sorted(enumerate(parts), key=lambda pair: -pair[1].size):
        arrays.add(part, number)
    arrays.rows.sort(key=lambda row: row["program"])
    content = {"programs": [data for data, _ in found], "arrays": arrays.rows, "layouts": arrays.layouts.data}
    return {"dump": packed(content), "modules": [module for _, module in found]}


def _shown(figure: Any) -> str:
    """A number as text, so that 64-bit integers stay exact."""
    if figure is None:
        return ""
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.6g}"
