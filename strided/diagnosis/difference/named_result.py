"""Results of comparing the arrays of two files or two runs by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex

from strided.diagnosis.difference.result import Difference
from strided.escape import visible
from strided.pictures.html import Section, card, preformatted
from strided.runtime.argument_checks import whole
from strided.wording import counted, wrapped

#: The most names, snapshots and values that a report shows.
_SHOWN = 20


@dataclass(frozen=True)
class ValueDifference:
    """The comparison of one array that both sides have; for two runs, of an argument or result.

    Attributes
    ----------
    name : str
        Its name in the mapping or in the dump: ``"jit_f/run0/argument1"``.
    instruction : str
        The instruction of the first run's module with this value; empty if unknown, or not from a run.
    difference : Difference or None
        None if the values cannot be compared.
    problem : str
        Why they cannot be compared.
    files : tuple of Path
        The snapshot of each run; empty if not from a run.
    """

    name: str
    instruction: str = ""
    difference: Difference | None = None
    problem: str = ""
    files: tuple[Path, ...] = ()

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


class _Report(ABC):
    """Base class of reports: the values that differ, in words, and the first of them with its map."""

    a: str | Path
    b: str | Path
    values: tuple[ValueDifference, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def first(self) -> ValueDifference | None:
        """The first common value that differs or cannot be compared; None if there is none."""
        return next(iter(self._differing), None)

    @property
    def _differing(self) -> list[ValueDifference]:
        return [value for value in self.values if not value.equal]

    @property
    @abstractmethod
    def _count(self) -> str:
        """How many values differ, in words."""

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """The lines of the report, without the map."""

    def text(self, width: SupportsIndex = 80) -> str:
        """The report, at most `width` columns wide, with the map of the first value that differs."""
        width = whole(width, "width")
        lines = []
        for line in self._lines():
            lines += wrapped(visible(line), width)
        if self.first is not None and self.first.difference is not None:
            lines += ["", self.first.difference.text(width)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        first = "" if self.first is None else f", first {self.first.name}"
        return visible(f"<{type(self).__name__} of {self.a} and {self.b}: {self._count}{first}>")

    def _repr_html_(self) -> str:
        sections = [Section("what differs", preformatted("\n".join(self._lines())), is_open=True)]
        if self.first is not None and self.first.difference is not None:
            sections.append(Section(f"first to differ: {_named(self.first)}", self.first.difference._repr_html_()))
        return card(type(self).__name__, f"{self.a} {self.b}", (), sections)

    def _dict(self) -> dict[str, Any]:
        return {
            "first": None if self.first is None else self.first.name,
            "values": [value.to_dict() for value in self.values],
            "only_in_a": list(self.only_in_a),
            "only_in_b": list(self.only_in_b),
        }

    def _lines_on_sides(self) -> Iterator[str]:
        for letter, names in (("a", self.only_in_a), ("b", self.only_in_b)):
            if names:
                more = f", ... {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                yield f"only in {letter}: {', '.join(names[:_SHOWN])}{more}"

    def _lines_on_values(self) -> Iterator[str]:
        differing = self._differing
        for value in differing[:_SHOWN]:
            found = value.difference
            how = value.problem if found is None else found.share_in_words
            yield f"  {_named(value)}: {how}"
        if len(differing) > _SHOWN:
            yield f"  ... {len(differing) - _SHOWN} more"
        if self.first is not None:
            yield f"first to differ: {_named(self.first)}"
            for letter, file in zip("ab", self.first.files, strict=False):
                yield f"  {letter}: {file}"


@dataclass(frozen=True, repr=False)
class ArraysDifference(_Report):
    """The comparison of the arrays of two mappings.

    Attributes
    ----------
    a, b : str
        Their names in reports.
    values : tuple of ValueDifference
        The common arrays, in the order of the first mapping.
    only_in_a, only_in_b : tuple of str
        Names that only one mapping has.
    """

    a: str
    b: str
    values: tuple[ValueDifference, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether both have the same names, and all arrays are equal."""
        return not (self._differing or self.only_in_a or self.only_in_b)

    @property
    def _count(self) -> str:
        return f"{len(self._differing):,} of {len(self.values):,} arrays differ"

    def to_dict(self) -> dict[str, Any]:
        """Everything, of types that JSON has."""
        return {"a": self.a, "b": self.b, "equal": self.equal, **self._dict()}

    def _lines(self) -> Iterator[str]:
        yield f"a: {self.a}"
        yield f"b: {self.b}"
        yield from self._lines_on_sides()
        yield self._count if self.values else "no name is in both"
        yield from self._lines_on_values()


@dataclass(frozen=True, repr=False)
class DumpDifference(_Report):
    """The comparison of two dump folders.

    Attributes
    ----------
    a, b : Path
        The folders.
    modules : mapping of str to str
        For each program, how the modules differ; empty if they do not.
    values : tuple of ValueDifference
        The common arguments and results in the order of computation, so that `first` belongs to the first instruction
        that differs.
    only_in_a, only_in_b : tuple of str
        Programs and values that only one folder has.
    unread : tuple of str
        The snapshots that cannot be read, whose values are not compared: folder, program, file and reason.
    """

    a: Path
    b: Path
    modules: Mapping[str, str] = field(hash=False)
    values: tuple[ValueDifference, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both folders hold the same modules and values, and all of them can be read."""
        return not (any(self.modules.values()) or self._differing or self.only_in_a or self.only_in_b or self.unread)

    @property
    def _count(self) -> str:
        unread = f", {counted(len(self.unread), 'snapshot')} cannot be read" if self.unread else ""
        return f"{len(self._differing)} of {len(self.values)} arguments and results differ{unread}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, of types that JSON has."""
        return {
            "a": str(self.a),
            "b": str(self.b),
            "equal": self.equal,
            "modules": dict(self.modules),
            **self._dict(),
            "unread": list(self.unread),
        }

    def _lines(self) -> Iterator[str]:
        yield f"a: {self.a}"
        yield f"b: {self.b}"
        for program, how in self.modules.items():
            yield f"{program}: the modules {how or 'are equal'}"
        yield from self._lines_on_sides()
        for problem in self.unread[:_SHOWN]:
            yield f"cannot be read: {problem}"
        if len(self.unread) > _SHOWN:
            yield f"... {len(self.unread) - _SHOWN} more cannot be read"
        nothing = "no value is in both folders: run the program with --xla_dump_hlo_snapshots"
        yield self._count if self.values or self.unread else nothing
        yield from self._lines_on_values()


def _named(value: ValueDifference) -> str:
    return f"{value.name} ({value.instruction})" if value.instruction else value.name
