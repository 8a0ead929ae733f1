"""A program of a dump folder: its modules, allocations and runs, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from strided.dumps.array_mapping import ArrayMapping, array_name
from strided.dumps.buffer_assignment.assignment import BufferAssignment, read_allocations
from strided.dumps.detect import read_dump
from strided.dumps.directory.names import KINDS, DumpName
from strided.dumps.hlo import read_hlo
from strided.dumps.hlo.module import Module
from strided.dumps.snapshots.format import UNOPTIMIZED
from strided.dumps.snapshots.snapshot import Snapshot, Values, read_snapshot
from strided.dumps.source import lines_of, open_head
from strided.errors import DumpError, UnsupportedError
from strided.escape import visible
from strided.runtime.lazy import lazy
from strided.wording import counted, names_meant, some

#: Bytes of a module's text in which its header is searched for.
_HEADER_BYTES = 1 << 16
_COUNT = re.compile(r"\b(replica_count|num_partitions)=(\d{1,9})")

#: Errors of reading a damaged file, or one that needs a package to decompress it.
UNREADABLE = DumpError, UnsupportedError

#: Singular and plural names of each kind of file.
_COUNTED = {kind: (kind, f"{kind}s") for kind in ("module", "snapshot", "memory report", "folder")} | {
    "allocations": ("buffer assignment", "buffer assignments"),
    "used values": ("list of used values", "lists of used values"),
    "live ranges": ("list of live ranges", "lists of live ranges"),
    "other": ("other file", "other files"),
}

#: The most runs and arrays of a printed program.
_SHOWN = 40


@dataclass(frozen=True)
class DumpFile:
    """One file of a dump.

    Attributes
    ----------
    path : Path
    name : DumpName or None
        The parsed name; None if it is not XLA's.
    size : int
        In bytes.
    """

    path: Path
    name: DumpName | None
    size: int
    _absolute: Path = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_absolute", self.path.absolute())

    @property
    def place(self) -> Path:
        """Its path as given, or the absolute path if the working directory has changed."""
        return self.path if self.path.absolute() == self._absolute else self._absolute

    def anywhere(self) -> DumpFile:
        """The same file with its absolute path, for another process."""
        return replace(self, path=self._absolute)

    @property
    def kind(self) -> str:
        """Its kind by its name; "other" if unknown."""
        return "other" if self.name is None else self.name.kind

    @property
    def is_text(self) -> bool:
        """Whether its name is that of a text rather than a proto."""
        return self.path.name.removesuffix(".gz").endswith((".txt", ".hlo"))

    def read(self, kind: str | None = None) -> Any:
        """Read its content: a Module, a Snapshot or a BufferAssignment. Errors as for `strided.read_dump`."""
        return read_dump(self.place, kind)

    def __str__(self) -> str:
        return visible(f"{self.path.name} ({self.kind}, {counted(self.size, 'byte')})")


class Program:
    """A program of a dump: a module and all files about it. Pickling stores the paths of the files.

    Attributes
    ----------
    name : str
        The module's name; empty if it was too long for a file name.
    number : int or None
        XLA's number of the module within its process.
    files : tuple of DumpFile
    """

    name: str
    number: int | None
    time: str
    files: tuple[DumpFile, ...]

    def __init__(
        self, name: str, number: int | None, time: str, files: tuple[DumpFile, ...], *, mapped: bool = True
    ) -> None:
        self.name, self.number, self.time, self.files = name, number, time, files
        self._mapped = mapped

    def anew(self) -> Program:
        """A copy without cached contents: what the copy reads is freed with it."""
        return Program(self.name, self.number, self.time, self.files, mapped=self._mapped)

    def __reduce__(self) -> tuple[Any, ...]:
        files = tuple(file.anywhere() for file in self.files)
        return partial(Program, mapped=self._mapped), (self.name, self.number, self.time, files)

    @property
    def label(self) -> str:
        """Name and number, unique in the dump: ``jit_f`` or ``jit_f#4``."""
        number = "" if self.number is None else f"#{self.number}"
        return f"{self.time}{'.' if self.time else ''}{self.name}{number}"

    def _named(self, kind: str) -> list[tuple[DumpFile, DumpName]]:
        return [(file, file.name) for file in self.files if file.name is not None and file.kind == kind]

    def _module_file(self, *, final: bool) -> DumpFile | None:
        """The file of the module: the proto, which holds more, or else the text."""
        found = [
            file
            for file, name in self._named("module")
            if (name.is_final if final else name.stage.endswith("before_optimizations"))
        ]
        protos = [file for file in found if not file.is_text]
        return next(iter(protos or found), None)

    @lazy
    def module(self) -> Module | None:
        """The module after all optimizations, from its file or a snapshot; None if there is neither."""
        file = self._module_file(final=True)
        return self._module_of_a_run(is_unoptimized=False) if file is None else read_hlo(file.place)

    @lazy
    def module_before(self) -> Module | None:
        """The module before optimizations, from its file or a snapshot; None if there is neither."""
        file = self._module_file(final=False)
        return self._module_of_a_run(is_unoptimized=True) if file is None else read_hlo(file.place)

    @property
    def latest_module(self) -> Module | None:
        """The module after all optimizations, or else the one before; None if there is neither."""
        return self.module or self.module_before

    def _module_of_a_run(self, *, is_unoptimized: bool) -> Module | None:
        for _, snapshot in self._opened[0]:
            if (UNOPTIMIZED in snapshot.form) is is_unoptimized and snapshot.module is not None:
                module: Module = snapshot.module
                return module
        return None

    @lazy
    def stages(self) -> dict[str, DumpFile]:
        """The files of modules by stage, including intermediate ones."""
        return {name.stage: file for file, name in self._named("module")}

    @lazy
    def allocations(self) -> BufferAssignment | None:
        """The buffer assignment, from its text or the module's proto; None if there is neither."""
        texts = [file for file, name in self._named("allocations") if name.is_final]
        if texts:
            return read_allocations(texts[0].place)
        proto = self._module_file(final=True)
        try:
            return None if proto is None or proto.is_text else read_allocations(proto.place)
        except UNREADABLE:
            return None

    @lazy
    def runs(self) -> tuple[DumpFile, ...]:
        """The files of snapshots; unoptimized ones, which have no results, are last."""
        found = sorted(self._named("snapshot"), key=lambda pair: (pair[1].is_unoptimized, int(pair[1].run[:18])))
        return tuple(file for file, _ in found)

    @lazy
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots of all runs.

        Raises
        ------
        DumpError
            A snapshot is broken; `arrays` leaves it out.
        """
        return tuple(read_snapshot(file.place, mapped=self._mapped) for file in self.runs)

    @lazy
    def _opened(self) -> tuple[list[tuple[str, Snapshot]], list[str]]:
        found, problems = [], []
        for number, file in enumerate(self.runs):
            try:
                snapshot = read_snapshot(file.place, mapped=self._mapped)
                found.append((f"run{number}/" if len(self.runs) > 1 else "", snapshot))
            except (*UNREADABLE, OSError) as error:
                problems.append(f"{file.path.name}: {reason_of(error)}")
        return found, problems

    @lazy
    def arrays(self) -> RunArrays:
        """The arguments and results of every run by name, read on demand."""
        names: dict[str, tuple[Values, int]] = {}
        for prefix, snapshot in self._opened[0]:
            for number, values in enumerate(snapshot.partitions):
                part = f"{prefix}partition{number}/" if len(snapshot.partitions) > 1 else prefix
                names |= numbered_places(f"{part}argument", values)
            try:
                results = snapshot.results
            except DumpError:
                continue
            names |= numbered_places(f"{prefix}result", results)
        return RunArrays(names)

    @lazy
    def num_devices(self) -> int | None:
        """Replicas times partitions; None without a readable module."""
        for file, _ in self._named("module"):
            if file.is_text:
                try:
                    head = lines_of(memoryview(open_head(file.place, _HEADER_BYTES)), None, None)[0]
                except (*UNREADABLE, OSError):
                    continue
                counts = {name: int(count) for name, count in _COUNT.findall(head)}
                return counts.get("replica_count", 1) * counts.get("num_partitions", 1)
        try:
            module = self.latest_module
        except UNREADABLE:
            return None
        return None if module is None else module.replica_count * module.num_partitions

    @lazy
    def missing(self) -> tuple[tuple[str, str], ...]:
        """What is missing, each with the likely reason."""
        found = []
        if self._module_file(final=True) is None and self._module_of_a_run(is_unoptimized=False) is None:
            stage = "compilation did not come that far" if self._module_file(final=False) else "no module was dumped"
            found.append(("the module after optimizations", stage))
        if not any(name.is_final for _, name in self._named("allocations")):
            proto = self._module_file(final=True)
            if proto is None or self.allocations is None:
                found.append(("the buffer assignment", "neither its text nor a proto that holds it was dumped"))
        runs = [name for _, name in self._named("snapshot")]
        if not any(not name.is_unoptimized for name in runs):
            devices = self.num_devices or 1
            reason = (
                f"the program is for {devices} devices, and XLA's CPU client writes snapshots for one only"
                if devices > 1
                else "the program was not run, or without --xla_dump_hlo_snapshots"
            )
            found.append(("a snapshot with results", reason))
        for prefix, snapshot in self._opened[0]:
            try:
                reason = snapshot.results_missing or ""
            except DumpError as error:
                reason = reason_of(error)
            if reason and UNOPTIMIZED not in snapshot.form:
                found.append((f"{prefix}results", reason))
        return tuple(found)

    @lazy
    def problems(self) -> tuple[str, ...]:
        """The snapshots that cannot be opened, or whose results cannot be read, and why."""
        found = list(self._opened[1])
        for _, snapshot in self._opened[0]:
            try:
                _ = snapshot.results  # raises if it is broken
            except DumpError as error:
                found.append(f"{Path(snapshot.path or '').name}: {reason_of(error)}")
        return tuple(found)

    def __str__(self) -> str:
        counts = {kind: sum(file.kind == kind for file in self.files) for kind in KINDS}
        shown = ", ".join(counted(n, *_COUNTED[kind]) for kind, n in counts.items() if n)
        lines = [f"{self.label}: {shown}"]
        if len(self.runs) > 1:
            lines += [f"  run{k}: {file.path.name}" for k, file in enumerate(self.runs[:_SHOWN])]
        for name in list(self.arrays)[:_SHOWN]:
            lines.append(f"  {name}: {self.arrays.shape(name)}")
        if len(self.arrays) > _SHOWN:
            lines.append(f"  ... and {counted(len(self.arrays) - _SHOWN, 'more array')}")
        lines += [f"  {note}" for note in notes_of(self)]
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return visible(f"<Program {self.label}: {counted(len(self.files), 'file')}>")


class RunArrays(ArrayMapping[Any]):
    """The values of runs by name; arguments and results also by their instructions' names."""

    def __init__(self, places: dict[str, tuple[Values, int]]) -> None:
        self._places = places

    @lazy
    def _by_parameter(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, (values, number) in self._places.items():
            try:
                names = values.names
            except DumpError:
                continue
            if names:
                head = name.rpartition("/")[0]
                found.setdefault(f"{head}/{names[number]}" if head else names[number], name)
        return found

    def _place(self, name: str) -> tuple[Values, int]:
        name = array_name(name, self._places)
        found = self._places.get(name) or self._places.get(self._by_parameter.get(name, ""))
        if found is None:
            raise KeyError(f"no array is named {name!r}; {names_meant(name, self._places)}")
        return found

    def __getitem__(self, name: str) -> Any:
        values, number = self._place(name)
        return values[number]

    def shape(self, name: str) -> Any:
        """The shape of an array, or text that says why it is unreadable. The array is not read."""
        values, number = self._place(name)
        try:
            return values.shape(number)
        except DumpError as error:
            return f"unreadable: {reason_of(error)}"

    def instruction(self, name: str) -> str:
        """The name of the instruction whose value it is; empty if unknown."""
        values, number = self._place(name)
        try:
            return values.names[number] if values.names else ""
        except DumpError:
            return ""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._places or name in self._by_parameter)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<RunArrays: {counted(len(self), 'array')}: {some(self)}>"


def notes_of(program: Program) -> list[str]:
    """What is missing or broken, a line each."""
    missing = [f"missing: {what} ({why})" for what, why in program.missing]
    return missing + [f"broken: {problem}" for problem in program.problems]


def numbered_places(word: str, values: Values) -> dict[str, tuple[Values, int]]:
    """The values under numbered names: ``argument0``, ``argument1``, ..."""
    return {f"{word}{number}": (values, number) for number in range(len(values))}


def reason_of(error: Exception) -> str:
    """The message of an error; of a DumpError, without its file and position."""
    return error.message if isinstance(error, DumpError) else str(error)
