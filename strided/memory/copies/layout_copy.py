"""Copies that only change a layout, their causes and cures, as values that print themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex

from strided.dumps.hlo import Instruction
from strided.dumps.hlo.computation import Computation
from strided.escape import visible
from strided.layout import AnyShape, Layout, Shape
from strided.pictures.html import Section, card, table
from strided.runtime.argument_checks import string, whole
from strided.wording import counted, wrapped

#: The heads of a table of copies.
_HEADS = ("share", "bytes", "times", "copy", "before", "after", "cause", "cure")


@dataclass(frozen=True)
class Cause:
    """Whose layout forces a copy. Prints as a sentence.

    Attributes
    ----------
    kind : str
        ``"parameter"`` or ``"result"`` of the program, ``"collective"``, or ``"operation"``.
    name : str
        As the program calls it: an argument's name, ``"result"`` or ``"result 2"``, an instruction's name.
    instruction : Instruction
        The parameter, the root of the entry, or the operation.
    number : int or None
        Of the parameter or result, from 0.
    sentence : str
    """

    kind: str
    name: str
    instruction: Instruction
    number: int | None
    sentence: str

    def __str__(self) -> str:
        return visible(self.sentence)

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "instruction": self.instruction.name,
            "number": self.number,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Cure:
    """The layout of an argument or a result that would avoid a copy. Prints as the change in JAX.

    Attributes
    ----------
    kind, name, number
        ``"parameter"`` or ``"result"``, and which, as in `Cause`.
    shape : Shape
        What is passed or returned, in the new layout. Without tiles the compiler chooses them.
    shares : int or None
        Number of the result that takes the parameter's buffer, or of the parameter whose buffer the result takes: it
        needs the same layout.
    extra_bytes : int or None
        How much larger the argument or result becomes; None if the compiler chooses the tiles.
    certainty : str
        ``"computed"``, or ``"verified"`` if a compilation showed that the copy is gone.
    bytes_before, bytes_after : int or None
        Of a verified cure: bytes that all copies of the program move, without and with it.
    """

    kind: str
    name: str
    number: int
    shape: Shape
    shares: int | None = None
    extra_bytes: int | None = None
    certainty: str = "computed"
    bytes_before: int | None = None
    bytes_after: int | None = None

    @property
    def layout(self) -> Layout:
        """The new layout."""
        assert self.shape.layout is not None
        return self.shape.layout

    @property
    def format(self) -> str:
        """The call of ``jax.experimental.layout.Format`` that makes the layout."""
        layout = self.layout
        fields = [f"major_to_minor={layout.minor_to_major[::-1]}"]
        fields += [f"tiling={tuple(map(tuple, layout.tiles))}"] if layout.tiles else []
        bits = layout.element_size_in_bits
        fields += [f"sub_byte_element_size_in_bits={bits}"] if bits else []
        return f"Format(Layout({', '.join(fields)}), sharding)"

    @property
    def advice(self) -> str:
        """What to do with the `format`."""
        if self.kind == "parameter":
            shared = "" if self.shares is None else f"ask for result {self.shares}, which takes its buffer, and "
            return f"{shared}pass {self.name} as"
        shared = "" if self.shares is None else f"pass argument {self.shares}, whose buffer it takes, and "
        return f"{shared}ask for {self.name} as"

    @property
    def evidence(self) -> str:
        """The certainty, the outcome of a compilation, and the cost."""
        found = self.certainty
        if self.bytes_before is not None and self.bytes_after is not None and self.bytes_after != self.bytes_before:
            found += f": all copies together move {self.bytes_after:,} instead of {self.bytes_before:,} bytes"
        return found + (f"; takes {self.extra_bytes:,} bytes more" if self.extra_bytes and self.extra_bytes > 0 else "")

    def __str__(self) -> str:
        return visible(f"{self.advice} {self.format} ({self.evidence})")

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "number": self.number,
            "shape": str(self.shape),
            "format": self.format,
            "shares": self.shares,
            "extra_bytes": self.extra_bytes,
            "certainty": self.certainty,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
        }


@dataclass(frozen=True)
class LayoutCopy:
    """An instruction that only changes the layout of a value. Prints as a few lines.

    Attributes
    ----------
    instruction : Instruction
    before, after : Shape or TupleShape
        With their layouts.
    bytes : int
        Read and written by one execution, padding included.
    times : int
        Executions in one run of the program: the product of the trip counts of the loops around it, as far as they
        are known.
    times_known : bool
        Whether they all are.
    share : float
        Of all bytes that the program reads and writes, 0 to 1. An instruction inside a fusion has none: the fusion
        reads and writes.
    fusion : Instruction or None
        The outermost fusion that the instruction is part of.
    materialized : bool
        False if that fusion does more: then the copy costs no pass through memory of its own.
    cause : Cause
        Whose layout forces it.
    cure : Cure or None
        The layout of an argument or a result that would spare it.
    """

    instruction: Instruction
    before: AnyShape
    after: AnyShape
    bytes: int
    times: int
    times_known: bool
    share: float
    fusion: Instruction | None
    materialized: bool
    cause: Cause
    cure: Cure | None

    @property
    def computation(self) -> Computation:
        """The computation that contains the instruction."""
        return self.instruction.computation

    @property
    def total_bytes(self) -> int:
        """Bytes read and written in one run of the program."""
        return self.bytes * self.times

    def text(self, *, width: SupportsIndex = 100, indent: str = "") -> str:
        """The copy in a few lines of at most `width` columns, except for longer shapes, all but the first indented."""
        width, indent = whole(width, "width"), string(indent, "indent")
        inside = f" in {self.fusion.name}" + ("" if self.materialized else ", which does more") if self.fusion else ""
        lines = [f"{self.instruction.name}{inside}: {self._amount()}"]
        lines += [f"{self.before} -> {self.after}", f"cause: {self.cause}"]
        lines += [f"cure ({self.cure.evidence}): {self.cure.advice}"] if self.cure else []
        first, *others = (_lines(visible(line), width - len(indent) - 2) for line in lines)
        code = [f"  {self.cure.format}"] if self.cure else []  # in one piece, to be copied
        below = [*(part for other in others for part in other), *code]
        return f"\n{indent}  ".join(["\n".join(first), *below])

    def _amount(self) -> str:
        share = f" ({self.share:.1%})" if self.share else ""
        each = f", {self.times:,} times {self.bytes:,}" if self.times != 1 else ""
        return f"{self.total_bytes:,} bytes{share}{each}{'' if self.times_known else ', in a loop of unknown length'}"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return visible(f"<LayoutCopy {self.instruction.name}: {self.before} -> {self.after}, {self._amount()}>")

    def _repr_html_(self) -> str:
        return card("LayoutCopy", self.instruction.name, zip(_HEADS, _cells(self), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
        return {
            "instruction": self.instruction.name,
            "opcode": self.instruction.opcode,
            "computation": self.computation.name,
            "before": str(self.before),
            "after": str(self.after),
            "bytes": self.bytes,
            "times": self.times,
            "times_known": self.times_known,
            "share": self.share,
            "fusion": self.fusion.name if self.fusion else None,
            "materialized": self.materialized,
            "cause": self.cause.to_dict(),
            "cure": self.cure.to_dict() if self.cure else None,
        }


class LayoutCopies(tuple[LayoutCopy, ...]):
    """All copies of a module that only change a layout, the most expensive first. Prints as a report.

    Attributes
    ----------
    module_name : str
    program_bytes : int
        Bytes that all instructions of the program read and write, by their shapes; loops of unknown count are taken
        once.
    """

    module_name: str
    program_bytes: int

    def __new__(cls, copies: Iterable[LayoutCopy], module_name: str = "", program_bytes: int = 0) -> LayoutCopies:
        self = super().__new__(cls, copies)
        self.module_name, self.program_bytes = module_name, program_bytes
        return self

    @property
    def passes(self) -> tuple[LayoutCopy, ...]:
        """The copies that are a separate pass through memory, each once."""
        return tuple(copy for copy in self if copy.materialized and copy.fusion is None)

    @property
    def total_bytes(self) -> int:
        """Bytes that the copies read and write in one run of the program."""
        return sum(copy.total_bytes for copy in self.passes)

    def report(self, top: SupportsIndex = 10, *, width: SupportsIndex = 100) -> str:
        """The `top` most expensive copies, and a count of the others, in lines of at most `width` columns."""
        passes, top, width = self.passes, whole(top, "top", 0), whole(width, "width")
        inside = sum(not copy.materialized for copy in self)
        parts = [
            "\n".join(wrapped(self._title(), width, "", whole_words=True)),
            *(f"{n}. {copy.text(width=width, indent='   ')}" for n, copy in enumerate(passes[:top], 1)),
        ]
        if len(passes) > top:
            rest = sum(copy.total_bytes for copy in passes[top:])
            parts.append(f"{counted(len(passes) - top, 'more copy', 'more copies')}: {rest:,} bytes")
        if inside:
            apart = f"{inside} more inside fusions that do more: no pass through memory of their own"
            parts.append("\n".join(wrapped(apart, width, "", whole_words=True)))
        return "\n\n".join(parts)

    def _title(self) -> str:
        copies = counted(len(self.passes), "copy", "copies")
        title = f"{visible(self.module_name)}: {copies} only to change a layout"
        if not self.total_bytes:
            return title
        if not self.program_bytes:  # the program runs no computation that contains them
            return f"{title}, {self.total_bytes:,} bytes"
        share = self.total_bytes / self.program_bytes
        return f"{title}, {self.total_bytes:,} bytes, {share:.1%} of what the program moves"

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return visible(f"<LayoutCopies of {self.module_name}: {counted(len(self), 'copy', 'copies')}>")

    def _repr_html_(self) -> str:
        return card("LayoutCopies", self.module_name, (), [self.section(40)])

    def section(self, top: SupportsIndex) -> Section:
        """A section of a page with a table of the `top` most expensive of `passes`."""
        passes, top = self.passes, whole(top, "top", 0)
        rows = [_cells(copy) for copy in passes[:top]]
        return Section(self._title(), table(_HEADS, rows, len(passes) - len(rows)), is_open=True)

    def to_dict(self, top: SupportsIndex | None = None) -> dict[str, Any]:
        """The values for JSON: of the `top` most expensive copies, or of all."""
        top = None if top is None else whole(top, "top", 0)
        return {
            "module": self.module_name,
            "program_bytes": self.program_bytes,
            "copy_bytes": self.total_bytes,
            "copies": [copy.to_dict() for copy in self[:top]],
        }


def _cells(copy: LayoutCopy) -> tuple[object, ...]:
    times = f"{copy.times:,}" if copy.times_known else f"{copy.times:,}, or more"
    place = (f"{copy.share:.1%}", copy.bytes, times, copy.instruction.name)
    return (*place, copy.before, copy.after, copy.cause, copy.cure or "")


def _lines(text: str, width: int) -> list[str]:
    """A sentence in lines; causes and cures are indented from the second line."""
    hang = "  " if text.startswith(("cause:", "cure ")) else ""
    return wrapped(text, width, hang, whole_words=True)
