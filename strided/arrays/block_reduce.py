"""Reductions of large arrays, block by block over threads, with little additional memory.

NumPy reduces each block, with pairwise summation along its fastest axis. The partial results are combined pairwise,
floating point in double precision. The order of combination does not depend on the number of threads, so neither does
the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from strided.arrays import blocks
from strided.arrays.base import Array, ArrayBase
from strided.arrays.blocks import Box

#: A partial result: arrays that are combined element by element; reduced axes have size 1.
Partial: TypeAlias = tuple[Array, ...]

#: Blocks in one task, if they contribute to the same elements of the result.
_SEGMENT = 8
#: The fewest elements that are reduced to one element of a partial result.
_ELEMENTS_OF_PARTIAL = 64


@dataclass(frozen=True, slots=True)
class Reduction:
    """How blocks are reduced and their partial results combined.

    Attributes
    ----------
    start : callable
        ``start(values, where, box, axes)`` returns the partial result of a block. `where` is True or an array that
        broadcasts to the values; reduced axes are kept with size 1.
    combine : callable
        ``combine(first, second)`` combines two partial results, the one with lower indices first.
    done : callable, optional
        Whether a partial result is final, whatever the other blocks contain; used if all axes are reduced.
    matters : callable, optional
        ``matters(values)``: whether the result can depend on a block with these values, in any order.
    in_order : bool
        Whether `start` needs the values of a block with the array's axes. Otherwise an axis may be split into several;
        `axes` then lists all of them.
    itemsize : int
        Bytes of an element in the reduction if more than in the array; blocks are then smaller.
    """

    start: Callable[[Array, Any, Box, tuple[int, ...]], Partial]
    combine: Callable[[Partial, Partial], Partial]
    done: Callable[[Partial], bool] | None = None
    matters: Callable[[Array], bool] | None = None
    in_order: bool = False
    itemsize: int = 1


def reduced(array: ArrayBase, axes: tuple[int, ...], reduction: Reduction, where: Any = True) -> Partial:
    """The partial result of the whole array, which must have elements. Reduced axes have size 1.

    `where` is True, or a mask (an ndarray or a LayoutArray) that broadcasts to the array.
    """
    read = blocks.Reader(array)
    mask = blocks.reader_of(where, array.shape)
    pieces = list(_segments(array, axes, reduction.itemsize))
    found: list[Partial | None] = [None] * len(pieces)
    decided = False

    def one(box: Box) -> Partial | None:
        """The partial result of a block; None if the result does not depend on it."""
        digits = blocks.digits_of(array, box) if where is True else None
        if reduction.matters is not None and digits is not None and not reduction.matters(digits[0]):
            return None
        if digits is None or reduction.in_order or not (len(axes) == array.ndim or blocks.long_runs(digits[0])):
            return reduction.start(read(box), mask(box), box, axes)
        values, counts = digits
        ends = list(itertools.accumulate(counts, initial=0))
        gone = tuple(k for axis in axes for k in range(ends[axis], ends[axis + 1]))
        kept = tuple(1 if k in axes else block.stop - block.start for k, block in enumerate(box))
        return tuple(s.reshape(kept) if s.ndim else s for s in reduction.start(values, True, box, gone))

    def reduce(place: int) -> None:
        nonlocal decided
        if decided:
            return
        _, segment = pieces[place]
        states = [s for s in (one(box) for box in segment) if s is not None]
        if not states:
            return
        state = found[place] = _pairwise(states, reduction.combine)
        if reduction.done is not None and len(axes) == array.ndim and reduction.done(state):
            decided = True

    blocks.run_all(reduce, range(len(pieces)))
    if len(axes) == array.ndim:
        # Blocks without a partial result do not change the result.
        return _pairwise((state for state in found if state is not None), reduction.combine)
    return _assembled(array.shape, axes, pieces, found, reduction.combine)


def _assembled(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    pieces: list[tuple[Box, list[Box]]],
    found: list[Partial | None],
    combine: Callable[[Partial, Partial], Partial],
) -> Partial:
    """The partial result of the whole array, assembled from those of its segments."""
    result: Partial | None = None
    kept_shape = tuple(1 if k in axes else n for k, n in enumerate(shape))
    for kept, group in itertools.groupby(zip(pieces, found, strict=True), key=lambda item: item[0][0]):
        state = _pairwise((s for _, s in group if s is not None), combine)
        if result is None:
            result = tuple(np.empty(kept_shape, s.dtype) for s in state)
        for whole, s in zip(result, state, strict=True):
            whole[kept] = s
    assert result is not None
    return result


def _segments(array: ArrayBase, axes: tuple[int, ...], itemsize: int) -> Iterator[tuple[Box, list[Box]]]:
    """The tasks: a box of the result, and blocks that are reduced to it."""
    elements = max(1, blocks.BLOCK_BYTES // max(itemsize, array.itemsize))
    # Make blocks long along reduced axes: NumPy is slow at reducing few elements at a time.
    cuts = blocks.tile_cuts(array._map, elements, whole_tiles=True, along=axes)
    kept = [[slice(0, 1)] if k in axes else own for k, own in enumerate(cuts)]
    gone = [own if k in axes else [slice(0, 1)] for k, own in enumerate(cuts)]
    # If the result is large, partial results are, too: limit their number.
    most = max(1, math.prod(array.shape[k] for k in axes) // _ELEMENTS_OF_PARTIAL)
    count = math.prod(len(own) for own in gone)
    length = max(_SEGMENT, -(-count // most))
    for place in itertools.product(*kept):
        within = itertools.product(*gone)
        for _ in range(0, count, length):
            segment = [
                tuple(g if k in axes else p for k, (p, g) in enumerate(zip(place, inner, strict=True)))
                for inner in itertools.islice(within, length)
            ]
            yield place, segment


def _pairwise(states: Iterable[Partial], combine: Callable[[Partial, Partial], Partial]) -> Partial:
    """Partial results combined pairwise, so that rounding errors grow with the logarithm of their number."""
    waiting: list[tuple[int, Partial]] = []
    for state in states:
        level = 0
        while waiting and waiting[-1][0] == level:
            state = combine(waiting.pop()[1], state)
            level += 1
        waiting.append((level, state))
    _, result = waiting.pop()
    while waiting:
        result = combine(waiting.pop()[1], result)
    return result
