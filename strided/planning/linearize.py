"""Maps whose ``*`` tiles cut across dimensions, as digits again.

A ``*`` in a tile counts two dimensions as one. If the tile then cuts across them, the offset of an element is no sum
over axes, but digits of *one* number, such as ``60 * i + j``. If the view has both axes whole, and the other side of
the copy steps along them as along one, that number becomes an axis of the copy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from strided.addressing.address_map import AddressMap, IrregularTerm
from strided.addressing.digits import Digit, Term
from strided.addressing.index_expr import Combined, Coordinate, IndexExpr, Quotient, Remainder, Zero
from strided.planning.axis_maps import ENDLESS


class _Number(NamedTuple):
    """``start`` plus every index of the view times its step."""

    start: int
    steps: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that it depends on, largest step first."""
        return tuple(sorted((k for k, step in enumerate(self.steps) if step), key=lambda k: -abs(self.steps[k])))


class _NumberDigit(NamedTuple):
    """``(number // weight) % size``; size 0 means no end."""

    number: _Number
    weight: int
    size: int


class _Partial(NamedTuple):
    """A map whose irregular terms are digits of numbers."""

    map: AddressMap
    numbers: tuple[tuple[_Number, tuple[Digit, ...]], ...]


def linearized(source: AddressMap, target: AddressMap) -> tuple[AddressMap, AddressMap] | None:
    """The same copy between regular maps, or None.

    Axes may be reordered and joined, on both sides alike.
    """
    sides = []
    for map_ in (source, target):
        found = [_digits_of(irregular, map_.ndim) for irregular in map_.irregular]
        numbers = tuple(f for f in found if f is not None)
        if len(numbers) < len(found):
            return None
        sides.append(_Partial(replace(map_, irregular=()), numbers))
    while True:
        wide = next((n.axes for side in sides for n, _ in side.numbers if len(n.axes) > 1), None)
        if wide is None:
            first, second = (_settled(side) for side in sides)
            return first, second
        joined = [_joined(side, wide) for side in sides]
        if joined[0] is None or joined[1] is None:
            return None
        sides = [joined[0], joined[1]]


def _digits_of(irregular: IrregularTerm, ndim: int) -> tuple[_Number, tuple[Digit, ...]] | None:
    """The one number whose digits the expressions are, and these digits; None if they are something else."""
    found = [(_digit(expr, irregular, ndim), stride) for expr, stride in irregular.exprs]
    numbers = {digit.number for digit, _ in found if digit is not None}
    if len(numbers) != 1 or any(digit is None for digit, _ in found):
        return None
    known = [(digit, stride) for digit, stride in found if digit is not None]
    weights = sorted({1, *(p.weight for p, _ in known), *(p.weight * p.size for p, _ in known if p.size)})
    if any(high % low for low, high in pairwise(weights)):
        return None
    digits = []
    for low, high in zip(weights, [*weights[1:], 0], strict=True):
        stride = sum(
            s * (low // p.weight) for p, s in known if p.weight <= low and (not p.size or low < p.weight * p.size)
        )
        digits.append(Digit(low, high // low or ENDLESS, stride))
    return numbers.pop(), tuple(digits)


def _digit(expr: IndexExpr, irregular: IrregularTerm, ndim: int) -> _NumberDigit | None:
    """An expression as a digit of a number, or None."""
    number = _number(expr, irregular, ndim)
    if number is not None:
        return _NumberDigit(number, 1, 0)
    if not isinstance(expr, Quotient | Remainder):
        return None
    digit = _digit(expr.of, irregular, ndim)
    if digit is None:
        return None
    weight, size, by = digit.weight, digit.size, expr.divisor
    if isinstance(expr, Remainder):
        if size and size <= by:
            return digit
        return None if size % by else digit._replace(size=by)
    if size and size <= by:
        return None
    return None if size % by else digit._replace(weight=weight * by, size=size // by)


def _number(expr: IndexExpr, irregular: IrregularTerm, ndim: int) -> _Number | None:
    """An expression as an affine number of `ndim` indices, or None if something in it is divided."""
    match expr:
        case Coordinate(dimension):
            return _Number(*irregular.coordinates[dimension])
        case Zero():
            return _Number(0, (0,) * ndim)
        case Combined(major, minor, size):
            high, low = (_number(part, irregular, ndim) for part in (major, minor))
            if high is None or low is None:
                return None
            steps = tuple(h * size + s for h, s in zip(high.steps, low.steps, strict=True))
            return _Number(high.start * size + low.start, steps)
    return None


def _settled(side: _Partial) -> AddressMap:
    """The map with each number, which depends on one axis at most, as a term of that axis."""
    base, axes = side.map.base, list(side.map.axes)
    for number, digits in side.numbers:
        if number.axes:
            place = number.axes[0]
            axes[place] = (*axes[place], Term(number.start, number.steps[place], digits))
        else:
            base += int(Term(number.start, 0, digits).offset_at(0))
    return replace(side.map, base=base, axes=tuple(axes))


def _joined(side: _Partial, axes: tuple[int, ...]) -> _Partial | None:
    """The same with some axes, major first, joined to one axis at the end, or None if they do not follow on."""
    map_ = side.map
    extents = [map_.shape[k] for k in axes]
    # Indices of the joined axis from one index of each axis to the next.
    spacing = [math.prod(extents[n + 1 :]) for n in range(len(axes))]
    base, strides = map_.base, []
    for k, extent in zip(axes, extents, strict=True):
        linear = [term.linear(extent) for term in map_.axes[k]]
        if any(found is None or len(found[1].digits) > 1 for found in linear):
            return None
        base += sum(found[0] for found in linear if found)
        strides.append(sum(digit.stride for found in linear if found for digit in found[1].digits))
    step = _common_step(strides, spacing)
    if step is None:
        return None
    kept = [k for k in range(map_.ndim) if k not in axes]
    numbers = []
    for number, digits in side.numbers:
        along = _common_step([number.steps[k] for k in axes], spacing)
        if along is None:
            return None
        numbers.append((_Number(number.start, (*(number.steps[k] for k in kept), along)), digits))
    shape = (*(map_.shape[k] for k in kept), math.prod(extents))
    terms = (Term(0, 1, (Digit(1, shape[-1], step),)),)
    return _Partial(
        AddressMap(shape, base, (*(map_.axes[k] for k in kept), terms), (), map_.upper_bound), tuple(numbers)
    )


def _common_step(steps: list[int], spacing: list[int]) -> int | None:
    """The step along a joined axis that gives these steps along its parts, or None."""
    step = steps[-1]
    return step if all(s == step * n for s, n in zip(steps, spacing, strict=True)) else None
