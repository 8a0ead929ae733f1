"""The tasks of a vector step: boxes that threads share, cut so that lines of the target are written by one of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from strided.planning.access_order import PAGE_BYTES, neighbours_of_a_page
from strided.planning.boxes import LINE_BYTES, WORD_BITS
from strided.planning.task_ranges import TaskRanges, length_of, most_grouped, task_ranges_of, word_multiple
from strided.planning.vector_tables import least_words, rows_alike
from strided.runtime import limits
from strided.runtime.threads import get_num_threads

if TYPE_CHECKING:
    from strided.planning.vector_step import VectorStep

#: Lines of a row of the target that a transposition writes at once, or a multiple.
_TURNED_LINES = 4
#: Rows that are taken out of words side by side, if there are as many.
_ROWS_OF_WORDS = 8
#: Tasks that every thread has at least, if they are large enough: the last ones end at about the same time.
_TASKS_OF_THREAD = 4
#: Words that follow each other in most tiles.
_WORDS_OF_TILE = 128


def tasks_of(step: VectorStep) -> Iterator[TaskRanges]:
    """Tasks for threads to share, a range of each axis."""
    lengths, budget = [1] * len(step.axes), _task_elements(step)
    periods = [axis.period for axis in step.axes]
    inner_places = [k for k in (step.lane, step.row) if k >= 0]
    for k in inner_places:
        lengths[k], periods[k] = _inner_range(step, k, budget)
        budget = max(1, budget // lengths[k])
    turns = step.turns_along
    if turns is not None:
        # Elements of few rows stay together: no tile of the other side cuts them.
        for k in inner_places:
            if step.axes[k] is not turns:
                lengths[k], periods[k] = step.axes[k].extent, 1
    # First of every outer axis what stays on a few pages of one side, which is worth larger tasks if that leaves
    # enough of them; then as much of the inner ones as may be.
    inner = math.prod(lengths)
    for share, most in ((2 * PAGE_BYTES, min(4 * budget, step.elements // inner // 16)), (1 << 62, budget)):
        for k in reversed(step.outer):
            near = step.axes[k].distance
            others = math.prod(lengths) // inner // lengths[k]
            length = length_of(step.axes[k], min(-(-share // near), most // others))
            lengths[k] = max(lengths[k], length)
    return task_ranges_of(step.axes, step.order, lengths, periods, to_ends=step.is_partial)


def _inner_range(step: VectorStep, k: int, budget: int) -> tuple[int, int]:
    """The lanes, or the rows, of one task of at most `budget` of them, and of what a period ranges of them are cut."""
    axis = step.axes[k]
    is_whole = step.has_short_rows if k == step.lane else step.is_exchange or step.lacking > 0
    if is_whole:
        return axis.extent, 1  # not even cut where tiles end
    least, most = _range_of(step, k, budget)
    group = most_grouped(axis, rows_alike(step)) if k == step.row and step.has_row_table else 0
    if 0 < 2 * group <= most:
        length = length_of(axis, most, group, in_groups=True)
    else:
        in_pieces = not step.is_transposition and (k == step.lane or step.has_short_rows)
        length = length_of(axis, most, least, in_pieces=in_pieces)
    return length, least if length % axis.period else axis.period


def _range_of(step: VectorStep, k: int, budget: int) -> tuple[int, int]:
    """Of what the lanes, or the rows, of a task are a multiple, and how many they are at most."""
    line = max(1, LINE_BYTES * 8 // max(8, step.bits))
    if k == step.lane:
        if step.kind.packed == 2 and not step.interleaved:  # no two runs may share a byte, or a word
            each = (WORD_BITS if step.packs_words else 8) // step.bits
            whole = word_multiple(step.axes[k], each)
            line = line if whole == each else whole
        rows = step.axes[step.row].extent if step.row >= 0 else 1
        if step.is_transposition:
            return line, min(budget, max(limits.current.transposed_lanes, budget // rows))
        # Words that rows share lie near each other, and so do those of a tile that follow each other.
        beside = _WORDS_OF_TILE if step.packs_words else _ROWS_OF_WORDS if step.interleaved == 1 else 1
        return line, max(1, budget // min(beside, rows))
    least, few = max(least_words(step), step.rows), limits.current.far_rows
    if step.is_transposition:
        least = few = _TURNED_LINES * line
    if _goes_on_beside_rows(step):
        return least, min(budget, max(few, _least_rows(step)))
    return least, budget


def _goes_on_beside_rows(step: VectorStep) -> bool:
    """Whether rows lie on pages of their own in the source, and those of an outer axis beside them.

    Or, where they are turned, those of the elements of a word do, and few bytes are read of each. A task that takes
    few rows goes on soon where these end, on pages that are known, in lines that are there.
    """
    together = max(1, WORD_BITS // step.bits) if step.is_transposition else 1
    if step.kind.free_rows or neighbours_of_a_page(step.axes[step.row].source) > together:
        return False
    if step.is_transposition and step.axes[step.lane].extent * step.bits > 8 * _TURNED_LINES * LINE_BYTES:
        return False
    return any(step.axes[k].source.distance < PAGE_BYTES for k in step.outer)


def _least_rows(step: VectorStep) -> int:
    """Rows that make a task worth preparing, with all of the other axes."""
    width = max(8, step.bits) // 8
    row = width * step.elements // step.axes[step.row].extent
    return -(-(limits.current.vector_task_bytes // 4) // row)


def _task_elements(step: VectorStep) -> int:
    """Elements of one task: all, or enough to be worth one and few enough that threads end together."""
    width = max(8, step.bits) // 8
    size = step.elements * width
    task = limits.current.vector_task_bytes
    if size > task:
        most = max(min(task, size // 8), min(8 * task, size // limits.current.many_tasks))
        size = max(task // 4, min(most, size // (_TASKS_OF_THREAD * get_num_threads())))
    return max(1, size // width)
