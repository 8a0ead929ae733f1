"""Addresses: the offset of an element as a sum of digits.

An `AddressMap` is that sum (see `digits`) for a view: each coordinate is an affine function ``start + step * v`` of the
index `v` along one axis of the view. Slicing, transposing, new axes, broadcasting and diagonals change only the affine
part, so views need no copy.

Two things do not reduce to digits: a tile that divides an earlier tile unevenly, and a combined dimension (``*``) that
a tile cuts across. These are kept as small expressions and evaluated for each element: exact, but slower.

An *index* is logical, one integer for each dimension; an *offset* counts elements from the start of the buffer.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from strided.addressing.digits import Digit, Term, carries_of, regrouped
from strided.addressing.index_expr import IndexExpr, dimensions_of, evaluate
from strided.runtime.aliases import Offsets
from strided.runtime.lazy import lazy

#: NumPy's limit on the number of axes.
MAX_NDIM = 64


@dataclass(frozen=True, slots=True)
class IrregularTerm:
    """Expressions that do not split into digits: each adds ``expr(coordinates) * stride`` to the offset.

    Attributes
    ----------
    exprs : tuple of (IndexExpr, int)
        Expressions and their strides in elements.
    coordinates : tuple of (int, tuple of int)
        For each logical dimension, its start and its step along each axis of the view.
    """

    exprs: tuple[tuple[IndexExpr, int], ...]
    coordinates: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def axes(self) -> frozenset[int]:
        """The axes of the view that these expressions depend on."""
        used = {d for expr, _ in self.exprs for d in dimensions_of(expr)}
        return frozenset(k for d in used for k, step in enumerate(self.coordinates[d][1]) if step)

    def offset_at(self, view_index: Sequence[Offsets | int]) -> Offsets | int:
        """What these expressions add to the offset at an index of the view, in elements."""
        at: list[Offsets | int] = []
        for start, steps in self.coordinates:
            c: Offsets | int = start
            for v, step in zip(view_index, steps, strict=True):
                if step:
                    c = c + v * step
            at.append(c)
        total: Offsets | int = 0
        for expr, stride in self.exprs:
            total = total + evaluate(expr, at) * stride
        return total

    def moved(self, axis: int, start: int, step: int) -> IrregularTerm:
        """These expressions with index `v` of an axis replaced by ``start + step * v``."""
        return replace(
            self,
            coordinates=tuple(
                (c + steps[axis] * start, (*steps[:axis], steps[axis] * step, *steps[axis + 1 :]))
                for c, steps in self.coordinates
            ),
        )

    def with_steps(self, axes: Sequence[int | None]) -> IrregularTerm:
        """These expressions for other axes: each entry is the old axis, or None for a broadcast axis."""
        return replace(
            self,
            coordinates=tuple((c, tuple(0 if k is None else steps[k] for k in axes)) for c, steps in self.coordinates),
        )


#: One axis as (size, slope, carries). Index `i` adds ``i * slope`` to the offset, and
#: ``(start + step * i) // weight * factor`` for each carry (start, step, weight, factor).
#: Plain tuples, because Python takes twice as long to unpack named ones.
AxisSlope: TypeAlias = tuple[int, int, tuple[tuple[int, int, int, int], ...]]


#: Size of each cache for views that are made repeatedly, such as rows in a loop.
_CACHE_SIZE = 512


class EqualSteps(NamedTuple):
    """The strides of a view that has one stride along each axis, and its offsets relative to the base of its map.

    Attributes
    ----------
    first : int
        Offset of the first element.
    strides : tuple of int
        Elements from one index to the next along each axis.
    ndarray_strides : tuple of int
        `strides`, with NumPy's contiguous stride in place of 0 for axes of size 1.
    low, high : int
        The least and the greatest offset, if there are elements.
    """

    first: int
    strides: tuple[int, ...]
    ndarray_strides: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class AddressMap:
    """Maps the index of a view to element offsets.

    Attributes
    ----------
    shape : tuple of int
        Shape of the view.
    base : int
        Constant offset added to every address, in elements.
    axes : tuple of tuple of Term
        The terms of each axis: usually one, none for a broadcast axis, two for a diagonal.
    irregular : tuple of IrregularTerm
        Terms that do not split into digits; empty for nearly every layout.
    upper_bound : int
        Greater than every offset.
    """

    shape: tuple[int, ...]
    base: int
    axes: tuple[tuple[Term, ...], ...]
    irregular: tuple[IrregularTerm, ...] = ()
    upper_bound: int = 0

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        # Cached: every conversion looks up its plan by its maps, and hashing the nested tuples is slow.
        return hash((self.shape, self.base, self.axes, self.irregular, self.upper_bound))

    def __reduce__(self) -> tuple[object, ...]:
        return AddressMap, (self.shape, self.base, self.axes, self.irregular, self.upper_bound)

    @staticmethod
    def unchecked(
        shape: tuple[int, ...],
        base: int,
        axes: tuple[tuple[Term, ...], ...],
        irregular: tuple[IrregularTerm, ...],
        upper_bound: int,
    ) -> AddressMap:
        """``AddressMap(...)`` without the dataclass's ``__init__``, which takes three times as long."""
        new = object.__new__(AddressMap)
        new.__dict__.update(shape=shape, base=base, axes=axes, irregular=irregular, upper_bound=upper_bound)
        return new

    @classmethod
    def from_strides(cls, shape: Sequence[int], strides: Sequence[int], base: int = 0) -> AddressMap:
        """The map of a strided array. Strides and `base` count elements; strides may be negative.

        >>> AddressMap.from_strides((2, 3), (3, 1)).offsets().tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        axes = tuple((Term(0, 1, (Digit(1, max(1, n), s),)),) for n, s in zip(shape, strides, strict=True))
        last = base + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
        return cls(tuple(shape), base, axes, (), last + 1 if math.prod(shape) else 0)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @lazy
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_regular(self) -> bool:
        """Whether all terms are digits, so that a loop nest can copy the view."""
        return not self.irregular

    @lazy
    def equal_steps(self) -> EqualSteps | None:
        """Strides and offsets relative to the base; None if an axis has no single stride."""
        return None if self.irregular else _equal_steps(self.shape, self.axes)

    @lazy
    def strides(self) -> tuple[int, ...] | None:
        """Elements from one index to the next along each axis; None if an axis has no single stride."""
        steps = self.equal_steps
        return None if steps is None else steps.strides

    @lazy
    def slopes(self) -> tuple[int, tuple[AxisSlope, ...]]:
        """The regular part of an address as a constant and an `AxisSlope` for each axis.

        >>> from strided.addressing.digits import Digit, Term
        >>> AddressMap((20,), 0, ((Term(1, 2, (Digit(1, 8, 1), Digit(8, 5, 32))),),)).slopes
        (1, ((20, 2, ((1, 2, 8, 24),)),))
        """
        base, found = self.base, []
        for n, terms in zip(self.shape, self.axes, strict=True):
            slope, carries = 0, []
            for start, step, digits in terms:
                if digits:
                    base += start * digits[0].stride
                    slope += step * digits[0].stride
                    carries += [(start, step, *carry) for carry in carries_of(digits)]
            found.append((n, slope, tuple(carries)))
        return base, tuple(found)

    def is_still(self, axis: int) -> bool:
        """Whether all indices along an axis address the same element, as after broadcasting."""
        return self.shape[axis] > 1 and not self.axes[axis] and not any(axis in c.axes for c in self.irregular)

    @property
    def is_spread(self) -> bool:
        """Whether `is_still` holds for any axis."""
        return any(map(self.is_still, range(self.ndim)))

    def offset_of(self, index: Sequence[Offsets | int]) -> Offsets | int:
        """Offset in elements at an index, or at index arrays; indices must be in bounds and not negative."""
        total: Offsets | int = self.base
        for v, terms in zip(index, self.axes, strict=True):
            for term in terms:
                total = total + term.offset_at(v)
        for c in self.irregular:
            total = total + c.offset_at(index)
        return total

    def offsets(self, box: Sequence[tuple[int, int]] | None = None) -> Offsets:
        """Offsets of all elements in a box, ``(start, stop)`` for each axis; by default of the whole view.

        The result takes eight bytes per element, so keep the boxes small.
        """
        box = [(0, n) for n in self.shape] if box is None else box
        ranges = [
            np.arange(a, b, dtype=np.int64).reshape((-1,) + (1,) * (self.ndim - 1 - k)) for k, (a, b) in enumerate(box)
        ]
        offsets = np.empty(tuple(max(0, b - a) for a, b in box), np.int64)
        offsets[...] = self.offset_of(ranges)
        return offsets

    # Views. The caller (`arrays.classify`) has checked the indices.

    def at(self, axis: int, i: int) -> AddressMap:
        """The view at one index of an axis; that axis is removed."""
        base = self.base + sum(int(t.offset_at(i)) for t in self.axes[axis])
        kept = [k for k in range(self.ndim) if k != axis]
        irregular = tuple(c.moved(axis, i, 0).with_steps(kept) for c in self.irregular)
        return AddressMap(
            tuple(self.shape[k] for k in kept), base, tuple(self.axes[k] for k in kept), irregular, self.upper_bound
        )

    def sliced(self, axis: int, start: int, step: int, count: int) -> AddressMap:
        """The view of indices ``start, start + step, ...`` of an axis, `count` of them."""
        terms = tuple([t.moved(start, step) for t in self.axes[axis]])
        return AddressMap(
            (*self.shape[:axis], count, *self.shape[axis + 1 :]),
            self.base,
            (*self.axes[:axis], terms, *self.axes[axis + 1 :]),
            tuple(c.moved(axis, start, step) for c in self.irregular),
            self.upper_bound,
        )

    def with_axis(self, axis: int) -> AddressMap:
        """The view with a new axis of size 1 in front of `axis`."""
        order: list[int | None] = [*range(axis), None, *range(axis, self.ndim)]
        return AddressMap(
            (*self.shape[:axis], 1, *self.shape[axis:]),
            self.base,
            (*self.axes[:axis], (), *self.axes[axis:]),
            tuple(c.with_steps(order) for c in self.irregular),
            self.upper_bound,
        )

    def transposed(self, axes: Sequence[int]) -> AddressMap:
        """The view whose axis k is axis ``axes[k]`` of this one."""
        return AddressMap.unchecked(
            tuple(map(self.shape.__getitem__, axes)),
            self.base,
            tuple(map(self.axes.__getitem__, axes)),
            self.irregular and tuple(c.with_steps(axes) for c in self.irregular),
            self.upper_bound,
        )

    @property
    def reversed_axes(self) -> AddressMap:
        """The view with its axes reversed. Returns the same object each time: conversions are cached by identity."""
        # The map holds its reverse, and the reverse refers to the map weakly: a cycle would need the garbage collector.
        made_for = self.__dict__.get("_reverse_of")
        found: AddressMap | None = None if made_for is None else made_for()
        return self._reversed_axes if found is None else found

    @lazy
    def _reversed_axes(self) -> AddressMap:
        found = self.transposed(range(self.ndim)[::-1])
        found.__dict__["_reverse_of"] = weakref.ref(self)
        return found

    def scaled(self, factor: int, shift: int = 0) -> AddressMap:
        """The view whose offsets are ``factor`` times those of this one, plus `shift`.

        In halves of complex elements, ``scaled(2)`` maps the real parts and ``scaled(2, 1)`` the imaginary ones.

        >>> AddressMap.from_strides((3,), (1,)).scaled(2, 1).offsets().tolist()
        [1, 3, 5]
        """
        axes = tuple(
            tuple(Term(t.start, t.step, tuple(d._replace(stride=d.stride * factor) for d in t.digits)) for t in terms)
            for terms in self.axes
        )
        irregular = tuple(replace(c, exprs=tuple((e, s * factor) for e, s in c.exprs)) for c in self.irregular)
        return AddressMap(self.shape, self.base * factor + shift, axes, irregular, self.upper_bound * factor)

    def groups(self, axis: int, each: int) -> AddressMap | None:
        """The view of groups of `each` consecutive elements along an axis; offsets count such groups.

        An incomplete last group is left out. None if the elements of a group are not consecutive in the buffer, or a
        group begins at an offset that is no multiple of `each`: then packed elements do not fill whole bytes.

        >>> map_ = AddressMap.from_strides((2, 9), (16, 1), 4)
        >>> map_.groups(1, 4).offsets().tolist(), map_.groups(1, 8), map_.groups(0, 2)
        ([[1, 2], [5, 6]], None, None)
        """
        if self.irregular or self.base % each:
            return None
        axes = list(self.axes)
        for k, terms in enumerate(self.axes):
            found = [t.groups(each, along=k == axis) for t in terms]
            if None in found or (k == axis and len(terms) != 1):
                return None
            axes[k] = tuple(t for t in found if t is not None)
        shape = (*self.shape[:axis], self.shape[axis] // each, *self.shape[axis + 1 :])
        return AddressMap(shape, self.base // each, tuple(axes), (), -(-self.upper_bound // each))

    def broadcast_to(self, shape: Sequence[int]) -> AddressMap:
        """The view broadcast to a shape. The caller has checked that it broadcasts."""
        wanted = tuple(shape)
        return self if wanted == self.shape else _broadcast(self, wanted)

    def diagonal(self, offset: int, axis1: int, axis2: int) -> AddressMap:
        """The view of ``index[axis1] + offset == index[axis2]``; the diagonal becomes the last axis."""
        first, second = max(0, -offset), max(0, offset)
        count = max(0, min(self.shape[axis1] - first, self.shape[axis2] - second))
        view = self.sliced(axis1, first, 1, count).sliced(axis2, second, 1, count)
        kept = [k for k in range(self.ndim) if k not in (axis1, axis2)]
        irregular = tuple(
            replace(c, coordinates=tuple((s, (*(t[k] for k in kept), t[axis1] + t[axis2])) for s, t in c.coordinates))
            for c in view.irregular
        )
        terms = view.axes[axis1] + view.axes[axis2]
        shape = (*(self.shape[k] for k in kept), count)
        return AddressMap(shape, self.base, (*(self.axes[k] for k in kept), terms), irregular, self.upper_bound)

    def reshaped(self, shape: Sequence[int]) -> AddressMap | None:
        """The view reshaped in row-major order, or None if that needs a copy.

        Joined axes must fill their digits: ``{1,0:T(2,2)}`` with 3 columns cannot be raveled without a copy.
        """
        if self.size == 0:
            return replace(AddressMap.from_strides(shape, (0,) * len(shape), self.base), upper_bound=self.upper_bound)
        if tuple(shape) == self.shape:
            return self
        if self.irregular:
            return None
        return _reshaped(self, tuple(shape))


# --- cached by value, so that a view that is made again is found, too -------------------------------------------------


@lru_cache(maxsize=_CACHE_SIZE)
def _equal_steps(shape: tuple[int, ...], axes: tuple[tuple[Term, ...], ...]) -> EqualSteps | None:
    first = low = high = 0
    strides = []
    for n, terms in zip(shape, axes, strict=True):
        stride = 0
        for term in terms:
            linear = term.linear(n)
            if linear is None or not linear[1].is_linear:
                return None
            stride += sum(d.stride for d in linear[1].digits)
            first += int(term.offset_at(0))
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
        strides.append(stride)
    as_numpy, next_ = strides.copy(), 1
    for k in reversed(range(len(shape))):
        if shape[k] == 1 and not strides[k]:
            as_numpy[k] = next_
        next_ = abs(as_numpy[k]) * shape[k]
    return EqualSteps(first, tuple(strides), tuple(as_numpy), first + low, first + high)


@lru_cache(maxsize=_CACHE_SIZE)
def _broadcast(map_: AddressMap, shape: tuple[int, ...]) -> AddressMap:
    base = map_.base
    order: list[int | None] = [None] * (len(shape) - map_.ndim)
    for k, (n, own) in enumerate(zip(shape[len(order) :], map_.shape, strict=True)):
        if n != own:
            base += sum(int(t.offset_at(0)) for t in map_.axes[k])
        order.append(k if n == own else None)
    axes = tuple(() if k is None else map_.axes[k] for k in order)
    irregular = tuple(c.with_steps(order) for c in map_.irregular)
    return AddressMap(shape, base, axes, irregular, map_.upper_bound)


@lru_cache(maxsize=_CACHE_SIZE)
def _reshaped(map_: AddressMap, shape: tuple[int, ...]) -> AddressMap | None:
    found = regrouped(map_.shape, map_.axes, shape)
    return None if found is None else AddressMap(shape, map_.base + found[0], found[1], (), map_.upper_bound)
