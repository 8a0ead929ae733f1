"""A dump folder: its programs with their modules, allocations and runs, found by XLA's file names.

Opening a folder reads only file names. Files are read on demand; what is missing is listed with the likely reason.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias

from strided.dumps.array_mapping import ArrayMapping, array_name
from strided.dumps.detect import READERS, recognise
from strided.dumps.directory.names import DumpName, parse_name, with_modules
from strided.dumps.directory.programs import UNREADABLE, DumpFile, Program, notes_of, reason_of
from strided.errors import DumpError
from strided.escape import visible
from strided.files.paths import naming_lost_directory
from strided.files.regular import shorten_name
from strided.runtime.argument_checks import path_text, whole
from strided.runtime.lazy import lazy
from strided.wording import counted, names_meant, some

__all__ = ["Dump", "DumpFile", "Program", "open_dump"]

#: The most programs and files of a printed dump.
_SHOWN = 40

#: Time stamp, number (-1: none) and name of a module.
_Key: TypeAlias = tuple[str, int, str]


class Dump(ArrayMapping[Any]):
    """A dump folder, as returned by `open_dump`: a mapping of names to the arrays of all programs.

    A name is ``<program>/<value>``: ``jit_f/argument0``, ``jit_f/result1``; with several runs ``jit_f/run2/result1``.
    Programs that share a name are distinguished by number: ``jit_f#4``. A parameter's name also finds its value, and a
    name may be shortened to an unambiguous ending: ``dump["result1"]``.

    Pickling stores the path, and unpickling opens the folder again.

    Attributes
    ----------
    path : Path
    programs : tuple of Program
        Sorted by number and name.
    others : tuple of DumpFile
        Files whose names are not XLA's.
    """

    path: Path
    programs: tuple[Program, ...]
    others: tuple[DumpFile, ...]

    def __init__(self, path: Path, files: list[DumpFile], *, mapped: bool = True) -> None:
        self.path, self._mapped = path, mapped
        with naming_lost_directory(path):
            self._absolute = path.absolute()  # the working directory may change
        self.others = tuple(file for file in files if file.name is None)
        named = [(file, file.name) for file in files if file.name is not None]
        groups: dict[_Key, list[DumpFile]] = {}
        for (file, _), name in zip(named, with_modules([name for _, name in named]), strict=True):
            number = -1 if name.number is None else name.number
            groups.setdefault((name.time, number, name.module), []).append(replace(file, name=name))
        self.programs = tuple(
            Program(name, None if number < 0 else number, time, tuple(own), mapped=mapped)
            for (time, number, name), own in sorted(_merged(groups).items())
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(open_dump, mapped=self._mapped), (self._absolute,)

    @lazy
    def labels(self) -> dict[str, Program]:
        """The programs by name; those that share a name, by name and number."""
        counts = Counter(program.name for program in self.programs)
        return {p.name if counts[p.name] == 1 and p.name else p.label: p for p in self.programs}

    def program(self, name: str | SupportsIndex) -> Program:
        """The program with this name, label or number.

        Raises
        ------
        DumpError
            No program, or several, have this name.
        """
        if not isinstance(name, str):
            name = whole(name, "the number of a program")
        found = [p for p in self.programs if name in (p.name, p.label, p.number)]
        if len(found) != 1:
            count = "several programs are" if found else "no program is"
            raise DumpError(f"{count} named {name!r}; there are {some(self.labels)}", path=self.path)
        return found[0]

    @lazy
    def _names(self) -> dict[str, tuple[Program, str]]:
        return {f"{label}/{name}": (program, name) for label, program in self.labels.items() for name in program.arrays}

    def _found(self, name: str) -> list[tuple[Program, str]]:
        """The arrays that a full or shortened name may mean."""
        if name in self._names:
            return [self._names[name]]
        head, _, tail = name.partition("/")
        found = [(p, tail) for p in self._called(head) if tail in p.arrays]
        found = found or [pair for whole, pair in self._names.items() if whole.endswith(f"/{name}")]
        return found or [(program, name) for program in self.programs if name in program.arrays]

    def _called(self, head: str) -> list[Program]:
        return [program for label, program in self.labels.items() if head in (label, program.label)]

    def _find(self, name: object) -> tuple[Program, str]:
        name = array_name(name, self._names)
        found = self._found(name)
        if len(found) == 1:
            return found[0]
        if not found:
            raise KeyError(f"no array is named {name!r}; {self._instead(name)}")
        labels = {program: label for label, program in self.labels.items()}
        raise KeyError(f"several arrays are named {name!r}: {some([f'{labels[p]}/{own}' for p, own in found])}")

    def _instead(self, name: str) -> str:
        """Suggestions for an unknown name; for a program without results, also why it has none."""
        head, _, tail = name.partition("/")
        called = self._called(head)
        if not called:
            return names_meant(name, self._names)
        own = [whole for whole, (program, _) in self._names.items() if program in called]
        meant = names_meant(tail, own) if own else f"{head} has no arrays"
        if own and "result" not in tail:
            return meant
        lacking = [f"missing: {what} ({why})" for p in called for what, why in p.missing if what.endswith("results")]
        return "; ".join([meant, *lacking])

    def __getitem__(self, name: str) -> Any:
        program, own = self._find(name)
        return program.arrays[own]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self._found(name)) == 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def missing(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """What is missing from each program, and why."""
        return {label: program.missing for label, program in self.labels.items() if program.missing}

    def __str__(self) -> str:
        files = sum(len(program.files) for program in self.programs) + len(self.others)
        counts = counted(len(self.programs), "program"), counted(files, "file"), counted(len(self), "array")
        lines = [f"{visible(str(self.path))}: {', '.join(counts)}"]
        lines += [str(program) for program in self.programs[:_SHOWN]]
        if len(self.programs) > _SHOWN:
            lines.append(f"... and {counted(len(self.programs) - _SHOWN, 'more program')}")
        if self.others:
            lines.append("1 file is not XLA's" if len(self.others) == 1 else f"{len(self.others)} files are not XLA's")
            lines += [visible(f"  {file.path.name}: {_kind_of(file)}") for file in self.others[:_SHOWN]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return visible(
            f"<Dump {self.path}: {counted(len(self.programs), 'program')}, {counted(len(self.others), 'other file')}>"
        )

    def _repr_html_(self) -> str:
        from strided.pictures.html import Section, card, preformatted, table  # only notebooks need them

        sections = []
        for program in self.programs[:_SHOWN]:
            names = list(program.arrays)[:_SHOWN]
            listed = table(
                ("array", "shape"),
                [(name, program.arrays.shape(name)) for name in names],
                len(program.arrays) - len(names),
            )
            notes = notes_of(program)
            content = (listed if names else "") + (preformatted("\n".join(notes)) if notes else "")
            title = f"{program.label}: {counted(len(program.files), 'file')}, {counted(len(program.arrays), 'array')}"
            sections.append(Section(title, content, is_open=len(self.programs) == 1))
        counts = (
            counted(len(self.programs), "program"),
            counted(len(self), "array"),
            counted(len(self.others), "other file"),
        )
        return card("Dump", str(self.path), [("", ", ".join(counts))], sections)


def open_dump(directory: str | os.PathLike[str], *, mapped: bool = True) -> Dump:
    """Open a folder of XLA's dumps.

    Parameters
    ----------
    directory : path
    mapped : bool, optional
        Whether the values of snapshots are mapped, as for `strided.read_snapshot`.

    Returns
    -------
    Dump
        ``.programs``, each with ``.module``, ``.allocations``, ``.snapshots`` and what is ``.missing``; itself a
        mapping of names to arrays.

    Raises
    ------
    OSError
        The folder cannot be listed or searched.

    Examples
    --------
    >>> import os, tempfile, numpy as np, strided as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "module_0000.jit_f.snapshot.1.pb")
    ...     sd.write_snapshot(name, [np.int8([1, 2])], np.int8(3))
    ...     dump = sd.open_dump(folder)
    ...     list(dump), dump["jit_f/argument0"].tolist()
    (['jit_f/argument0', 'jit_f/result0'], [1, 2])
    """
    name = path_text(directory, "directory")
    path = Path(name)
    try:
        listing = os.scandir(name)  # not of `path`: a Path takes an empty name for "."
    except OSError as error:
        shorten_name(error)
        raise
    with listing as entries:
        found = [_file_of(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
    return Dump(path, [file for file in found if file is not None], mapped=mapped)


def _file_of(entry: os.DirEntry[str]) -> DumpFile | None:
    """The dump file of a directory entry; None if it is none."""
    try:
        status = entry.stat()
    except OSError as error:
        if isinstance(error, PermissionError) and not entry.is_symlink():
            raise  # the folder can be listed, but not searched
        return None  # a broken link, or a loop of links
    name = parse_name(entry.name)
    if stat.S_ISDIR(status.st_mode):
        if name is None or name.number is None:
            return None
        folder = DumpName("folder", name.module, name.number, name.time, rest=name.rest)
        return DumpFile(Path(entry.path), folder, 0)
    # A FIFO or a device is listed without a parsed name; reading it raises an error.
    return DumpFile(Path(entry.path), name if stat.S_ISREG(status.st_mode) else None, status.st_size)


def _merged(groups: dict[_Key, list[DumpFile]]) -> dict[_Key, list[DumpFile]]:
    """The groups, with incomplete ones merged into the only program that they can belong to.

    Incomplete groups lack a module's name or number, or have only folders and other files, whose names lack a time
    stamp or have a computation's name in its place.
    """
    by_number: dict[tuple[str, int], list[_Key]] = defaultdict(list)
    by_name: dict[tuple[str, str], list[_Key]] = defaultdict(list)
    at_any_time: dict[tuple[int, str], list[_Key]] = defaultdict(list)
    found: dict[_Key, list[DumpFile]] = {}
    for key, files in groups.items():
        time, number, name = key
        if name and number >= 0:
            by_number[time, number].append(key)
            by_name[time, name].append(key)
            if any(file.kind not in ("folder", "other") for file in files):
                at_any_time[number, name].append(key)
                found[key] = files
    for key, files in groups.items():
        if key not in found:
            time, number, name = key
            if name:
                homes = by_name[time, name] if number < 0 else at_any_time[number, name]
            else:
                homes = by_number[time, number]
            home = homes[0] if len(homes) == 1 else key
            found[home] = [*found.get(home, []), *files]
    return found


def _kind_of(file: DumpFile) -> str:
    """What a file of an unknown name holds, by its content."""
    try:
        kind = recognise(file.path)
    except (*UNREADABLE, OSError) as error:
        return reason_of(error)
    return kind if kind in READERS or kind.startswith("np") else f"{kind}, {counted(file.size, 'byte')}"
