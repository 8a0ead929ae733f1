"""Arrays that a hypothesis derives from a, to be compared with b block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strided.arrays.base import Array
from strided.arrays.blocks import Box
from strided.diagnosis.difference.operands import Operand, Plain, Points, Wrapped, operand_of
from strided.diagnosis.difference.places import Numbers


def view_of(operand: Operand, key: tuple[slice, ...]) -> Operand | None:
    """A view of an array; None for one in many buffers."""
    return operand_of(operand.array[key], operand.name) if has_views(operand) else None


def transpose_of(operand: Operand, axes: tuple[int, ...]) -> Operand | None:
    """A transposed view of an array; None for one in many buffers."""
    return operand_of(operand.array.transpose(axes), operand.name) if has_views(operand) else None


def has_views(operand: Operand) -> bool:
    """Whether an operand lies in one buffer, so that it has views, which can be compared as a whole."""
    return isinstance(operand, (Wrapped, Plain))


class Reordered(Operand):
    """An array with the indices of one axis in another order."""

    def __init__(self, operand: Operand, axis: int, order: Numbers) -> None:
        super().__init__(operand.array, operand.name)
        self._operand, self._axis, self._order = operand, axis, order
        self.chunk = operand.chunk

    def read(self, box: Box) -> Array:
        before, after = box[: self._axis], box[self._axis + 1 :]
        origin = self._order[box[self._axis]]
        if (np.diff(origin) == 1).all():
            return self._operand.read((*before, slice(int(origin[0]), int(origin[-1]) + 1), *after))
        return np.asarray(self.array[(*before, origin, *after)])

    def at(self, points: Points) -> Array:
        own = self._order[points[self._axis]]
        return self._operand.at((*points[: self._axis], own, *points[self._axis + 1 :]))

    def byte_of(self, index: tuple[int, ...]) -> int:
        own = int(self._order[index[self._axis]])
        return self._operand.byte_of((*index[: self._axis], own, *index[self._axis + 1 :]))

    def release(self) -> None:
        self._operand.release()


class Changed(Operand):
    """An array with a function applied to its values."""

    def __init__(self, operand: Operand, change: Callable[[Array], Array], dtype: np.dtype[Any]) -> None:
        super().__init__(operand.array, operand.name)
        self._operand, self._change, self._dtype = operand, change, dtype
        self.chunk = operand.chunk

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    def read(self, box: Box) -> Array:
        return self._change(self._operand.read(box))

    def at(self, points: Points) -> Array:
        return self._change(self._operand.at(points))

    def byte_of(self, index: tuple[int, ...]) -> int:
        return self._operand.byte_of(index)

    def release(self) -> None:
        self._operand.release()
