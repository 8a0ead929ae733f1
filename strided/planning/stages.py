"""The stages of a staged copy: from the source through one or two blocks to the target, planned each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from strided.planning.axis_maps import evenly
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, cut, joined, room_of
from strided.planning.cost_model import cost_of
from strided.planning.nest_step import NestStep, nest_step_of
from strided.planning.select_kernel import Rest, match
from strided.planning.staging_layout import StagingLayout
from strided.planning.task_ranges import TaskRanges
from strided.planning.vector_step import VectorStep


class Stage(NamedTuple):
    """Vector steps, and boxes left over with the widths of their elements.

    `between_bytes`: the elements are bytes here, but packed in another stage. `in_memory`: which sides are no blocks.
    """

    steps: tuple[VectorStep, ...]
    rest: Rest = ()
    between_bytes: bool = False
    in_memory: tuple[bool, bool] = (False, False)

    @property
    def kernel(self) -> str:
        """The kernel that does most of it."""
        return self.steps[0].kernel if self.steps else nest_step_of(*self.rest[0]).kernel

    @property
    def all_steps(self) -> tuple[VectorStep | NestStep, ...]:
        """The steps, those for what is left over last."""
        return (*self.steps, *(nest_step_of(box, bits) for box, bits in self.rest))

    @property
    def is_worth_it(self) -> bool:
        """Whether the nest for the other stage alone is better than the nest for both."""
        return self.between_bytes or bool(self.steps and self.steps[0].interleaved)

    @property
    def is_scattered(self) -> bool:
        """Whether it takes packed elements one by one, not side by side."""
        if self.steps:
            return False
        nest = nest_step_of(*self.rest[0])
        strides = [(axis.source.unit_stride, axis.target.unit_stride) for axis in nest.axes]
        return nest.kernel == "nest_bits" and (not strides or strides[nest.q] != (1, 1))

    @property
    def is_good(self) -> bool:
        """Whether vector kernels do nearly all of it."""
        done = sum(step.elements * step.bits for step in self.steps)
        return 4 * sum(box.elements * min(bits) for box, bits in self.rest) <= done > 0

    @property
    def cost(self) -> float:
        """The time it takes, about: bits moved, each weighted by its kernel."""
        return cost_of(self.steps, self.rest, self.in_memory)


def stages_of(
    box: Box,
    parts: TaskRanges,
    staging: Sequence[StagingLayout],
    bits: tuple[int, int],
    words: tuple[int, int],
) -> Iterator[Stage]:
    """The stages from the source through the blocks to the target.

    No stage touches anything behind the last element in the source and the target, or behind the last word along the
    axes `words`, nor behind a block.
    """
    axes = tuple(cut(axis, part.start, part.stop) for axis, part in zip(box.axes, parts, strict=True))
    widths = [*pairwise((bits[0], *(layout.bits for layout in staging), bits[1]))]
    lengths = [axis.extent for axis in axes]
    strides = [layout.strides(lengths) for layout in staging]
    dense = [[evenly(step) for step in steps] for steps, _ in strides]
    sides = [axis.source for axis in axes], *dense, [axis.target for axis in axes]
    for k in range(len(staging) + 1):
        stage = Box(0 if k else box.source_base, box.target_base if k == len(staging) else 0, ())
        own = axes
        if k in (0, len(staging)):
            own = in_words(axes, words[k > 0], bits[k > 0])
        elif staging[k].row_bits > WORD_BITS:
            # Words and their elements, all side by side.
            own = in_words(axes, words[0], bits[0])
        for axis, source, target in zip(own, sides[k], sides[k + 1], strict=True):
            stage = stage.with_axes(len(stage.axes), [Axis(axis.extent, source, target)])
        first, last = room_of(stage, widths[k])
        room = (0, strides[k - 1][1] // 8) if k else first, (0, strides[k][1] // 8) if k < len(staging) else last
        in_memory = k == 0, k == len(staging)
        yield _matched(joined(stage), widths[k], room, in_memory, packed=min(map(min, widths)) < 8)


def kept_of(box: Box, parts: TaskRanges, staging: Sequence[StagingLayout], bits: int, place: int) -> Stage | None:
    """The stage from the target to the last block of its words that are filled in part, or None."""
    left = 0 if place < 0 else (parts[place].stop - parts[place].start) % (WORD_BITS // bits)
    if not left:
        return None
    axes = [cut(axis, part.start, part.stop) for axis, part in zip(box.axes, parts, strict=True)]
    strides, size = staging[-1].strides([axis.extent for axis in axes])
    first = axes[place].extent - left
    stage = Box(box.target_base + axes[place].target.at(first), first * bits, ())
    for k, (axis, step) in enumerate(zip(axes, strides, strict=True)):
        if k != place:
            stage = stage.with_axes(len(stage.axes), [Axis(axis.extent, axis.target, evenly(step))])
    words = WORD_BITS, WORD_BITS
    return _matched(joined(stage), words, (room_of(stage, words)[0], (0, size // 8)), (True, False), sparse=True)


def in_words(axes: Sequence[Axis], place: int, bits: int) -> tuple[Axis, ...]:
    """The axes, that at `place` as long as its words; for -1 as they are."""
    return tuple(
        axis._replace(extent=axis.extent + -axis.extent % (WORD_BITS // bits)) if k == place else axis
        for k, axis in enumerate(axes)
    )


def _matched(
    box: Box,
    bits: tuple[int, int],
    room: Spans,
    in_memory: tuple[bool, bool],
    *,
    packed: bool = False,
    sparse: bool = False,
) -> Stage:
    """The stage of a box, by kernels as far as these take it; with `packed`, elements are packed in some stage."""
    found = match(box, *bits, sparse=sparse, room=room)
    if found is None:
        return Stage((), ((box, bits),), in_memory=in_memory)
    steps = tuple(step.between(in_memory) for step in found.steps)
    return Stage(steps, found.rest, packed and min(bits) == 8, in_memory)
