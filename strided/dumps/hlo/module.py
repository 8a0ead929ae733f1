"""An HLO module with queries.

Text and proto of a program give equal modules. `attributes` are texts as XLA prints them, by name and in XLA's order;
other properties (`Instruction.metadata`, `Module.aliases`, ...) are values. Both are made on demand: values are parsed
from a text's attributes, attributes are printed from a proto's values.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, SupportsIndex

from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import Alias, Donor, EntryLayout, SourceTables, Unparsed
from strided.dumps.hlo.instruction import Instruction, memory_spaces
from strided.dumps.hlo.largest import largest
from strided.dumps.hlo.proto_header import ProtoHeader
from strided.dumps.hlo.shape_inference import left_out
from strided.dumps.hlo.text_header import TextHeader
from strided.errors import DumpError, DumpWarning, warn
from strided.escape import visible
from strided.layout import AnyShape, Layout, parser
from strided.runtime.argument_checks import string, whole
from strided.runtime.lazy import lazy, state_without_lazy
from strided.wording import counted

#: The most rows of each table of a printed module.
_SHOWN = 12
#: The most characters of the result's shape in a summary: a training step returns hundreds of arrays.
LONGEST_SHAPE = 160
#: Text before and after the header's attributes that have lines of their own.
_AROUND = {"origin_recovery_table": (" ", "\n"), "debug_attributes": ("\n", "")}
#: The most unparsed lines that the warning lists.
_NAMED = 5


class Module:
    """An HLO module. Prints as a summary; `to_text` gives its HLO.

    Attributes
    ----------
    name : str
    computations : tuple of Computation
        In the text's order: callees before callers.
    entry : Computation
    is_scheduled : bool
        Whether the order of the instructions is the order in which they run.
    replica_count, num_partitions : int
        How many replicas and partitions run the program; 1 if the dump does not say, as in most protos.
    unread : tuple of Unparsed
        The lines that could not be parsed; a DumpWarning reported them.
    renamed : mapping of str to str
        New names of renamed computations, by the name in the text.
    path : str or None
    """

    name: str
    computations: tuple[Computation, ...]
    entry: Computation
    is_scheduled: bool
    replica_count: int
    num_partitions: int
    unread: tuple[Unparsed, ...]
    renamed: Mapping[str, str]
    path: str | None

    def __init__(
        self,
        name: str,
        header: TextHeader | ProtoHeader,
        computations: Iterable[Computation],
        entry: Computation,
        *,
        renamed: Mapping[str, str] = MappingProxyType({}),
        unread: Iterable[Unparsed] = (),
        path: str | None = None,
    ) -> None:
        self.name, self._header, self.renamed = name, header, renamed
        self.is_scheduled, self.replica_count = header.is_scheduled, header.replica_count
        self.num_partitions = header.num_partitions
        self.computations, self.entry = tuple(computations), entry
        self.unread, self.path = tuple(sorted(unread, key=lambda part: part.line or 0)), path
        entry.is_entry = True
        for computation in self.computations:
            computation.module = self
        if self.unread:
            self._warn()

    def __getstate__(self) -> dict[str, Any]:
        return state_without_lazy(self)

    def _warn(self) -> None:
        count, named = len(self.unread), "; ".join(map(str, self.unread[:_NAMED]))
        what = ("line was" if count == 1 else "lines were") + " not understood and kept as text"
        if self.unread[0].line is None:
            what = ("instruction has" if count == 1 else "instructions have") + " a shape that cannot be read"
        place = f"{self.path}: " if self.path else ""
        warn(f"{place}{count} {what}: {named}{'; ...' if count > _NAMED else ''}", DumpWarning)

    # ---- the header -------------------------------------------------------------------------------------------------

    @lazy
    def attributes(self) -> Mapping[str, str]:
        """The text of each attribute of the header, by name, in order."""
        return MappingProxyType(dict(self._header.attributes))

    @lazy
    def entry_layout(self) -> EntryLayout:
        """The shapes and layouts of the entry's parameters and result.

        They come from the header, or else from the entry's parameters and root.

        Raises
        ------
        DumpError
            Shapes that cannot be read.
        """
        if (said := self._header.entry_layout) is not None:
            return said
        shapes = [instruction.shape for instruction in (*self.parameters, self.entry.root)]
        if None in shapes:
            raise DumpError("neither the header nor the entry says the shapes of all parameters", path=self.path)
        *parameters, result = [shape for shape in shapes if shape is not None]
        return EntryLayout(tuple(parameters), result)

    @lazy
    def aliases(self) -> tuple[Alias, ...]:
        """Results that share a parameter's buffer (``input_output_alias``)."""
        return self._header.aliases

    @lazy
    def donors(self) -> tuple[Donor, ...]:
        """Parameters whose buffers any result may reuse (``buffer_donor``)."""
        return self._header.donors

    @property
    def frontend_attributes(self) -> dict[str, str]:
        """The frontend's own attributes, by name."""
        return self._header.frontend_attributes

    @lazy
    def tables(self) -> SourceTables:
        """Source files, functions and stack frames that metadata refer to."""
        return self._header.tables

    # ---- what it holds ----------------------------------------------------------------------------------------------

    @lazy
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions, computation by computation."""
        return tuple(chain.from_iterable([computation.instructions for computation in self.computations]))

    @lazy
    def shapes_left_out(self) -> Mapping[Instruction, AnyShape]:
        """Inferred shapes of instructions whose text leaves them out."""
        missing = (instruction for instruction in self.instructions if not instruction.has_shape)
        return left_out(missing, lambda instruction: instruction.shape if instruction.has_shape else None)

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """The entry's parameters, sorted by number."""
        return self.entry.parameters

    @property
    def results(self) -> tuple[Instruction, ...]:
        """The instructions whose values are the entry's results: the operands of a tuple at the root, else the root."""
        root = self.entry.root
        return root.operands if root.opcode == "tuple" else (root,)

    def computation(self, name: str) -> Computation:
        """The computation of that name, with or without a percent sign.

        Raises
        ------
        DumpError
            There is none.
        """
        found = self._computations_by_name.get(string(name, "name").removeprefix("%"))
        if found is None:
            raise DumpError(f"the module {self.name!r} holds no computation {name!r}", path=self.path)
        return found

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name, with or without a percent sign.

        Names are unique in a module, except in dumps printed for fingerprints, for which the entry is searched first.

        Raises
        ------
        DumpError
            There is none.
        """
        found = self._by_name.get(string(name, "name").removeprefix("%"))
        if found is None:
            raise DumpError(f"the module {self.name!r} holds no instruction {name!r}", path=self.path)
        return found

    def find(
        self,
        name: str | None = None,
        *,
        opcode: str | None = None,
        shape: str | AnyShape | None = None,
        memory_space: SupportsIndex | None = None,
    ) -> list[Instruction]:
        """The instructions that meet all given conditions, in the module's order.

        Parameters
        ----------
        name, opcode : str
            An exact name, or a pattern with ``*`` and ``?``: ``"fusion.*"``, ``"copy-*"``.
        shape : str or Shape
            Without a layout, it matches any layout: ``"f32[8,128]"``.
        memory_space : int
            The memory space of the result, or of any part of a tuple.

        Raises
        ------
        NotationError
            Text that is no shape.
        LayoutError
            A layout alone.
        TypeError
            A name or an opcode that is no text, a shape that is neither text nor a shape, a memory space that is no
            integer.

        Examples
        --------
        >>> from strided import read_hlo
        >>> module = read_hlo("HloModule\\nENTRY e {\\n x = f32[2] parameter(0)\\n ROOT y.1 = f32[2] negate(x)\\n}\\n")
        >>> [i.name for i in module.find("y.*")], [i.name for i in module.find(opcode="parameter")]
        (['y.1'], ['x'])
        """
        found = self.instructions if name is None else self._named(string(name, "name").removeprefix("%"))
        if opcode is not None:
            fits = _test(string(opcode, "opcode"))
            found = [i for i in found if fits(i.opcode)]
        if shape is not None:
            same = _shape_test(shape)
            found = [i for i in found if same(i.shape)]
        if memory_space is not None:
            space = whole(memory_space, "memory_space")
            found = [i for i in found if space in memory_spaces(i.shape)]
        return list(found)

    @lazy
    def _computations_by_name(self) -> dict[str, Computation]:
        return {c.name: c for c in reversed(self.computations)}

    @lazy
    def _by_name(self) -> dict[str, Instruction]:
        found = self.instructions[::-1]
        return {i.name: i for i in found} | {i.name: i for i in found if i.computation.is_entry}

    def _named(self, name: str) -> Sequence[Instruction]:
        if not _is_pattern(name) and len(self._by_name) == len(self.instructions):
            return [self._by_name[name]] if name in self._by_name else []
        fits = _test(name)
        return [i for i in self.instructions if fits(i.name)]

    # ---- printing ---------------------------------------------------------------------------------------------------

    def to_text(
        self, *, indent: str = "", print_large_constants: bool = False, sort_backend_config: bool = False
    ) -> str:
        """The module as HLO text: lines as they were read, or a proto as XLA prints it.

        Parameters
        ----------
        indent : str
            Text before every line, except those of the source tables.
        print_large_constants : bool
            Only for protos: print all elements of tuples and of constants with more than ten elements.
        sort_backend_config : bool
            Only for protos: sort the keys of JSON objects in ``backend_config``, as newer compilers do in dumps, and
            `jax.stages.Compiled.as_text` for CPU and GPU programs.

        Raises
        ------
        UnsupportedError
            An option that is only for protos is set for a module read from text.
        """
        indent = string(indent, "indent")
        options = {"print_large_constants": print_large_constants, "sort_backend_config": sort_backend_config}
        header = f"{indent}HloModule {self.name}"
        for name, text in self.attributes.items():
            before, behind = _AROUND.get(name, (" ", ""))
            header += f",{before}{name}={text}{behind}"
        # A body that was printed inside its caller has no signature, and is printed there again.
        shown = [computation for computation in self.computations if computation.signature or not computation.name]
        computations = (computation.printed(indent, **options) for computation in shown)
        return "".join(f"{part}\n\n" for part in (header, str(self.tables), *computations) if part)

    def _counts(self) -> str:
        """The numbers of its parts, in words."""
        counts = [*counts_in_words(self), *(["scheduled"] if self.is_scheduled else [])]
        runs = (self.replica_count, "replicas"), (self.num_partitions, "partitions")
        return ", ".join([*counts, *(f"{n} {what}" for n, what in runs if n > 1)])

    def __str__(self) -> str:
        lines = [f"HloModule {self.name}: {self._counts()}", f"entry {self.entry.name}"]
        lines += _table("parameters", [(str(n), i.name, str(i.shape)) for n, i in enumerate(self.parameters)])
        lines += _table("result", [("", self.entry.root.name, visible(str(self.entry.root.shape), LONGEST_SHAPE))])
        opcodes = Counter(i.opcode for i in self.instructions).most_common()
        lines += _table("opcodes", [(str(n), opcode, "") for opcode, n in opcodes])
        if self.unread:
            lines += ["unread", *(f"  {line}" for line in self.unread[:_SHOWN])]
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return visible(f"<Module {self.name}: {', '.join(counts_in_words(self))}>")

    def _repr_html_(self) -> str:
        from strided.pictures.html import Section, card, table  # only notebooks need them

        parameters = [(k, p.name, p.shape) for k, p in enumerate(self.parameters[:_SHOWN])]
        values = largest(self.instructions)
        sizes = [(v.name, v.shape, v.byte_size, v.unpadded_byte_size) for v in values[:_SHOWN]]
        sections = [
            Section(
                counted(len(self.parameters), "parameter"),
                table(("", "name", "shape"), parameters, len(self.parameters) - len(parameters)),
                is_open=len(parameters) <= 8,
            ),
            Section(
                "largest values",
                table(("name", "shape", "bytes", "unpadded bytes"), sizes, len(values) - len(sizes)),
            ),
        ]
        rows = [("", self._counts()), ("entry", self.entry.name), ("result", self.entry.root.shape)]
        return card("HloModule", self.name, rows, sections)


def counts_in_words(module: Module) -> tuple[str, str]:
    """The numbers of computations and of instructions, in words."""
    return counted(len(module.computations), "computation"), counted(len(module.instructions), "instruction")


def _is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[")


def _test(text: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(text)).match if _is_pattern(text) else text.__eq__


def _shape_test(wanted: str | AnyShape) -> Callable[[AnyShape | None], bool]:
    if not isinstance(wanted, str):
        parser.any_shape(wanted)
        return lambda shape: shape == wanted
    parsed = parser.parse(wanted)
    if "{" in wanted or isinstance(parsed, Layout):
        return lambda shape: shape == parsed
    bare = parsed.text(layout=False)
    known: dict[int, tuple[AnyShape | None, bool]] = {}  # by id(): equal shapes are mostly one object

    def same(shape: AnyShape | None) -> bool:
        answer = known.get(id(shape))
        if answer is None:
            answer = known[id(shape)] = shape, shape is not None and shape.text(layout=False) == bare
        return answer[1]

    return same


def _table(title: str, rows: list[tuple[str, str, str]]) -> list[str]:
    shown = rows[:_SHOWN]
    widths = [max((len(row[k]) for row in shown), default=0) for k in range(2)]
    lines = [f"  {row[0]:>{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in shown]
    more = [f"  ... {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    return [title, *lines, *more]
