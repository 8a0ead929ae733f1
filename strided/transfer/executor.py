"""Plans carried out by kernels, in tasks that threads share.

An `Execution` belongs to the steps of a plan and knows no buffer. It serves again whenever these steps do, with their
tasks and tables ready.
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
    Copying,
    Task,
    Template,
    at_once,
    program_of,
    scratch,
    template_of,
)

#: Bytes of the pattern that fills: the kernel `fill` reads a line from up to fifteen bytes behind its start, or less.
PATTERN_BYTES = 128
#: Templates that are kept of a step, and of a staged copy, whose tables are small.
_MOST_TEMPLATES, _MOST_BLOCKS = 64, 512

#: A kernel with its options: with tables, it copies.
BoundKernel: TypeAlias = Callable[[tuple[Any, ...]], Copy]


class ElementFormat(NamedTuple):
    """How elements of fewer than eight bits lie in memory. Each step says how wide its elements are."""

    low_first: bool
    signed: bool


class Execution:
    """How steps are carried out, on any buffers and anywhere in them.

    Kernels are looked for when they are first needed: copies raise `NotCompiled`.
    """

    def __init__(self, steps: tuple[Step, ...], source: ElementFormat, target: ElementFormat) -> None:
        # The steps of a fill are shared all at once.
        fills = [step for step in steps if isinstance(step, FillStep)]
        self._works: list[_Whole | _Shared | _Staged | _Filled] = [_Filled(fills)] if fills else []
        for step in steps:
            if isinstance(step, StagedCopy):
                self._works.append(_Staged(step, source, target))
            elif isinstance(step, VectorStep | NestStep):
                own = _WithFormats(step, source, target, _streams(step, step.bits))
                last = self._works[-1] if self._works else None
                if not _is_one_task(step):
                    self._works.append(_Shared(own))
                elif isinstance(last, _Whole):
                    # Steps of a single task are one task together.
                    last.steps.append(own)
                else:
                    self._works.append(_Whole([own]))

    def at(self, shift: tuple[int, int]) -> Copy:
        """The copy from buffer to buffer, with `shift` bits added to the offsets of the steps on both sides."""
        copies = [work.at(shift) for work in self._works]
        if len(copies) == 1:
            return copies[0]

        def copy(source: Bytes, target: Bytes) -> None:
            for each in copies:
                each(source, target)

        return copy


class _WithFormats(NamedTuple):
    """A step with all else that its calls depend on."""

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
        """The call for a range of every axis, with `shift` bits added on both sides."""
        step = self.step
        units = shift[0] // step.units[0], shift[1] // step.units[1]
        complete = _arguments(step.kernel, step.widths, self.source, self.target, self.streaming)
        return Call(step.kernel, complete(step.arguments(tables, parts, units), SCRATCH), buffers, step.units)

    def whole(self, shift: tuple[int, int], buffers: tuple[int, int] = (SOURCE, TARGET)) -> Call:
        """The call for all of the step."""
        parts = first_ranges(axis.extent for axis in self.step.axes)
        return self.call(self.step.tables(), parts, shift, buffers)


def _split(shift: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bits within the words where something lies, and those to the first of these words, on both sides."""
    phase = shift[0] % PHASE_BITS, shift[1] % PHASE_BITS
    return phase, (shift[0] - phase[0], shift[1] - phase[1])


def _apart(parts: TaskRanges) -> tuple[TaskRanges, tuple[int, int]]:
    """The ranges of a task without their shifts, which tasks that are alike have in common, and the sums of these."""
    source = target = 0
    alike = []
    for start, stop, from_, to in parts:
        alike.append(AxisRange(start, stop))
        source, target = source + from_, target + to
    return tuple(alike), (source, target)


def _is_one_task(step: VectorStep | NestStep | StagedCopy) -> bool:
    """Whether a step is a single task, which is done at once, with tables at hand."""
    return len(list(islice(step.tasks(), 2))) == 1


class _Templates(BoundedCache[Any, Template]):
    """Templates by what tasks that are alike have in common."""

    __slots__ = ()

    def of(self, alike: Any, calls: Callable[[], list[Call]]) -> Template:
        """The template, made of `calls` if it is not known."""
        return self.get(alike) or self.keep(alike, template_of(calls()))


class _Whole:
    """Steps of a single task each, one after the other."""

    def __init__(self, steps: list[_WithFormats]) -> None:
        self.steps = steps
        self._known = _Templates(_MOST_TEMPLATES)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The steps with `shift` bits added on both sides."""
        phase, there = _split(shift)
        template = self._known.of(phase, lambda: [step.whole(phase) for step in self.steps])
        return at_once(program_of([Task(template, there)]))


class _Shared:
    """One step of many tasks."""

    def __init__(self, own: _WithFormats) -> None:
        self._own, self._tables = own, own.step.tables()
        self._known = _Templates(_MOST_TEMPLATES)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        step = self._own.step

        def tasks() -> Iterator[Task]:
            for parts in step.tasks():
                alike, moved = _apart(parts)
                template = self._known.of(alike, partial(self._calls, alike))
                there = shift[0] + step.units[0] * moved[0], shift[1] + step.units[1] * moved[1]
                yield Task(template, there)

        return Copying(tasks, _task_bytes(step), (), step.divides)

    def _calls(self, parts: TaskRanges) -> list[Call]:
        return [self._own.call(self._tables, parts)]


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
        self._known = _Templates(_MOST_BLOCKS)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The step with `shift` bits added on both sides."""
        step = self._step

        def tasks() -> Iterator[Task]:
            for parts in step.tasks():
                alike, moved = _apart(parts)
                phase, there = _split((shift[0] + moved[0], shift[1] + moved[1]))
                yield Task(self._known.of((phase, alike), partial(self._calls, alike, phase)), there)

        if _is_one_task(step):
            return at_once(program_of(list(tasks())), step.block_bytes)
        return Copying(tasks, _task_bytes(step), step.block_bytes, step.divides)

    def _calls(self, parts: TaskRanges, phase: tuple[int, int]) -> list[Call]:
        """The calls that keep what lies in words of the target besides, and those of all stages of a block.

        As if it had no shift but `phase`.
        """
        buffers = [SOURCE, *range(BLOCK, BLOCK + len(self._step.staging)), TARGET]
        streaming = [0] * (len(self._formats) - 1) + [_streams(self._step, self._step.bits[1])]
        # Words of the target go to the last block as they are.
        calls = [
            _WithFormats(step, *self._formats[-1][::-1], 0).whole((0, 0), (buffers[-1], buffers[-2]))
            for step in self._step.kept(parts, phase)
        ]
        for k, steps in enumerate(self._step.stages(parts, phase)):
            for step in steps:
                own = _WithFormats(step, *self._formats[k], streaming[k])
                calls.append(own.whole((0, 0), (buffers[k], buffers[k + 1])))
        return calls


class _Filled:
    """The steps of a fill. What is copied is one element, repeated."""

    def __init__(self, steps: list[FillStep]) -> None:
        self._steps = steps
        self._size = sum(step.filled_bytes for step in steps)
        self._known = _Templates(_MOST_TEMPLATES)
        # A small fill is done before another thread has begun.
        divides = self._size > limits.current.shared_fill_bytes
        self._copy = Copying(self._tasks, limits.current.fill_task_bytes, (), divides)

    def at(self, shift: tuple[int, int]) -> Copy:
        """The steps. Those of a fill are not shifted."""
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
    """Bytes of the target that a task writes, about."""
    first = next(iter(step.tasks()), ())
    bits = step.bits[1] if isinstance(step, StagedCopy) else step.bits
    return math.prod(part.stop - part.start for part in first) * bits // 8


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
    kernel = kernels.wanted(name)
    complete = _arguments(name, widths, source, target, streaming)

    def with_tables(tables: tuple[Any, ...]) -> Copy:
        return lambda from_, to: kernel(from_, to, *complete(tables, scratch()))

    return with_tables


def _arguments(
    name: str, widths: tuple[int, int], source: ElementFormat, target: ElementFormat, streaming: int
) -> Callable[[tuple[Any, ...], Bytes], tuple[Any, ...]]:
    """What completes tables, with scratch memory, to the arguments of a kernel."""
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
    """Whether the target is large enough to write its lines past the caches."""
    return int(step.elements * bits >= 8 * limits.current.stream_bytes)
