"""Where an element lies: an address as a sum of digits.

Permuting, tiling and re-tiling only ever split a coordinate into digits, and the place of an element is the sum of its
digits, each times a stride::

    offset = base + sum over coordinates c, over the digits of c, of ((c // weight) % size) * stride

An `AddressMap` is that sum seen through a window: each coordinate is an affine function ``start + step * v`` of the
index `v` along one axis of the view. Slicing, transposing, new axes, broadcasting and diagonals only change the affine
part, so views cost nothing.

Two things do not reduce to digits: a tile that divides an earlier tile unevenly, and a combined dimension (``*``) that
a tile cuts across. They stay *nodes*, small expressions evaluated as they stand: exact, only slower.

Words: an *index* is logical, one integer a dimension; an *offset* counts elements from the start of the buffer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from strided.nodes import Node, Offsets, dimensions_of, evaluate
from strided.once import once

# --- digits -----------------------------------------------------------------------------------------------------------


class Digit(NamedTuple):
    """One digit of a coordinate: it moves an element by ``((c // weight) % size) * stride`` elements.

    The digits of a coordinate are listed minor first; each weight is the product of the sizes before it. The size of
    the last digit is large enough for every coordinate in bounds, so its ``% size`` changes nothing.
    """

    weight: int
    size: int
    stride: int


@lru_cache(maxsize=4096)
def _carries(digits: tuple[Digit, ...]) -> tuple[tuple[int, int], ...]:
    """Weights and factors that turn a coordinate c into an offset: ``c * first stride + sum of c // weight * factor``.

    ``c // weight % size`` is ``c // weight - c // (weight * size) * size``, and the weights follow each other, so every
    digit after the first costs one division: a carry that takes back what the digit before it counted too far.
    """
    return tuple((b.weight, b.stride - a.size * a.stride) for a, b in itertools.pairwise(digits))


class Term(NamedTuple):
    """What one coordinate, ``start + step * v``, adds to the offset of the element at `v` along an axis."""

    start: int
    step: int
    digits: tuple[Digit, ...]

    def offset_at(self, v: Offsets | int) -> Offsets | int:
        """Elements that this term adds at index `v` of its axis."""
        c = self.start + self.step * v
        total: Offsets | int = c * self.digits[0].stride if self.digits else c * 0
        for weight, factor in _carries(self.digits):
            total = total + c // weight * factor
        return total

    def moved(self, start: int) -> Term:
        """The term of indices counted from another one."""
        return Term(self.start + self.step * start, self.step, self.digits)

    @property
    def carries(self) -> tuple[tuple[int, int], ...]:
        """Weights and factors: the offset at coordinate c is the sum of ``c // weight * factor``.

        >>> Term(0, 1, (Digit(1, 4, 1), Digit(4, 5, 32))).carries
        ((1, 1), (4, 28))
        """
        return ((1, self.digits[0].stride), *_carries(self.digits)) if self.digits else ()

    @property
    def is_linear(self) -> bool:
        """Whether equal steps along the axis are equal steps in the buffer."""
        return len(self.digits) <= 1

    def linear(self, count: int) -> tuple[int, Term] | None:
        """A constant and an equal term that starts at 0 with step 1, for `count` indices; None where digits forbid.

        >>> Term(8, 4, (Digit(1, 4, 1), Digit(4, 5, 32))).linear(3)
        (64, Term(start=0, step=1, digits=(Digit(weight=1, size=3, stride=32),)))
        """
        if count <= 1:
            return int(self.offset_at(0)) if count else 0, Term(0, 1, ())
        if not self.digits:
            return 0, Term(0, 1, (Digit(1, count, 0),))
        digits, start, base = list(self.digits), self.start, 0
        # Digits that stay as they are all along the window are a constant.
        while len(digits) > 1:
            top = digits[-1]
            if start // top.weight != (start + self.step * (count - 1)) // top.weight:
                break
            base += start // top.weight * top.stride
            start %= top.weight
            digits.pop()
        top = digits.pop()
        base += start // top.weight * top.stride
        if start % top.weight == 0 and self.step % top.weight == 0:
            return base, Term(0, 1, (Digit(1, count, self.step // top.weight * top.stride),))
        if self.step != 1 or start % top.weight:
            return None
        return base, Term(0, 1, (*digits, Digit(top.weight, -(-count // top.weight), top.stride)))


@dataclass(frozen=True, slots=True)
class Coupled:
    """Nodes that are no digits: they add ``node(coordinates) * stride``.

    Attributes
    ----------
    nodes : tuple of (Node, int)
        Expressions and their strides in elements.
    coordinates : tuple of (int, tuple of int)
        For every logical dimension its start, and its step along each axis of the view.
    """

    nodes: tuple[tuple[Node, int], ...]
    coordinates: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def axes(self) -> frozenset[int]:
        """The axes of the view that these nodes depend on."""
        used = {d for node, _ in self.nodes for d in dimensions_of(node)}
        return frozenset(k for d in used for k, step in enumerate(self.coordinates[d][1]) if step)

    def offset_at(self, view_index: Sequence[Offsets | int]) -> Offsets | int:
        """Elements that these nodes add at an index of the view."""
        at: list[Offsets | int] = []
        for start, steps in self.coordinates:
            c: Offsets | int = start
            for v, step in zip(view_index, steps, strict=True):
                if step:
                    c = c + v * step
            at.append(c)
        total: Offsets | int = 0
        for node, stride in self.nodes:
            total = total + evaluate(node, at) * stride
        return total

    def moved(self, axis: int, start: int, step: int) -> Coupled:
        """The same, with index `v` of an axis replaced by ``start + step * v``."""
        return replace(
            self,
            coordinates=tuple(
                (c + steps[axis] * start, (*steps[:axis], steps[axis] * step, *steps[axis + 1 :]))
                for c, steps in self.coordinates
            ),
        )

    def with_steps(self, axes: Sequence[int | None]) -> Coupled:
        """The same, seen along other axes: for each new axis the old one, or None where it changes nothing."""
        return replace(
            self,
            coordinates=tuple((c, tuple(0 if k is None else steps[k] for k in axes)) for c, steps in self.coordinates),
        )


# --- the map ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddressMap:
    """From the index of a view to element offsets.

    Attributes
    ----------
    shape : tuple of int
        Shape of the view.
    base : int
        Offset of nothing: what is added to every element's terms, in elements.
    axes : tuple of tuple of Term
        The terms of each axis. None or several are possible: a broadcast axis has none, a diagonal two.
    coupled : tuple of Coupled
        What is not a sum over axes of digits; empty for nearly every layout.
    reach : int
        Every offset is below this.
    """

    shape: tuple[int, ...]
    base: int
    axes: tuple[tuple[Term, ...], ...]
    coupled: tuple[Coupled, ...] = ()
    reach: int = 0

    def __hash__(self) -> int:
        # Plans are looked up by their maps at every conversion, and a map is deep.
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((self.shape, self.base, self.axes, self.coupled, self.reach))
            self.__dict__["_hash"] = found
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return AddressMap, (self.shape, self.base, self.axes, self.coupled, self.reach)

    @staticmethod
    def made(
        shape: tuple[int, ...],
        base: int,
        axes: tuple[tuple[Term, ...], ...],
        coupled: tuple[Coupled, ...],
        reach: int,
    ) -> AddressMap:
        """As ``AddressMap(...)``, in a third of the time: views are made of it."""
        made = object.__new__(AddressMap)
        made.__dict__.update(shape=shape, base=base, axes=axes, coupled=coupled, reach=reach)
        return made

    @classmethod
    def from_strides(cls, shape: Sequence[int], strides: Sequence[int], base: int = 0) -> AddressMap:
        """The map of a plain strided array; strides and `base` in elements, negative strides as NumPy has them.

        >>> AddressMap.from_strides((2, 3), (3, 1)).offsets().tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        axes = tuple((Term(0, 1, (Digit(1, max(1, n), s),)),) for n, s in zip(shape, strides, strict=True))
        last = base + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
        return cls(tuple(shape), base, axes, (), last + 1 if math.prod(shape) else 0)

    @property
    def ndim(self) -> int:
        """Axes of the view."""
        return len(self.shape)

    @once
    def size(self) -> int:
        """Elements of the view."""
        return math.prod(self.shape)

    @property
    def is_regular(self) -> bool:
        """Whether all of it is digits, so that it can be carried out as a nest of loops."""
        return not self.coupled

    @once
    def is_separable(self) -> bool:
        """Whether offsets are a sum of one table an axis."""
        return all(len(c.axes) <= 1 for c in self.coupled)

    @once
    def strides(self) -> tuple[int, ...] | None:
        """Elements from one index to the next along each axis; None where that is not the same everywhere."""
        if self.coupled:
            return None
        strides = []
        for n, terms in zip(self.shape, self.axes, strict=True):
            linear = [t.linear(n) for t in terms]
            if any(found is None or not found[1].is_linear for found in linear):
                return None
            strides.append(sum(d.stride for found in linear if found for d in found[1].digits))
        return tuple(strides)

    def offset_of(self, index: Sequence[Offsets | int]) -> Offsets | int:
        """Offset of the element at an index within bounds (no negative ones), or at arrays of them, in elements."""
        total: Offsets | int = self.base
        for v, terms in zip(index, self.axes, strict=True):
            for term in terms:
                total = total + term.offset_at(v)
        for c in self.coupled:
            total = total + c.offset_at(index)
        return total

    def axis_offsets(self, axis: int, start: int = 0, stop: int | None = None) -> Offsets:
        """What the indices from `start` to `stop` of one axis add to an element's offset, in elements.

        Of a separable map, ``base`` plus one such number an axis is the offset, apart from coupled parts that depend on
        no axis at all (see `constant`).
        """
        v = np.arange(start, self.shape[axis] if stop is None else stop, dtype=np.int64)
        total = np.zeros(v.shape, np.int64)
        for term in self.axes[axis]:
            total += term.offset_at(v)
        zeros: list[Offsets | int] = [0] * self.ndim
        for c in self.coupled:
            if c.axes == {axis}:
                total += c.offset_at([*zeros[:axis], v, *zeros[axis + 1 :]])
        return total

    @once
    def constant(self) -> int:
        """`base`, and the coupled parts that depend on no axis."""
        return self.base + sum(int(c.offset_at([0] * self.ndim)) for c in self.coupled if not c.axes)

    def offsets(self, box: Sequence[tuple[int, int]] | None = None) -> Offsets:
        """Offsets of all elements in a box of the view, ``(start, stop)`` an axis; of the whole view without one.

        The result takes eight bytes an element: ask for boxes of bounded size.
        """
        box = [(0, n) for n in self.shape] if box is None else box
        ranges = [
            np.arange(a, b, dtype=np.int64).reshape((-1,) + (1,) * (self.ndim - 1 - k)) for k, (a, b) in enumerate(box)
        ]
        offsets = np.empty(tuple(max(0, b - a) for a, b in box), np.int64)
        offsets[...] = self.offset_of(ranges)
        return offsets

    # Views. Indices are checked by the caller (`indexing`).

    def at(self, axis: int, i: int) -> AddressMap:
        """The view at one index of an axis, which goes."""
        base = self.base + sum(int(t.offset_at(i)) for t in self.axes[axis])
        kept = [k for k in range(self.ndim) if k != axis]
        coupled = tuple(c.moved(axis, i, 0).with_steps(kept) for c in self.coupled)
        return AddressMap(
            tuple(self.shape[k] for k in kept), base, tuple(self.axes[k] for k in kept), coupled, self.reach
        )

    def sliced(self, axis: int, start: int, step: int, count: int) -> AddressMap:
        """The view of indices ``start, start + step, ...`` of an axis, `count` of them."""
        terms = tuple(Term(t.start + t.step * start, t.step * step, t.digits) for t in self.axes[axis])
        return AddressMap(
            (*self.shape[:axis], count, *self.shape[axis + 1 :]),
            self.base,
            (*self.axes[:axis], terms, *self.axes[axis + 1 :]),
            tuple(c.moved(axis, start, step) for c in self.coupled),
            self.reach,
        )

    def with_axis(self, axis: int, size: int = 1) -> AddressMap:
        """The view with one more axis before `axis`, along which nothing changes."""
        order: list[int | None] = [*range(axis), None, *range(axis, self.ndim)]
        return AddressMap(
            (*self.shape[:axis], size, *self.shape[axis:]),
            self.base,
            (*self.axes[:axis], (), *self.axes[axis:]),
            tuple(c.with_steps(order) for c in self.coupled),
            self.reach,
        )

    def transposed(self, axes: Sequence[int]) -> AddressMap:
        """The view whose axis k is axis ``axes[k]`` of this one."""
        return AddressMap(
            tuple(self.shape[k] for k in axes),
            self.base,
            tuple(self.axes[k] for k in axes),
            tuple(c.with_steps(axes) for c in self.coupled),
            self.reach,
        )

    def scaled(self, factor: int, shift: int = 0) -> AddressMap:
        """The view whose offsets are ``factor`` times those of this one, plus `shift`.

        The real parts of complex numbers lie at twice their offsets, counted in halves, the imaginary ones at one more.

        >>> AddressMap.from_strides((3,), (1,)).scaled(2, 1).offsets().tolist()
        [1, 3, 5]
        """
        axes = tuple(
            tuple(Term(t.start, t.step, tuple(d._replace(stride=d.stride * factor) for d in t.digits)) for t in terms)
            for terms in self.axes
        )
        coupled = tuple(replace(c, nodes=tuple((n, stride * factor) for n, stride in c.nodes)) for c in self.coupled)
        return AddressMap(self.shape, self.base * factor + shift, axes, coupled, self.reach * factor)

    def broadcast_to(self, shape: Sequence[int]) -> AddressMap:
        """The view broadcast to a shape that it broadcasts to."""
        view = self
        for _ in range(len(shape) - self.ndim):
            view = view.with_axis(0)
        for k, n in enumerate(shape):
            if view.shape[k] != n:
                view = view.at(k, 0).with_axis(k, n)
        return view

    def diagonal(self, offset: int, axis1: int, axis2: int) -> AddressMap:
        """The view along ``index[axis1] + offset == index[axis2]``, as a last axis."""
        first, second = max(0, -offset), max(0, offset)
        count = max(0, min(self.shape[axis1] - first, self.shape[axis2] - second))
        view = self.sliced(axis1, first, 1, count).sliced(axis2, second, 1, count)
        kept = [k for k in range(self.ndim) if k not in (axis1, axis2)]
        coupled = tuple(
            replace(c, coordinates=tuple((s, (*(t[k] for k in kept), t[axis1] + t[axis2])) for s, t in c.coordinates))
            for c in view.coupled
        )
        terms = view.axes[axis1] + view.axes[axis2]
        shape = (*(self.shape[k] for k in kept), count)
        return AddressMap(shape, self.base, (*(self.axes[k] for k in kept), terms), coupled, self.reach)

    def reshaped(self, shape: Sequence[int]) -> AddressMap | None:
        """The view with another shape of as many elements in the same (row-major) order; None where digits forbid it.

        Axes that are joined must fill their digits: ``{1,0:T(2,2)}`` of 3 columns cannot be raveled, of 4 it can
        where the digits of the rows follow on.
        """
        if self.size == 0:
            return replace(AddressMap.from_strides(shape, (0,) * len(shape), self.base), reach=self.reach)
        if self.coupled:
            return None
        base = self.base + sum(
            int(t.offset_at(0)) for n, own in zip(self.shape, self.axes, strict=True) if n == 1 for t in own
        )
        reshaped: list[tuple[Term, ...]] = []
        old = [(k, n) for k, n in enumerate(self.shape) if n != 1]
        for joined, cut in _groups(old, [n for n in shape if n != 1]):
            if len(joined) == len(cut) == 1:
                reshaped.append(self.axes[joined[0]])
                continue
            number = _joined([(self.shape[k], self.axes[k]) for k in joined])
            pieces = None if number is None else _cut(number[1], cut)
            if number is None or pieces is None:
                return None
            base += number[0]
            reshaped += [(Term(0, 1, piece),) for piece in pieces]
        terms = iter(reshaped)
        return AddressMap(tuple(shape), base, tuple(() if n == 1 else next(terms) for n in shape), (), self.reach)


def _groups(old: list[tuple[int, int]], new: list[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes (number, size) and of new sizes that have equal products."""
    groups = []
    while old:
        (k, have), want = old.pop(0), new.pop(0)
        joined, cut = [k], [want]
        while have != want:
            if have < want:
                k, n = old.pop(0)
                joined.append(k)
                have *= n
            else:
                cut.append(new.pop(0))
                want *= cut[-1]
        groups.append((joined, cut))
    return groups


def _joined(axes: list[tuple[int, tuple[Term, ...]]]) -> tuple[int, list[Digit]] | None:
    """A constant and the digits of axes (size, terms), major first, as one number; None if they do not fill."""
    base = 0
    digits: list[Digit] = []
    for position, (n, terms) in reversed(list(enumerate(axes))):
        linear = [t.linear(n) for t in terms]
        found = [f for f in linear if f is not None]
        if len(found) < len(linear):
            return None
        base += sum(constant for constant, _ in found)
        own: tuple[Digit, ...]
        if all(t.is_linear for _, t in found):
            own = (Digit(1, n, sum(d.stride for _, t in found for d in t.digits)),)
        elif len(found) == 1:
            own = found[0][1].digits
        else:
            return None
        below = math.prod(d.size for d in own[:-1])
        if position and n % below:
            return None
        for digit in (*own[:-1], own[-1]._replace(size=-(-n // below))):
            # One digit where one goes on where the other ends, so that a cut tears nothing that is whole.
            if digits and digit.stride == digits[-1].stride * digits[-1].size:
                digits[-1] = digits[-1]._replace(size=digits[-1].size * digit.size)
            else:
                digits.append(digit)
    return base, digits


def _cut(digits: list[Digit], sizes: list[int]) -> list[tuple[Digit, ...]] | None:
    """The digits of one number shared out to axes of these sizes, major first; None where a digit would be torn."""
    left = [(d.size, d.stride) for d in digits]
    pieces: list[tuple[Digit, ...]] = []
    for n in reversed(sizes):
        piece: list[Digit] = []
        weight = 1
        while weight < n:
            size, stride = left.pop(0)
            if weight * size > n and left:
                if n % weight or size % (n // weight):
                    return None
            elif weight * size > n and n % weight:
                return None
            if weight * size > n:
                left.insert(0, (-(-size * weight // n), stride * (n // weight)))
                size = n // weight
            elif n % (weight * size) and left:
                return None
            piece.append(Digit(weight, size, stride))
            weight *= size
        pieces.insert(0, tuple(piece))
    return pieces
