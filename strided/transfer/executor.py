"""Executes plans with kernels, in tasks that threads share.

An `Execution` belongs to the steps of a plan and to no buffer. It is used again whenever these steps are, with the same
tasks and tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeAlias

from strided import kernels
from strided.kernels.records import BLOCK, SOURCE, TARGET
from strided.planning.kernel_kinds import KINDS, Form
from strided.planning.offset_tables import Tables
from strided.planning.plan import PHASE_BITS, FillStep, NestStep, StagedCopy, Step, VectorStep
from strided.planning.runs import Loop
from strided.planning.task_ranges import AxisRange, TaskRanges, first_ranges
from strided.runtime import limits
from strided.runtime.aliases import Bytes
from strided.runtime.cache import BoundedCache
from strided.transfer.program import (
    SCRATCH,
    Call,
    Copy,
    ParallelCopy,
    Task,
    Template,
    program_of,
    scratch,
    single_task_copy,
    template_of,
)

#: Bytes of the pattern of a fill: the kernel `fill` reads 64 bytes from up to fifteen bytes behind its start.
PATTERN_BYTES = 128
#: Templates that are cached for a step, and for a staged copy, whose tables are small.
_MOST_TEMPLATES, _MOST_BLOCKS = 64, 512

#: A kernel with its options bound: called with tables, it returns a copy.
BoundKernel: TypeAlias = Callable[[tuple[Any, ...]], Copy]


class ElementFormat(NamedTuple):
    """How packed elements lie in a byte. Their width is in the steps."""

    low_first: bool
    signed: bool


class Execution:
    """Executes steps, on any buffers and at any shift in them.

    Kernels are looked up when they are first needed: copies raise `NotCompiled`.
    """

    def __init__(self, steps: tuple[Step, ...], source: ElementFormat, target: ElementFormat) -> None:
        # All steps of a fill are shared by threads at once.
        fills = [step for step in steps if isinstance(step, FillStep)]
        self._groups: list[_SingleTaskSteps | _SharedStep | _StagedStep | _Fill] = [_Fill(fills)] if fills else []
        for step in steps:
            if isinstance(step, StagedCopy):
                self._groups.append(_StagedStep(step, source, target))
            elif isinstance(step, VectorStep | NestStep):
                own = _FormattedStep(step, source, target, _streams(step, step.bits))
                last = self._groups[-1] if self._groups else None
                if not _is_one_task(step):
                    self._groups.append(_SharedStep(own))
                elif isinstance(last, _SingleTaskSteps):
                    # Consecutive steps of one task each are combined into one task.
                    last.steps.append(own)
                else:
                    self._groups.append(_SingleTaskSteps([own]))

    def at(self, shift: tuple[int, int]) -> Copy:
        """The copy from buffer to buffer, with `shift` bits added to the offsets of the steps on both sides."""
        copies = [group.at(shift) for group in self._groups]
        if len(copies) == 1:
            return copies[0]

        def copy(source: Bytes, target: Bytes) -> None:
            for each in copies:
                each(source, target)

        return copy


class _FormattedStep(NamedTuple):
    """A step with the element formats and options of its kernel calls."""

    step: VectorStep | NestStep
    source: ElementFormat
    target: ElementFormat
    streaming: int

    def call(
        self,
        tables: Tables,
        parts: TaskRanges,
        shift: tuple[int, int] = (0, 0),
        buffers: tuple[int, int] = (SOURCE, TARGET),
    ) -> Call:
        """The call for a range of each axis, with offsets shifted by `shift` bits on both sides."""
        step = self.step
        units = shift[0] // step.units[0], shift[1] // step.units[1]
        complete = _arguments(step.kernel, step.widths, self.source, self.target, self.streaming)
        return Call(step.kernel, complete(step.arguments(tables, parts, units), SCRATCH), buffers, step.units)

    def whole(self, shift: tuple[int, int], buffers: tuple[int, int] = (SOURCE, TARGET)) -> Call:
        """The call for the whole step."""
        parts = first_ranges(axis.extent for axis in self.step.axes)
        return self.call(self.step.tables(), parts, shift, buffers)


def _split_shift(shift: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """A shift, on both sides, split into the bits within a word and the bits of whole words."""
    phase = shift[0] % PHASE_BITS, shift[1] % PHASE_BITS
    return phase, (shift[0] - phase[0], shift[1] - phase[1])


def _without_shifts(parts: TaskRanges) -> tuple[TaskRanges, tuple[int, int]]:
    """The ranges of a task without shifts, and the sums of the shifts. Tasks of equal ranges share a template."""
    source = target = 0
    alike = []
    for start, stop, from_, to in parts:
        alike.append(AxisRange(start, stop))
        source, target = source + from_, target + to
    return tuple(alike), (source, target)


def _is_one_task(step: VectorStep | NestStep | StagedCopy) -> bool:
    """Whether a step is a single task."""
    return len(list(islice(step.tasks(), 2))) == 1


class _Templates(BoundedCache[Any, Template]):
    """Templates, by what tasks with the same template have in common."""

    __slots__ = ()

    def of(self, alike: Any, calls: Callable[[], list[Call]]) -> Template:
        """The cached template, or a new one of `calls`."""
        return self.get(alike) or self.keep(alike, template_of(calls()))


class _SingleTaskSteps:
    """Steps of a single task each, one after the other."""

    def __init__(self, steps: list[_FormattedStep]) -> None:
        self.steps = steps
        self._known = _Templates(_MOST_TEMPLATES)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The copy by these steps, with offsets shifted by `shift` bits on both sides."""
        phase, there = _split_shift(shift)
        template = self._known.of(phase, lambda: [step.whole(phase) for step in self.steps])
        return single_task_copy(program_of([Task(template, there)]))


class _SharedStep:
    """One step of many tasks."""

    def __init__(self, own: _FormattedStep) -> None:
        self._own, self._tables = own, own.step.tables()
        self._known = _Templates(_MOST_TEMPLATES)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        step = self._own.step

        def tasks() -> Iterator[Task]:
            for parts in step.tasks():
                alike, moved = _without_shifts(parts)
                template = self._known.of(alike, partial(self._calls, alike))
                there = shift[0] + step.units[0] * moved[0], shift[1] + step.units[1] * moved[1]
                yield Task(template, there)

        return ParallelCopy(tasks, _task_bytes(step), (), step.divides)

    def _calls(self, parts: TaskRanges) -> list[Call]:
        return [self._own.call(self._tables, parts)]


class _StagedStep:
    """A staged copy: two or three kernels, block by block."""

    def __init__(self, step: StagedCopy, source: ElementFormat, target: ElementFormat) -> None:
        self._step = step
        # Staging keeps the order of packed elements in their bytes.
        low_first = (source if step.bits[0] < 8 else target).low_first
        signed = source.signed and step.bits[1] >= 8
        staging = [ElementFormat(layout.bits >= 8 or low_first, signed) for layout in step.staging]
        self._formats = list(pairwise((source, *staging, target)))
        # Blocks that differ only in their offsets share tables.
        self._known = _Templates(_MOST_BLOCKS)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        step = self._step

        def tasks() -> Iterator[Task]:
            for parts in step.tasks():
                alike, moved = _without_shifts(parts)
                phase, there = _split_shift((shift[0] + moved[0], shift[1] + moved[1]))
                yield Task(self._known.of((phase, alike), partial(self._calls, alike, phase)), there)

        if _is_one_task(step):
            return single_task_copy(program_of(list(tasks())), step.block_bytes)
        return ParallelCopy(tasks, _task_bytes(step), step.block_bytes, step.divides)

    def _calls(self, parts: TaskRanges, phase: tuple[int, int]) -> list[Call]:
        """The calls for a block: save the other elements in the target's words, then all stages. Shifted by `phase`."""
        buffers = [SOURCE, *range(BLOCK, BLOCK + len(self._step.staging)), TARGET]
        streaming = [0] * (len(self._formats) - 1) + [_streams(self._step, self._step.bits[1])]
        # Copy words of the target unchanged to the last block.
        calls = [
            _FormattedStep(step, *self._formats[-1][::-1], 0).whole((0, 0), (buffers[-1], buffers[-2]))
            for step in self._step.kept(parts, phase)
        ]
        for k, steps in enumerate(self._step.stages(parts, phase)):
            for step in steps:
                own = _FormattedStep(step, *self._formats[k], streaming[k])
                calls.append(own.whole((0, 0), (buffers[k], buffers[k + 1])))
        return calls


class _Fill:
    """The steps of a fill. The source is one element, repeated."""

    def __init__(self, steps: list[FillStep]) -> None:
        self._steps = steps
        self._size = sum(step.filled_bytes for step in steps)
        self._known = _Templates(_MOST_TEMPLATES)
        # A small fill ends before another thread would start.
        divides = self._size > limits.current.shared_fill_bytes
        self._copy = ParallelCopy(self._tasks, limits.current.fill_task_bytes, (), divides)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The fill, which is never shifted."""
        assert shift == (0, 0)
        return self._copy

    def _tasks(self) -> Iterator[Task]:
        for step in self._steps:
            for first, loops, run_bytes in step.tasks():
                alike = step.kernel, step.element_bytes, loops, run_bytes
                template = self._known.of(alike, partial(self._calls, step, loops, run_bytes))
                yield Task(template, (0, 8 * first))

    def _calls(self, step: FillStep, loops: tuple[Loop, ...], run_bytes: int) -> list[Call]:
        streaming = int(self._size >= limits.current.stream_bytes)
        options = (streaming,) if step.kernel == "fill" else ()
        return [Call(step.kernel, (*step.arguments(loops, run_bytes), *options))]


def _task_bytes(step: VectorStep | NestStep | StagedCopy) -> int:
    """Approximate bytes of the target that a task writes."""
    first = next(iter(step.tasks()), ())
    bits = step.bits[1] if isinstance(step, StagedCopy) else step.bits
    return math.prod(part.stop - part.start for part in first) * bits // 8


def bind(
    name: str, widths: tuple[int, int], source: ElementFormat, target: ElementFormat, streaming: int = 0
) -> BoundKernel:
    """A kernel with its options bound: all its arguments but buffers and tables.

    `widths` are the bits of an element in source and target.

    Raises
    ------
    NotCompiled
        The kernel is not ready.
    """
    kernel = kernels.wanted(name)
    complete = _arguments(name, widths, source, target, streaming)

    def with_tables(tables: tuple[Any, ...]) -> Copy:
        return lambda from_, to: kernel(from_, to, *complete(tables, scratch()))

    return with_tables


def _arguments(
    name: str, widths: tuple[int, int], source: ElementFormat, target: ElementFormat, streaming: int
) -> Callable[[tuple[Any, ...], Bytes], tuple[Any, ...]]:
    """A function of tables and scratch memory that returns a kernel's arguments after the buffers."""
    bits = min(widths)
    signed = int(source.signed and widths[0] < 8 == widths[1])
    orders = int(not source.low_first), int(not target.low_first)
    kind = KINDS[name]
    before: tuple[int, ...] = () if kind.form is Form.NEST else (streaming,)
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
    elif 0 < kind.bits < 8:
        behind = (orders[0],)
    elif name == "transpose_runs":
        behind = (bits // 8,)

    def complete(tables: tuple[Any, ...], scratch_memory: Bytes) -> tuple[Any, ...]:
        first = (*tables, *before)
        return first if kind.form in (Form.NEST, Form.RUN) else (*first, scratch_memory, *behind)

    return complete


def _streams(step: VectorStep | NestStep | StagedCopy, bits: int) -> int:
    """1 if the target is large enough for streaming stores, otherwise 0."""
    return int(step.elements * bits >= 8 * limits.current.stream_bytes)
