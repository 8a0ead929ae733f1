"""Snapshots: the arguments and results of one run of a program.

XLA writes them in several forms:

* an ``HloSnapshot`` (``--xla_dump_hlo_snapshots``): the optimized module, arguments, result. It is written before the
  run, with an empty tuple as result, and again after it. A run that crashed or donated its arguments leaves the first;
* an ``HloUnoptimizedSnapshot`` (``--xla_dump_hlo_unoptimized_snapshots``): the module before optimizations, and the
  arguments of every partition; never results. A protobuf message, protobuf text, or *delimited*: the length of the
  message, the message with the sizes of the arguments, then the arguments in the runtime's own form.

Values are read on access, from the mapped file or by system calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeVar, overload

from strided.dumps.hlo import read_hlo
from strided.dumps.hlo.module import Module
from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.file_bytes import View, loaded
from strided.dumps.protobuf.shapes import ProgramShape, read_program_shape
from strided.dumps.protobuf.wire import Field
from strided.dumps.snapshots.format import FORMS, SNAPSHOT, UNOPTIMIZED, Outline, form_of, read_outline
from strided.dumps.source import (
    PROBE_BYTES,
    Origin,
    is_contents,
    is_text,
    naming_in_dump_errors,
    open_view,
    refuse_truncated,
    refuse_utf16,
)
from strided.errors import DumpError
from strided.escape import visible
from strided.files.paths import absolute_path
from strided.layout import AnyShape, TupleShape
from strided.runtime.argument_checks import one_of, whole
from strided.runtime.lazy import lazy
from strided.wording import counted, some

_CRASHED = "the run did not finish: XLA writes a snapshot before the run without a result, and again after it"
_DONATED = "the run did not finish, or it did and XLA could not read its donated arguments again to write the result"
_UNOPTIMIZED = "an unoptimized snapshot is written before the run and never holds results"
_ABSENT = "the file holds no result"

#: The field of a module that holds its name.
_NAME = 1

#: The most values that a printed sequence shows.
_SHOWN = 32

_T = TypeVar("_T")


class Values(Sequence[Any]):
    """Arguments or results of a run, by number, and by name if the module names them.

    A value is a LayoutArray, a tuple of values, or None for a token; it is read on first access. Pickling stores the
    snapshot as its own pickle does.
    """

    def __init__(
        self,
        what: str,
        literals: Sequence[Literal],
        names: Callable[[], tuple[str, ...]],
        refuse: Callable[[str, DumpError], DumpError],
        check: Callable[[], None],
        anew: Callable[[], Values],
    ) -> None:
        self._what, self._literals, self._read_names = what, literals, names
        self._refuse, self._check, self._anew = refuse, check, anew

    def __reduce__(self) -> tuple[Any, ...]:
        return self._anew, ()

    def __len__(self) -> int:
        return len(self._literals)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> Any:
        if isinstance(key, slice):
            return tuple(self[i] for i in range(len(self))[key])
        return self._ask(self._number(key), lambda literal: literal.value)

    @lazy
    def names(self) -> tuple[str, ...]:
        """The values' names in the module's entry computation; empty without a module.

        Raises
        ------
        DumpError
            The module cannot be read.
        """
        names = self._read_names()
        return names if len(names) == len(self) else ()

    @property
    def shapes(self) -> tuple[AnyShape, ...]:
        """XLA's shapes of all values. No value is read."""
        return tuple(self.shape(i) for i in range(len(self)))

    def shape(self, number: SupportsIndex | str) -> AnyShape:
        """XLA's shape of one value, by its number or name; the value is not read."""
        return self._ask(self._number(number), lambda literal: literal.shape)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of name and value; without names, of number and value."""
        return zip(self.names or map(str, range(len(self))), self, strict=True)

    def _number(self, key: SupportsIndex | str) -> int:
        if not isinstance(key, str):
            key = whole(key, f"the number of the {self._what}")
            try:
                return range(len(self))[key]
            except IndexError:
                raise IndexError(f"there is no {self._what} {key}: there are {len(self)}") from None
        if key not in self.names:
            raise KeyError(f"no {self._what} has the name {key!r}; there are {some(self.names, 'no names')}")
        return self.names.index(key)

    def _ask(self, number: int, ask: Callable[[Literal], _T]) -> _T:
        self._check()
        try:
            return ask(self._literals[number])
        except DumpError as error:
            raise self._refuse(f"{self._what} {number}", error) from error

    def __repr__(self) -> str:
        shown = [f"{i}: {self._shown(i)}" for i in range(min(len(self), _SHOWN))]
        more = [f"... {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return f"<{self._what}s {{{', '.join(shown + more)}}}>"

    def _shown(self, number: int) -> str:
        try:
            return str(self.shape(number))
        except DumpError:
            return "unreadable"


class Snapshot:
    """A snapshot, as returned by `read_snapshot`.

    Pickling stores the path, and unpickling reads the file again; if it was read from bytes, pickling stores these.

    Attributes
    ----------
    path : str or None
        The file; None for bytes.
    form : str
        One of those that `read_snapshot` takes, such as ``"HloSnapshot"``.
    platform : str
        The platform of the run; most writers leave it empty.
    """

    path: str | None
    form: str
    platform: str

    def __init__(self, path: str | None, outline: Outline, view: View, max_bytes: int | None = None) -> None:
        self.path, self.form, self.platform = path, outline.form, outline.platform
        self._outline, self._view, self._max_bytes = outline, view, max_bytes
        self._whole_path = "" if path is None else absolute_path(path)  # the working directory may change

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            return partial(read_snapshot, bytes(self._view), form=self.form), ()
        mapped = isinstance(self._view, memoryview)
        again = partial(read_snapshot, form=self.form, max_bytes=self._max_bytes, mapped=mapped)
        return again, (self._whole_path,)

    def _check(self) -> None:
        refuse_truncated(self._view, self.path)

    # The module.

    @lazy
    def module_proto(self) -> memoryview | None:
        """The bytes of the HloModuleProto; None if there is no module."""
        modules = self._outline.modules
        return loaded(wire.merged([module.value for module in modules])) if modules else None

    @lazy
    def module_name(self) -> str:
        """The module's name; empty without a module."""
        return self._module_field(_NAME, "", lambda field: field.text("HloModuleProto.name"))

    @lazy
    def module(self) -> Module | None:
        """The program's module, as from `read_hlo`; None if the snapshot has none.

        Raises
        ------
        DumpError
            The module cannot be read.
        """
        if self.module_proto is None:
            return None
        self._check()
        try:
            return read_hlo(bytes(self.module_proto))  # a copy, because parts of a module would keep the file mapped
        except DumpError as error:
            raise self._refuse_module(error) from error

    @lazy
    def program_shape(self) -> ProgramShape:
        """The shapes of the program's parameters and result, as far as the module has them."""
        return self._module_field(
            4,
            ProgramShape(),
            lambda field: read_program_shape(field.view("HloModuleProto.host_program_shape"), field.at),
        )

    @property
    def _donates(self) -> bool:
        """Whether the module donates parameters to results."""
        wanted = "HloModuleProto.input_output_alias"
        return self._module_field(8, 0, lambda field: len(field.view(wanted))) > 0

    def _module_field(self, number: int, missing: _T, read: Callable[[Field], _T]) -> _T:
        """What `read` returns for a field of the module: the last occurrence of the name, or a merged message."""
        if self.module_proto is None:
            return missing
        self._check()
        try:
            found: dict[int, Field] = {}
            for field in wire.fields(self.module_proto, "HloModuleProto"):
                if field.number == number == _NAME:
                    found[number] = field
                elif field.number == number:
                    wire.join(found, field, "HloModuleProto's message")
            return read(found[number]) if found else missing
        except DumpError as error:
            raise self._refuse_module(error) from error

    def _refuse_module(self, error: DumpError) -> DumpError:
        return self._refuse("the module", error, self._outline.modules[0].at)

    # Arguments and results. These are not cached, because they refer to the snapshot: in a reference cycle, its file
    # would stay open until garbage is collected, and Windows would not let it be replaced. Literals keep what was read.

    @property
    def partitions(self) -> tuple[Values, ...]:
        """The arguments of every partition, by parameter number."""
        return tuple(
            self._values("argument", literals, self._parameter_names, partial(_arguments_of, self, number))
            for number, literals in enumerate(self._outline.partitions)
        )

    @property
    def arguments(self) -> Values:
        """The arguments by parameter number, of the first partition if there are several."""
        return self.partitions[0]

    @lazy
    def _returned(self) -> Literal | None:
        found = self._outline.results
        self._check()
        return Literal.of_proto(wire.merged([result.value for result in found]), found[0].at) if found else None

    @lazy
    def _returned_shape(self) -> AnyShape | None:
        returned = self._returned
        self._check()
        try:
            return None if returned is None else returned.shape
        except DumpError as error:
            raise self._refuse("the result", error) from error

    @property
    def results(self) -> Values:
        """The results: the elements of a tuple, or the only one. Empty if there are none (see `results_missing`).

        Raises
        ------
        DumpError
            The result is not a literal.
        """
        if self._returned is None or self._returned_shape is None:
            literals: Sequence[Literal] = ()
        elif isinstance(self._returned_shape, TupleShape):
            literals = self._returned.elements
        else:
            literals = (self._returned,)
        return self._values("result", literals, self._result_names, partial(_results_of, self))

    @property
    def result(self) -> Any:
        """What the program returned, a value or a tuple of values; None if there is no result."""
        if self.results_missing is not None:
            return None
        return tuple(self.results) if isinstance(self._returned_shape, TupleShape) else self.results[0]

    @property
    def _absent(self) -> str:
        """Why a run's snapshot has no result, although XLA writes at least an empty tuple: it may be truncated."""
        have, wanted = len(self.arguments), len(self.program_shape.parameters)
        return _ABSENT if have >= wanted else f"{_ABSENT}, and {have} of {counted(wanted, 'argument')}: was it cut off?"

    @lazy
    def results_missing(self) -> str | None:
        """Why there are no results; None if there are, or if the module returns an empty tuple."""
        if self._returned_shape is None:
            return self._absent if self.form.startswith(SNAPSHOT) else _UNOPTIMIZED
        if len(self.results):
            return None
        intended = self.program_shape.result
        if isinstance(intended, TupleShape) and not len(intended):
            return None
        return _DONATED if self._donates else _CRASHED

    def _values(
        self, what: str, literals: Sequence[Literal], names: Callable[[], tuple[str, ...]], anew: Callable[[], Values]
    ) -> Values:
        return Values(what, literals, names, self._refuse, self._check, anew)

    def _refuse(self, what: str, error: DumpError, start: int = 0) -> DumpError:
        # Text has been converted: positions in it would mislead.
        position = None if self.form.endswith("text") or error.position is None else start + error.position
        return DumpError(f"{what}: {error.message}", path=self.path, position=position)

    def _parameter_names(self) -> tuple[str, ...]:
        return () if self.module is None else tuple(p.name for p in self.module.entry.parameters)

    def _result_names(self) -> tuple[str, ...]:
        if self.module is None or not self.module.entry.instructions:
            return ()
        root = self.module.entry.root
        return tuple(root.operand_names) if root.opcode == "tuple" else (root.name,)

    def __repr__(self) -> str:
        try:
            missing = "" if self.results_missing is None else f" ({self.results_missing})"
            name, results = self.module_name or "no module", f"{counted(len(self.results), 'result')}{missing}"
        except DumpError as error:
            name, results = "a damaged file", error.message
        return visible(f"<{self.form} of {name}: {counted(len(self.arguments), 'argument')}, {results}>")

    def _repr_html_(self) -> str:
        from strided.pictures.html import Section, card, table  # only notebooks need them

        sections = []
        for what, values in (("argument", self.arguments), ("result", self.results)):
            rows = [(number, values._shown(number)) for number in range(min(len(values), _SHOWN))]
            listed = table(("", "shape"), rows, len(values) - len(rows))
            sections.append(Section(counted(len(values), what), listed, is_open=len(rows) <= 8))
        missing = [("missing", self.results_missing)] if self.results_missing else []
        return card(self.form, self.module_name or "no module", missing, sections)


def _arguments_of(snapshot: Snapshot, partition: int) -> Values:
    return snapshot.partitions[partition]


def _results_of(snapshot: Snapshot) -> Values:
    return snapshot.results


def read_snapshot(
    source: Origin, *, form: str | None = None, max_bytes: SupportsIndex | None = None, mapped: bool = True
) -> Snapshot:
    """Read a snapshot that XLA wrote: the arguments and results of one run.

    Parameters
    ----------
    source : path, buffer or str
        It may be compressed by gzip or Zstandard. A str of several lines is the text itself.
    form : str, optional
        The form, if it is not recognised: ``"HloSnapshot"``, ``"HloUnoptimizedSnapshot"``, ``"delimited
        HloUnoptimizedSnapshot"``, ``"HloSnapshot text"`` or ``"HloUnoptimizedSnapshot text"``.
    max_bytes : int, optional
        Limit for decompressed contents; by default 1 GiB for text, 2 GiB for anything else.
    mapped : bool, optional
        By default values are views of the mapped file: truncating it during a read kills the process. If False, each
        value is read into memory on access, and truncation is an error.

    Raises
    ------
    DumpError
        The source is no snapshot, or damaged. If only a value is damaged, the others are readable.
    OSError
        The file cannot be opened.
    ValueError
        `form` is unknown.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from strided import write_snapshot
    >>> file = io.BytesIO()
    >>> write_snapshot(file, [np.float32([1, 2]), np.int8(3)], np.float32([4, 5]))
    >>> snapshot = read_snapshot(file.getvalue())
    >>> snapshot.arguments[0]
    LayoutArray([1., 2.], dtype=float32, f32[2]{0})
    >>> np.asarray(snapshot.results[0]).tolist()
    [4.0, 5.0]
    """
    if isinstance(source, str) and is_contents(source, lambda line: False):
        source = source.encode("utf-8", "backslashreplace")
    max_bytes = None if max_bytes is None else whole(max_bytes, "max_bytes")
    view, path = open_view(source, max_bytes=max_bytes, mapped=mapped)
    if form is not None:
        one_of(form, FORMS, "form")
    with naming_in_dump_errors(path):
        guess = form or form_of(view)
        if guess is None:
            refuse_utf16(loaded(view[:PROBE_BYTES]), path)
            raise _unknown(view)
        return Snapshot(path, read_outline(view, guess), view, max_bytes)


def _unknown(view: View) -> DumpError:
    """The error for bytes of no known form."""
    if not len(view):
        return DumpError("the file is empty; a snapshot was expected")
    head = loaded(view[:PROBE_BYTES])
    if ord('"') < head[0] < 0x7F and is_text(head):  # the tags of a snapshot are smaller
        return DumpError(f"a text, but neither an {SNAPSHOT} nor an {UNOPTIMIZED}; strided.read_dump reads other dumps")
    try:
        deque(wire.fields(view, SNAPSHOT), maxlen=0)
    except DumpError as error:
        return DumpError(f"no snapshot, or a damaged one: {error.message}", position=error.position)
    return DumpError("a protobuf message, but no snapshot; strided.read_hlo reads modules")
