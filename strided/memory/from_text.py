"""A report from a text of the compiler: rows of sizes, explained by shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from strided.dumps.hlo.instruction import callees_of
from strided.errors import DumpError, StridedError
from strided.layout import Shape, TupleShape
from strided.layout.parser import parse
from strided.layout.tuples import arrays_of
from strided.memory.buffers import Buffer, Source, has_tiles, unpadded_bytes_of
from strided.memory.explain_size import explanations
from strided.memory.forwarding import begun_by
from strided.memory.from_module import report_from_module
from strided.memory.padding_bound import Slot, covered, most_padding
from strided.memory.provenance import source_of
from strided.memory.report import MemoryReport, name_of_space
from strided.memory.usage_text import Row, Size, Space, UsageText
from strided.wording import counted, size_text

if TYPE_CHECKING:
    from strided.dumps.hlo import Instruction, Module

#: The most names that are listed for a buffer with several possible sources.
_MOST_SOURCES = 3
#: The most shapes of a row, and rows of a text, that are explained. No real text has more.
_MOST_SHAPES, _MOST_ROWS = 64, 20_000

#: Notes about the values of a module that are listed instead of the rows of a text.
_ORDERED = "Its order tells when they are in use"
_LOOSE = "It is not scheduled: the compiler fuses some of them, and copies others"


class _Stated(NamedTuple):
    """A value of the module that was given with the text."""

    shape: Shape
    instruction: Instruction


def report_from_text(
    found: UsageText, space: int, generation: str | None, module: Module | None = None, path: str | None = None
) -> MemoryReport:
    """The report of one memory space; of the text's only space if main memory is requested and the text lacks it."""
    notes = []
    if space not in found.spaces and len(found.spaces) == 1 and not space:
        space = next(iter(found.spaces))
        notes.append(f"the text speaks of {found.spaces[space].name} alone")
    own = found.spaces.get(space) or Space(space, name_of_space(space))
    if module is not None and found.module not in ("", module.name):
        notes.append(f"the text is about {found.module}, and the HLO about {module.name}")
    elif module is not None:
        report = _with_values_of(module, found, own, generation, notes)
        if report is not None:
            return report
    if own.total is None and not own.rows and not (found.has_tables and found.has_rows):
        raise DumpError(f"the text says nothing about memory space {space}", path=path)
    return _with_rows_of(found, own, generation, module, notes)


def _with_rows_of(
    found: UsageText, own: Space, generation: str | None, module: Module | None, notes: Sequence[str]
) -> MemoryReport:
    """The report of the rows of a text, one buffer each."""
    stated = _stated(module, own.number)
    rows = own.rows[:_MOST_ROWS]
    buffers = [_buffer(row, generation, stated, own.is_padded) for row in rows]
    total = own.total.bytes if own.total else sum(b.bytes for b in buffers)
    slots = [_slot(row, b) for row, b in zip(rows, buffers, strict=True)]
    unlisted = max(0, total - covered(slots))
    data = own.temporaries[1].least if own.temporaries else 0
    padding = min(most_padding(slots) + unlisted * own.is_padded, total - min(data, total))
    told = [*_of_totals(own), *_of_rows(found, own), *_of_others(found, own), *_of_buffers(found, own, buffers)]
    return MemoryReport(
        module=found.module or (module.name if module else ""),
        space=own.number,
        space_name=own.name,
        total_bytes=total,
        peak_bytes=total,
        padding_bytes=padding if own.rows else total,
        capacity=None if own.capacity is None else own.capacity.bytes,
        excess=own.excess_of(total),
        buffers=tuple(buffers),
        bounds=frozenset({"peak_bytes", "padding_bytes"} | (set() if own.total else {"total_bytes"})),
        rounded=_rounded(own),
        notes=(*notes, *told, *_of_unlisted(own, unlisted, total)),
    )


def _slot(row: Row, buffer: Buffer) -> Slot:
    # A buffer that no shape explains may be all padding.
    padding = buffer.padding_bytes if buffer.is_explained else buffer.bytes
    return Slot(row.table, row.offset, buffer.bytes, padding)


def _with_values_of(
    module: Module, found: UsageText, own: Space, generation: str | None, notes: Sequence[str]
) -> MemoryReport | None:
    """The report of a text that lists no buffers, with the values of the module; None if it has none in this space."""
    if own.total is None or found.has_rows:
        return None
    total, rounded = own.total.bytes, _rounded(own)
    what = "the tables of the text cannot be read" if found.has_tables else "the text lists no buffers"
    note = f"{what}: these are the values of the HLO. {_ORDERED if module.is_scheduled else _LOOSE}"
    report = report_from_module(module, own.number, generation, total=total, note=note)
    if not report.buffers:
        return None
    if not report.usage:
        report, rounded = replace(report, peak_bytes=total), rounded | {"padding_bytes"}
    return replace(
        report,
        module=found.module or module.name,
        space_name=own.name,
        capacity=None if own.capacity is None else own.capacity.bytes,
        excess=own.excess_of(total),
        rounded=rounded,
        notes=(*notes, *_of_totals(own), *_of_others(found, own), *report.notes),
    )


def _rounded(own: Space) -> frozenset[str]:
    """The attributes of the report that the text rounds, or that follow from rounded numbers."""
    figures = {"total_bytes": own.total, "capacity": own.capacity, "excess": own.excess}
    rounded = {name for name, size in figures.items() if size is not None and size.is_rounded}
    if own.excess is None and own.capacity is not None and own.total is not None:
        rounded |= {"excess"} if own.capacity.is_rounded or own.total.is_rounded else set()
    return frozenset(rounded)


def _of_totals(own: Space) -> Iterator[str]:
    """Notes about the totals."""
    if len(own.rows) > _MOST_ROWS:
        yield f"only the first {_MOST_ROWS:,} rows are read"
    if own.total is None:
        yield "the text gives no total: this is the sum of its rows"
    else:
        yield f"the total is the compiler's own{', rounded in the text' if own.total.is_rounded else ''}"
    if own.is_early:
        yield (
            "the compiler ended early, as the program cannot fit: the total is its estimate; with "
            "LIBTPU_INIT_ARGS=--xla_tpu_impure_oom_fast_exit_threshold=-1 it goes on, and its log lists the buffers"
        )
    if own.temporaries is not None:
        held, data = own.temporaries
        took = f"{size_text(held.bytes)}, and {size_text(data.bytes)} without padding"
        yield f"the compiler says that temporaries take {took}"


def _of_rows(found: UsageText, own: Space) -> Iterator[str]:
    """Notes about the rows, or why there are none."""
    if own.rows:
        yield "the text has no live ranges: the peak is at most the total, and padding at most what fits side by side"
    elif found.has_rows:
        yield "the text lists no buffers of this memory space"
    elif found.has_tables:
        yield "the tables of the text cannot be read: its lines begin in ways that are not understood"
    else:
        yield (
            "the text lists no buffers: the log of the compilation, or a dump, does; given the HLO beside it, this "
            "lists the program's values"
        )


def _of_others(found: UsageText, own: Space) -> Iterator[str]:
    """Notes about other memory spaces."""
    for one in found.spaces.values():
        if one is not own and one.capacity is not None:
            yield f"the text says that the program does not fit in {one.name}"


def _of_buffers(found: UsageText, own: Space, buffers: Sequence[Buffer]) -> Iterator[str]:
    """Notes about the listed buffers."""
    if any(len(b.shapes) > 1 for b in buffers):
        yield "the text prints no layouts: they follow from the sizes; several may fit"
    if unexplained := sum(not b.is_explained for b in buffers):
        yield f"no shape is known of {counted(unexplained, 'buffer')}: any of it may be padding"
    if own.unread:
        yield f"{counted(own.unread, 'row')} of the text left out: not understood"
    if own.left_out:
        yield f"{own.left_out:,} small values are left out of the text"
    if found.others:
        yield "the text holds more reports; this is the first"


def _of_unlisted(own: Space, unlisted: int, total: int) -> Iterator[str]:
    """Notes about bytes of the total that no row lists."""
    if own.rows and unlisted > total / 100:
        padding = ": any of it may be padding" if own.is_padded and own.temporaries is None else ""
        yield f"{size_text(unlisted)} of the total are in no buffer that is listed{padding}"


def _stated(module: Module | None, space: int) -> Mapping[str, list[_Stated]]:
    """The values of a module in one memory space by their shapes without layouts. Fused instructions make no values."""
    found: dict[str, list[_Stated]] = defaultdict(list)
    if module is None:
        return found
    fused = {c for i in module.instructions if begun_by(i.opcode) == "fusion" for c in callees_of(i)}
    for instruction in module.instructions:
        if instruction.computation in fused:
            continue
        for array in arrays_of(instruction.shape):
            if array.layout is not None and array.layout.memory_space == space and has_tiles(array):
                found[array.text(layout=False)].append(_Stated(array, instruction))
    return found


def _buffer(row: Row, generation: str | None, stated: Mapping[str, list[_Stated]], is_padded: bool) -> Buffer:
    texts = tuple(dict.fromkeys(row.shapes))
    named = [
        one for text in texts for one in stated.get(text, ()) if row.size.least <= one.shape.byte_size <= row.size.most
    ]
    fits = tuple(dict.fromkeys(one.shape for one in named)) or _explaining(texts, row.size, generation)
    sizes = [one.byte_size for one in fits if isinstance(one, Shape)]
    sizes = list(dict.fromkeys(n for n in sizes if row.size.least <= n <= row.size.most))
    size = sizes[0] if row.size.is_rounded and sizes else row.size.bytes
    parsed = () if fits else tuple(shape for text in texts if (shape := _parsed(text)) is not None)
    unpadded = _unpadded(row, fits, parsed, size)
    if row.size.is_rounded and not sizes:
        size = max(size, min(unpadded, row.size.most))
    makers = [one.instruction for one in named]
    parameters = [i for i in makers if i.opcode == "parameter" and i.computation.is_entry]
    shapes = fits or parsed[:1]
    return Buffer(
        name=row.name or f"table {row.table}, offset {row.offset}",
        kind=row.kind or ("argument" if parameters and len(parameters) == len(makers) else ""),
        bytes=size,
        unpadded_bytes=min(unpadded, size),
        shape=shapes[0] if shapes else None,
        shapes=shapes,
        is_rounded=row.size.is_rounded and len(sizes) != 1,
        is_explained=bool(shapes) or row.unpadded is not None or not is_padded,
        source=row.source or _joined(parameters or makers),
    )


def _explaining(texts: Sequence[str], size: Size, generation: str | None) -> tuple[Shape | TupleShape, ...]:
    """The shapes with layouts that explain a size, sorted by unpadded size, largest first."""
    # The first explanation of each text is the default layout, if that fits.
    explained = [explanations(text, size, generation) for text in texts[:_MOST_SHAPES]]
    explained.sort(key=lambda those: -max((unpadded_bytes_of(one) for one in those), default=0))
    fits = tuple(dict.fromkeys(one for those in explained for one in those))
    # A scalar may be in a slot of any size, so it explains the size only if nothing else does.
    return tuple(one for one in fits if not _is_small_scalar(one, size)) or fits


def _unpadded(row: Row, fits: Sequence[Shape | TupleShape], parsed: Sequence[Shape | TupleShape], size: int) -> int:
    """Bytes of a row without padding: of the first shape that fits, as the text says, or of its largest shape."""
    said = row.unpadded
    unpadded = unpadded_bytes_of(fits[0]) if fits else None
    if said is not None and (unpadded is None or not said.least <= unpadded <= said.most):
        return said.bytes
    if unpadded is not None:
        return unpadded
    table = None if size % 32 == 0 else size  # on TPU, tables are rounded up to 32 bytes
    return max((unpadded_bytes_of(shape, table) for shape in parsed), default=size)


def _is_small_scalar(shape: Shape | TupleShape, size: Size) -> bool:
    """Whether this is a shape of one element that is smaller than the size."""
    return isinstance(shape, Shape) and shape.size == 1 and shape.byte_size < size.least


def _joined(makers: Iterable[Instruction]) -> Source:
    """The common source of instructions; of several, one that lists the first names, of arguments if all are."""
    sources = [source for source in dict.fromkeys(map(source_of, makers)) if source]
    if len(sources) <= 1:
        return sources[0] if sources else Source()
    names = list(dict.fromkeys(source.argument or source.op_name for source in sources))
    more = ["..."] if len(names) > _MOST_SOURCES else []
    what = "argument " if all(source.argument for source in sources) else ""
    return Source(op_name=what + " or ".join([*names[:_MOST_SOURCES], *more]))


def _parsed(text: str) -> Shape | TupleShape | None:
    """The shape in a text; None if it is not a shape, or has no known size."""
    try:
        shape = parse(text)
        if isinstance(shape, Shape):
            _ = shape.byte_size
    except StridedError:
        return None
    return shape if isinstance(shape, (Shape, TupleShape)) else None
