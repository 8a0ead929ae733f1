"""Plans carried out by kernels, in tasks that threads share.

An `Execution` belongs to the steps of a plan and knows no buffer. It serves again whenever these steps do, with their
tasks and tables ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strided import kernels
from strided.planning.offset_tables import moved
from strided.planning.plan import AxisRange, FillStep, NestStep, StagedCopy, Step, TaskRanges, VectorStep
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.cache import BoundedCache
from strided.runtime.threads import get_num_threads, run
from strided.transfer.region import empty_aligned

#: Bytes of the pattern that fills.
PATTERN_BYTES = 128
#: Blocks of a staged copy that are kept ready; one takes some kilobytes.
_MOST_BLOCKS = 512
#: Tasks of a step that are kept ready, and bytes of the tables of each, of which the first one is its own.
_MOST_TASKS, _TASK_TABLE_BYTES = 64, 1 << 14
#: Blocks of a staged copy repeat where they are shifted by a multiple of this.
_PHASE_BITS = 64

#: A copy from one buffer to another.
Copy: TypeAlias = Callable[[Bytes, Bytes], None]
#: A kernel with its options: with tables, it copies.
BoundKernel: TypeAlias = Callable[[tuple[Any, ...]], Copy]


class ElementFormat(NamedTuple):
    """How elements of fewer than eight bits lie in memory. Each step says how wide its elements are."""

    low_first: bool
    signed: bool


class Execution:
    """How steps are carried out, on any buffers and anywhere in them.

    Kernels are looked for when they are first needed: copies, too, raise `NotCompiled`.
    """

    def __init__(self, steps: tuple[Step, ...], source: ElementFormat, target: ElementFormat) -> None:
        self._works: list[_Call | _Shared | _Staged] = []
        for step in steps:
            if isinstance(step, StagedCopy):
                self._works.append(_Staged(step, source, target))
            elif isinstance(step, VectorStep | NestStep):
                streaming = _streams(step, step.bits)
                # A single task is done at once, with tables at hand.
                made = _call_of if len(list(islice(step.tasks(), 2))) == 1 else _Shared
                self._works.append(made(step, source, target, streaming))

    def at(self, shift: tuple[int, int]) -> Copy:
        """The copy from buffer to buffer, with `shift` bits added to the offsets of the steps on both sides."""
        copies = [work.at(shift) for work in self._works]
        if len(copies) == 1:
            return copies[0]

        def copy(source: Bytes, target: Bytes) -> None:
            for each in copies:
                each(source, target)

        return copy


class _Call(NamedTuple):
    """One call of a kernel, to be repeated elsewhere."""

    units: tuple[int, int]
    bound: BoundKernel
    tables: tuple[Any, ...]

    def at(self, shift: tuple[int, int]) -> Copy:
        """The call with `shift` bits added on both sides."""
        if shift == (0, 0):
            return self.bound(self.tables)
        units = shift[0] // self.units[0], shift[1] // self.units[1]
        first, *rest = self.tables
        if isinstance(first, np.ndarray):
            return self.bound((moved(first, *units), *rest))
        return self.bound((first + units[0], rest[0] + units[1], *rest[1:]))


def _call_of(step: VectorStep | NestStep, source: ElementFormat, target: ElementFormat, streaming: int) -> _Call:
    """The call of a step that is one task."""
    whole = tuple(AxisRange(0, axis.extent) for axis in step.axes)
    return _Call(step.units, _bound(step, source, target, streaming), step.arguments(step.tables(), whole))


class _Shared:
    """One kernel over a step of many tasks."""

    def __init__(
        self, step: VectorStep | NestStep, source: ElementFormat, target: ElementFormat, streaming: int
    ) -> None:
        self._step, self._tables = step, step.tables()
        self._bound = _bound(step, source, target, streaming)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        bound, step, tables = self._bound, self._step, self._tables
        units = shift[0] // step.units[0], shift[1] // step.units[1]
        # Python is slow while memory is copied, for its own things leave the caches: the tasks are kept.
        kept: list[tuple[tuple[Any, ...]]] = []

        def copy(source: Bytes, target: Bytes) -> None:
            nonlocal kept
            threads = get_num_threads() if step.divides else 1
            if kept:
                run(lambda own: bound(own)(source, target), kept, threads=threads)
                return
            made: dict[int, tuple[Any, ...]] = {}

            def task(place: int, parts: TaskRanges) -> None:
                own = step.arguments(tables, parts, units)
                made[place] = own if place < _MOST_TASKS and _bytes([own[0]]) <= _TASK_TABLE_BYTES else ()
                bound(own)(source, target)

            run(task, enumerate(step.tasks()), threads=threads)
            if all(made.values()) and _bytes(chain(*made.values())) <= _MOST_TASKS * _TASK_TABLE_BYTES:
                kept = [(made[place],) for place in range(len(made))]

        return copy


def _bytes(tables: Iterable[Any]) -> int:
    """Bytes of some tables, each counted once; a number is one of a single entry."""
    return sum({id(table): np.asarray(table).nbytes for table in tables}.values())


class _Staged:
    """Two or three kernels over a step, block by block."""

    def __init__(self, step: StagedCopy, source: ElementFormat, target: ElementFormat) -> None:
        self._step = step
        # Packed elements stay in the order they have.
        low_first = (source if step.bits[0] < 8 else target).low_first
        signed = source.signed and step.bits[1] >= 8
        staging = [ElementFormat(layout.bits >= 8 or low_first, signed) for layout in step.staging]
        self._formats = list(pairwise((source, *staging, target)))
        # Blocks repeat at other offsets: their tables are made once.
        self._known = BoundedCache[tuple[object, ...], list[list[_Call]]](_MOST_BLOCKS)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        first = list(islice(self._step.tasks(), 2))
        if len(first) == 1:
            return self._block(first[0], shift)

        # Threads wait for each other while Python prepares a block: the first conversion's blocks are kept.
        kept: tuple[list[Copy], bool] = [], False

        def copy(source: Bytes, target: Bytes) -> None:
            nonlocal kept
            ready, are_all = kept
            made = dict(enumerate(ready))

            def task(place: int, parts: TaskRanges = ()) -> None:
                block = made.get(place)
                if block is None:
                    moved = sum(part.source for part in parts), sum(part.target for part in parts)
                    block = self._block(parts, (shift[0] + moved[0], shift[1] + moved[1]))
                    if place < _MOST_BLOCKS:
                        made[place] = block
                block(source, target)

            tasks = ((place,) for place in range(len(ready))) if are_all else enumerate(self._step.tasks())
            run(task, tasks, threads=get_num_threads() if self._step.divides else 1)
            if len(ready) < len(made):
                kept = [made[place] for place in range(len(made))], len(made) < _MOST_BLOCKS

        return copy

    def _block(self, parts: TaskRanges, place: tuple[int, int]) -> Copy:
        """The copy of one block at `place`, in bits."""
        phase = place[0] % _PHASE_BITS, place[1] % _PHASE_BITS
        calls_kept, *stages = self._calls(parts, phase)
        ends = [place[0] - phase[0], *[0] * 2 * (len(stages) - 1), place[1] - phase[1]]
        shifts = list(zip(ends[::2], ends[1::2], strict=True))
        copies = [[call.at(shift) for call in calls] for shift, calls in zip(shifts, stages, strict=True)]
        kept = [call.at((place[1] - phase[1], 0)) for call in calls_kept]

        def copy(source: Bytes, target: Bytes) -> None:
            buffers = source, *(_blocks(len(stages) - 1) if len(stages) > 1 else ()), target
            for each in kept:
                each(target, buffers[-2])
            for (from_, to), stage in zip(pairwise(buffers), copies, strict=True):
                for each in stage:
                    each(from_, to)

        return copy

    def _calls(self, parts: TaskRanges, phase: tuple[int, int]) -> list[list[_Call]]:
        """The calls that keep what lies in words of the target besides, and those of all stages of a block.

        As if it had no shift but `phase`.
        """
        key = (phase, *(part[:2] for part in parts))
        calls = self._known.get(key)
        if calls is None:
            streaming = [0] * (len(self._formats) - 1) + [_streams(self._step, self._step.bits[1])]
            # Words of the target go to the last block as they are.
            calls = [[_call_of(step, *self._formats[-1][::-1], 0) for step in self._step.kept(parts, phase)]]
            calls += [
                [_call_of(step, *self._formats[k], streaming[k]) for step in steps]
                for k, steps in enumerate(self._step.stages(parts, phase))
            ]
            self._known.keep(key, calls)
        return calls


def _bound(step: VectorStep | NestStep, source: ElementFormat, target: ElementFormat, streaming: int) -> BoundKernel:
    return bound(step.kernel, step.widths, source, target, streaming)


def bound(
    name: str, widths: tuple[int, int], source: ElementFormat, target: ElementFormat, streaming: int = 0
) -> BoundKernel:
    """A kernel with its options: all its arguments but buffers and tables.

    `widths` are the bits of an element on both sides.

    Raises
    ------
    NotCompiled
        The kernel is not ready.
    """
    kernel, bits = kernels.wanted(name), min(widths)
    signed = int(source.signed and widths[0] < 8 == widths[1])
    orders = int(not source.low_first), int(not target.low_first)
    is_nest = name.startswith("nest")
    before: tuple[int, ...] = () if is_nest else (streaming,)
    behind: tuple[int, ...] = ()
    if name == "nest_bits":
        before = (*widths, *orders, signed)
    elif name == "unpack":
        before = (bits, signed, orders[0], streaming)
    elif name in ("pack", "pack_words"):
        before = (bits, orders[1], streaming)
    elif name == "deinterleave_bits":
        behind = (bits, signed, orders[0])
    elif name == "interleave_bits":
        behind = (bits, orders[1])
    elif name in kernels.PACKED_WORDS:
        behind = (orders[0],)
    elif name == "transpose_runs":
        behind = (bits // 8,)

    def with_tables(tables: tuple[Any, ...]) -> Copy:
        first = (*tables, *before)
        if is_nest or name == "copy":
            return lambda from_, to: kernel(from_, to, *first)
        return lambda from_, to: kernel(from_, to, *first, scratch(), *behind)

    return with_tables


def _streams(step: VectorStep | NestStep | StagedCopy, bits: int) -> int:
    """Whether the target is large enough to write its lines past the caches."""
    return int(step.elements * bits >= 8 * limits.current.stream_bytes)


_own = threading.local()


def scratch() -> Bytes:
    """This thread's scratch memory for kernels."""
    try:
        memory: Bytes = _own.scratch
    except AttributeError:
        memory = _own.scratch = empty_aligned(kernels.SCRATCH_BYTES)
    return memory


def _blocks(count: int) -> list[Bytes]:
    """This thread's memory for one or more blocks of a staged copy."""
    memory: Bytes | None = getattr(_own, "blocks", None)
    total = limits.current.staging_bytes
    if memory is None or memory.size < total:
        memory = _own.blocks = empty_aligned(total)
    size = total // count
    return [memory[k * size : (k + 1) * size] for k in range(count)]


def run_fill(steps: Sequence[Step], target: Bytes, pattern: Bytes) -> None:
    """Carry out the steps of a fill; `pattern` is one element, repeated.

    Raises
    ------
    NotCompiled
        A kernel is not ready. Nothing was written.
    """
    fills = [step for step in steps if isinstance(step, FillStep)]
    found = {step.kernel: kernels.wanted(step.kernel) for step in fills}
    size = sum(step.elements for step in fills)
    streaming = int(size >= limits.current.stream_bytes)

    def task(step: FillStep, first: int, loops: tuple[tuple[int, int], ...], run_bytes: int) -> None:
        tables = step.arguments(first, loops, run_bytes)
        if step.kernel == "fill":
            found[step.kernel](target, *tables, pattern, streaming)
        else:
            found[step.kernel](pattern, target, *tables)

    # A small fill is done before another thread has begun.
    threads = get_num_threads() if size > limits.current.shared_fill_bytes else 1
    run(task, ((step, *task) for step in fills for task in step.tasks()), threads=threads)
