"""The model of costs: about how long the ways of a copy take, so that plans can choose among them.

A cost is a time, in bits that `rows` moves inside the cache meanwhile. docs/maintainers.md says how each was measured;
only the order of what is compared matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from strided.planning.access_order import PAGE_BYTES
from strided.planning.boxes import WORD_BITS, Box, side_of
from strided.planning.select_kernel import Matched, Rest
from strided.planning.vector_step import VectorStep
from strided.runtime import limits

#: The time that a bit of a square takes which is not there.
_GAP_COST = 0.75
#: The time that a kernel takes for each run that it writes alone and that is shorter than two lines, in bits; and a
#: transposition whose runs lie on few pages, or at few places of many, where they fight for the same few lines of the
#: caches, or follow each other only as far as they share words of the source.
_RUN_COST, _NEAR_RUN_COST, _ALIKE_RUN_COST, _WORD_RUN_COST = 1000.0, 500.0, 2500.0, 1500.0
_LONG_RUN_BITS = 1024
#: The same for words whose rows are exchanged, in runs of less than four lines.
_EXCHANGED_RUN_COST, _LONG_EXCHANGED_BITS = 3000.0, 2048
#: How much longer it takes to exchange rows, and to put rows into words, so that words of the target are filled in
#: part, and to put rows into words that are alone in these.
_EXCHANGED_IN_PART, _IN_PART, _ALONE = 1.5, 3.0, 2.0
#: The same for runs of bytes and halves of words in memory that begin inside of lines: from a line and a half, shorter
#: ones being put together, up to half a kilobyte.
_RAGGED_RUN_COST, _RAGGED_RUN_BITS, _LONG_RAGGED_RUN_BITS = 4400.0, 768, 4096
#: The same for each row of bytes, or halves of words, that take turns, if rows begin inside of lines of memory.
_ZIPPED_RUN_COST, _LONG_ZIPPED_RUN_BITS = 6500.0, 16384
#: The same for each row that is copied as one, and besides if it lies in memory, apart from others; on its own line.
_SHORT_ROW_COST, _APART_COST, _FAR_COST = 60.0, 25.0, 400.0
#: The same in a block, if rows lie at the same place of each page, where they fight for the same lines of the cache.
_ALIKE_ROW_COST = 600.0
#: The same for each run that is packed, and that is unpacked, up to eight times as long.
_PACKED_RUN_COST, _UNPACKED_RUN_COST = 2300.0, 1000.0
#: The same for each run of which `pack_words` fills the last word in part.
_PART_OF_WORD_COST = 250.0
#: The time that packed rows take to be put into words, for each run of these, and for as many as are made at once: for
#: all of the rows, and for each of them.
_WORDS, _MADE_COST, _MADE_ROW_COST = 64, 3300.0, 310.0
#: The time that a bit takes which comes from memory once more, for a second step.
_AGAIN = 0.75
#: The part of a box that a second step may take without being compared with other ways: one of so many.
LITTLE_LEFT = 256
#: How much longer short runs of words that rows share must take, read and written, for other ways to be compared.
_SHORT_WORD_RUNS = 4, 8
#: The least part of a time that counts as much as all of it: a box stays whole where its parts would take no less.
ALIKE = 0.98
#: How much longer a transposition takes that reads words alone: of each tile it wants few at a time.
FAR_WORDS = 1.1
#: How much longer stages take between two blocks, of which each is half as large.
HALF_BLOCKS = 1.25
#: The same by way of blocks without gaps between rows, which begin anywhere.
NO_GAPS = 1.3
#: The time that the nest takes for each element: of whole bytes; where all lie on lines of their own; and packed.
_NEST_COST, _FAR_NEST_COST, _NEST_BITS_COST = 400.0, 1800.0, 4000.0
#: The same for each word that the nest fetches from the target: it waits for memory.
_FETCH_COST = 3000.0


def cost_of(steps: Sequence[VectorStep], rest: Rest = (), in_memory: tuple[bool, bool] | None = None) -> float:
    """The time of steps and of what they leave over; `in_memory`: which sides are no blocks, by default large ones."""
    if in_memory is None and steps:
        spans = [last - first for first, last in steps[0].spans]
        in_memory = spans[0] >= limits.current.staging_bytes, spans[1] >= limits.current.staging_bytes
    return sum(step.elements * max(step.widths) * _bit_cost(step, in_memory) for step in steps) + sum(
        box.elements * (_NEST_COST if min(bits) >= 8 else _NEST_BITS_COST) for box, bits in rest
    )


def _bit_cost(step: VectorStep, in_memory: tuple[bool, bool] | None) -> float:
    if step.kernel == "interleave_bits":
        return _made_cost(step)
    cost = step.kind.cost
    if step.kind.squares:
        cost += _GAP_COST * (1 / step.fullness - 1)
    if step.interleaved == 2:
        cost *= _ALONE if step.rows == 1 else 1 + (_IN_PART - 1) * _share_in_part(step)
    run, long = _RUN_COST, _LONG_RUN_BITS
    # Bytes and halves of words that are written to memory.
    is_narrow = bool(in_memory and in_memory[1]) and step.bits < WORD_BITS
    if step.packs_words:
        extent = step.axes[step.lane].extent
        return cost + (_PART_OF_WORD_COST / (8 * extent) if extent * step.bits % WORD_BITS else 0.0)
    if step.kernel in ("pack", "unpack"):
        run, long = _PACKED_RUN_COST if step.kernel == "pack" else _UNPACKED_RUN_COST, 8 * _LONG_RUN_BITS
    elif step.has_short_rows:
        run = _short_row_cost(step, in_memory)
    elif step.is_exchange:
        cost *= _EXCHANGED_IN_PART if step.members[1] < step.shared else 1
        run, long = _EXCHANGED_RUN_COST, _LONG_EXCHANGED_BITS
    if step.is_transposition:
        places = step.run_places
        run = _RUN_COST if places > 8 else _ALIKE_RUN_COST if places else _NEAR_RUN_COST
        if is_narrow and step.is_ragged and step.run_bits >= _RAGGED_RUN_BITS:
            run, long = _RAGGED_RUN_COST, _LONG_RAGGED_RUN_BITS
        elif step.goes_on_in_words:
            run, long = _WORD_RUN_COST, 3 * _LONG_RUN_BITS
    if 0 < step.run_bits < long:
        cost += run * (1 / step.run_bits - 1 / long)
    zipped = step.zipped_run_bits if is_narrow else 0
    if 0 < zipped < _LONG_ZIPPED_RUN_BITS:
        cost += _ZIPPED_RUN_COST * (1 / zipped - 1 / _LONG_ZIPPED_RUN_BITS)
    return cost


def _share_in_part(step: VectorStep) -> float:
    """The share of rows put into words whose words they do not fill, if the first one begins a word."""
    extent = step.axes[step.row].extent
    return extent % step.rows / extent


def _made_cost(step: VectorStep) -> float:
    """The time of a bit of packed rows that are put into words, of which so many are made at once, wanted or not."""
    lane = step.axes[step.lane]
    rows = 1.0
    if step.row >= 0:
        extent = step.axes[step.row].extent
        rows = extent / math.ceil(extent / step.rows)
    made = 1 + math.ceil(lane.run / _WORDS)
    return made * (_MADE_COST / rows + _MADE_ROW_COST) / (lane.run * max(step.widths))


def _short_row_cost(step: VectorStep, in_memory: tuple[bool, bool] | None) -> float:
    cost = _SHORT_ROW_COST
    for side, far in zip(step.axes[step.row][1:], in_memory or (False, False), strict=True):
        apart = 8 * abs(side.unit_stride)
        if far and apart != step.run_bits:
            cost += _APART_COST if apart <= limits.current.line_bits else _FAR_COST
        elif apart and apart % (8 * PAGE_BYTES) == 0:
            cost += _ALIKE_ROW_COST
    return cost


def cost_of_fetched(steps: Sequence[VectorStep], words: Rest) -> float:
    """The time of steps that bring words of the target into a block, and of words that the nest fetches one by one."""
    return cost_of(steps) + _FETCH_COST * sum(box.elements for box, _ in words)


def cost_of_passes(found: Matched, bits: int) -> float:
    """The time of all steps of a match, each of which goes through memory: through all of `bits`, or so many lines."""
    line = limits.current.line_bits
    again = (min(bits, step.elements * step.bits * line // max(1, step.run_bits)) for step in found.steps[1:])
    return cost_of(*found) + _AGAIN * sum(again) + _cost_of_scattered(found.rest)


def _cost_of_scattered(rest: Rest) -> float:
    """The time that single elements of boxes take besides, where they come from memory, each with its line."""
    return (_FAR_NEST_COST - _NEST_COST) * sum(box.elements for box, _ in rest if _is_scattered(box))


def _is_scattered(box: Box) -> bool:
    """Whether each element of a box lies on a line of its own, on one side or both."""
    steps = (min((side_of(axis, side).distance for axis in box.axes), default=0) for side in (1, 2))
    return any(step >= limits.current.line_bits for step in steps)


def leaves_gaps(found: Matched) -> bool:
    """Whether other ways may be better: squares far from full, words or rows of little or cut, or much left over."""
    first, *others = found.steps
    own, left = (sum(step.elements * max(step.widths) for step in steps) for steps in ([first], others))
    for box, widths in found.rest:
        # The nest takes ten times as long for packed elements.
        left += box.elements * max(widths) * (1 if min(widths) >= 8 else round(_NEST_BITS_COST / _NEST_COST))
    if LITTLE_LEFT * left >= own or first.is_partial:
        return True
    full = (own + left) * first.kind.cost
    cost = cost_of(*found) + _cost_of_scattered(found.rest)
    if first.interleaved:
        # Of packed elements, nothing that costs less was faster.
        return first.bits >= 8 and cost > _SHORT_WORD_RUNS[first.interleaved - 1] * full
    return (first.kind.squares or first.packs_words or first.has_short_rows) and cost > 1.5 * full
