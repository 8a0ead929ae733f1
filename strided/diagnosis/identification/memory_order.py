"""What the order of memory alone explains, whatever the dimensions: values that go on, or count, from slot to slot."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.levels import Floats
from strided.diagnosis.identification.ranking import ranks, shuffled_differences
from strided.diagnosis.identification.sampling import Source, as_numbers

#: Ends of rows that are looked at, and the fewest that tell whether values go on there, if within rows they differ by
#: less than this share of what others do.
_ENDS, _LEAST_ENDS, _SEQUENCE = 512, 8, 0.25
#: Values across the end of a row are strangers that differ by more than this share of what any two do.
_STRANGERS = 0.5
#: Values that are compared with those a row further, and the share of what neighbours differ by that tells rows.
_APART, _CLOSER = 1024, 0.9
#: The share of steps that are equal where values count: those of ``arange % 16`` are, but for one in 16.
_COUNTED = 0.9
#: Columns of tiles that interleave no rows: as many as a vector of a TPU has lanes.
_LANES = 128


class RowEnds(enum.Enum):
    """What values without tiles do where one row ends in memory, and the next one begins.

    `GO_ON`: they go on as within rows. Then they are one sequence, which is as smooth in every order of dimensions:
    neighbours tell nothing of these. `JUMP`: they go on within rows, and the next row begins like a stranger. Then they
    are rows of this length, or of a divisor of it. `NEITHER` tells nothing.
    """

    GO_ON = enum.auto()
    JUMP = enum.auto()
    NEITHER = enum.auto()


def row_ends(source: Source, reading: Reading) -> RowEnds:
    """What the values of a reading do at the ends of its rows."""
    shape = reading.shape
    assert shape.layout is not None
    if len(shape.dimensions) < 2 or shape.layout.tiles or shape.expansion.allocated_elements != shape.size:
        return RowEnds.NEITHER
    row = shape.dimensions[shape.layout.minor_to_major[0]]
    count = (shape.size - 1) // row
    if row < 2 or count < _LEAST_ENDS:
        return RowEnds.NEITHER
    ends = np.arange(1, count + 1, max(1, count // _ENDS)) * row
    anywhere = np.random.default_rng(37).integers(0, shape.size, _APART)
    at = np.concatenate([ends - 1, ends, ends - row // 2 - 1, ends - row // 2, anywhere])
    values, inside = source.fetch(reading, at)
    if not inside.all():
        return RowEnds.NEITHER
    # Values at the ends of rows may be few, as those of ``arange % 100`` are: others tell how far apart two are.
    ranked = _ranked(values, -_APART)
    last, first, *within = ranked[:-_APART].reshape(4, -1)
    far = float(np.median(shuffled_differences(ranked[-_APART:])))
    steps = np.diff(ranked[np.argsort(at)])
    if far > 0 and shape.layout.is_descending and ((steps >= 0).all() or (steps <= 0).all()):
        return RowEnds.GO_ON  # sorted, however long the rows are, perhaps with each value many times in turn
    near, across = float(np.median(np.abs(within[1] - within[0]))), float(np.median(np.abs(first - last)))
    if not 0 < near < _SEQUENCE * far:
        return RowEnds.NEITHER
    if across > _STRANGERS * far:
        return RowEnds.JUMP
    goes_on = across <= 2 * near and not _are_rows_alike(source, reading, row)
    return RowEnds.GO_ON if goes_on else RowEnds.NEITHER


def _ranked(values: npt.NDArray[Any], among: int = 0) -> Floats:
    """The place of each value among those from one on."""
    numbers = as_numbers(values)
    return ranks(numbers, numbers[among:])


def is_counted(source: Source, reading: Reading) -> bool:
    """Whether tiles interleave rows of what counts in memory: each slot holds the one before and a constant.

    Two rows of an array hold such values in turn only by a freak. Those that count in memory and start again now and
    then, as those of ``arange % 256``, do so less often within rows that are interleaved, for these are as much longer,
    and are as smooth. That is the order of memory, which tells nothing of tiles.
    """
    layout = reading.shape.layout
    assert layout is not None
    slots = reading.shape.expansion.allocated_elements
    inner = layout.tiles[-1].dimensions if layout.tiles else ()
    if slots < 2 or math.prod(inner[:-1]) < 2 or inner[-1] >= _LANES:
        return False
    at = np.random.default_rng(29).integers(0, slots - 1, min(_APART, slots))
    values, inside = source.fetch(reading, np.concatenate([at, at + 1]))
    first, second = as_numbers(values).reshape(2, -1)
    steps = (second - first)[inside.reshape(2, -1).all(axis=0)]
    # NaN counts as no step.
    found, times = np.unique(steps[steps == steps], return_counts=True)
    return len(found) > 0 and bool(found[times.argmax()] != 0) and bool(times.max() > _COUNTED * len(steps))


def _are_rows_alike(source: Source, reading: Reading, row: int) -> bool:
    """Whether values a row apart in memory differ by less than neighbours do.

    Those of a sequence differ by more the further apart they are, or by as much if most of it is noise.
    """
    size = reading.shape.size
    at = np.random.default_rng(23).integers(0, size - row, min(_APART, size))
    values, inside = source.fetch(reading, np.concatenate([at, at + 1, at + row]))
    held = inside.reshape(3, -1).all(axis=0)
    if not held.any():
        return False
    here, near, far = _ranked(values.reshape(3, -1)[:, held].reshape(-1)).reshape(3, -1)
    return float(np.abs(far - here).mean()) < _CLOSER * float(np.abs(near - here).mean())
