"""The digits of a coordinate, and the offset that each adds.

Permuting, tiling and re-tiling only split coordinates into digits, and the offset of an element is the sum of its
digits, each times a stride::

    offset = base + sum over coordinates c, over the digits of c, of ((c // weight) % size) * stride

A `Term` is that sum for one coordinate, seen through a window: the coordinate is ``start + step * v`` at index `v`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from strided.runtime.aliases import Offsets


class Digit(NamedTuple):
    """One digit of a coordinate: it moves an element by ``((c // weight) % size) * stride`` elements.

    The digits of a coordinate are listed minor first; each weight is the product of the sizes before it. The size of
    the last digit is large enough for every coordinate in bounds, so its ``% size`` changes nothing.
    """

    weight: int
    size: int
    stride: int


@lru_cache(maxsize=4096)
def carries_of(digits: tuple[Digit, ...]) -> tuple[tuple[int, int], ...]:
    """Weights and factors that turn a coordinate c into an offset: ``c * first stride + sum of c // weight * factor``.

    ``c // weight % size`` is ``c // weight - c // (weight * size) * size``, and the weights follow each other, so every
    digit after the first costs one division: a carry that takes back what the digit before it counted too far.
    """
    return tuple((b.weight, b.stride - a.size * a.stride) for a, b in itertools.pairwise(digits))


class Term(NamedTuple):
    """The offset that one coordinate, ``start + step * v``, adds at index `v` of an axis."""

    start: int
    step: int
    digits: tuple[Digit, ...]

    def offset_at(self, v: Offsets | int) -> Offsets | int:
        """Elements that this term adds at index `v` of its axis."""
        c = v if (self.start, self.step) == (0, 1) else self.start + self.step * v
        total: Offsets | int = c * self.digits[0].stride if self.digits else c * 0
        for weight, factor in carries_of(self.digits):
            carry = c // weight
            # In place where they are arrays: new memory costs more than the arithmetic.
            carry *= factor
            total += carry
        return total

    def moved(self, start: int, step: int = 1) -> Term:
        """The term with index `v` of its axis replaced by ``start + step * v``.

        >>> Term(8, 2, (Digit(1, 128, 1),)).moved(3, -1)
        Term(start=14, step=-2, digits=(Digit(weight=1, size=128, stride=1),))
        """
        return Term(self.start + self.step * start, self.step * step, self.digits)

    @property
    def is_linear(self) -> bool:
        """Whether equal steps along the axis are equal steps in the buffer."""
        return len(self.digits) <= 1

    def linear(self, count: int) -> tuple[int, Term] | None:
        """A constant and an equal term that starts at 0 with step 1, for `count` indices, or None if digits forbid.

        >>> Term(8, 4, (Digit(1, 4, 1), Digit(4, 5, 32))).linear(3)
        (64, Term(start=0, step=1, digits=(Digit(weight=1, size=3, stride=32),)))
        """
        if count <= 1:
            return int(self.offset_at(0)) if count else 0, Term(0, 1, ())
        if not self.digits:
            return 0, Term(0, 1, (Digit(1, count, 0),))
        digits, start, base = list(self.digits), self.start, 0
        # Digits that never change in the window are a constant.
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

    def groups(self, each: int, *, along: bool) -> Term | None:
        """What the coordinate adds where elements are counted in groups of `each`, or None if its digits forbid it.

        With `along`, groups follow one another along the axis, and its index counts them; else all strides must be
        multiples of `each`.

        >>> Term(0, 1, (Digit(1, 128, 1), Digit(128, 3, 1024))).groups(4, along=True)
        Term(start=0, step=1, digits=(Digit(weight=1, size=32, stride=1), Digit(weight=32, size=3, stride=256)))
        """
        if not along:
            if any(d.stride % each for d in self.digits):
                return None
            return self._replace(digits=tuple(d._replace(stride=d.stride // each) for d in self.digits))
        first, *others = self.digits or (Digit(1, 1, 0),)
        aligned = self.step == 1 and self.start % each == 0 and first.stride == 1
        if not aligned or any(d.weight % each or d.stride % each for d in others):
            return None
        digits = [Digit(d.weight // each, d.size, d.stride // each) for d in others]
        return Term(self.start // each, 1, (Digit(1, -(-first.size // each), 1), *digits))


def offsets_along(terms: Iterable[Term], at: Offsets) -> Offsets:
    """Elements that the terms of one axis add at some of its indices.

    >>> offsets_along([Term(0, 1, (Digit(1, 4, 1), Digit(4, 5, 32)))], np.arange(6)).tolist()
    [0, 1, 2, 3, 32, 33]
    """
    return sum((np.asarray(term.offset_at(at)) for term in terms), np.zeros(at.shape, np.int64))


def append_joined(digits: list[Digit], digit: Digit) -> None:
    """Append a digit; one that goes on where the last one ends only makes that larger.

    >>> digits = [Digit(1, 4, 1)]
    >>> append_joined(digits, Digit(4, 2, 4))
    >>> digits
    [Digit(weight=1, size=8, stride=1)]
    """
    if digits and digit.stride == digits[-1].stride * digits[-1].size:
        digits[-1] = digits[-1]._replace(size=digits[-1].size * digit.size)
    else:
        digits.append(digit)


def regrouped(
    shape: Sequence[int], axes: Sequence[tuple[Term, ...]], sizes: Sequence[int]
) -> tuple[int, tuple[tuple[Term, ...], ...]] | None:
    """A constant, and the terms of axes of other sizes over the same elements in row-major order.

    None if digits forbid it: axes that are joined must fill their digits, and a cut must not tear one. No size is 0.

    >>> rows, columns = Term(0, 1, (Digit(1, 2, 1), Digit(2, 2, 8))), Term(0, 1, (Digit(1, 2, 2), Digit(2, 2, 4)))
    >>> regrouped((4, 4), ((rows,), (columns,)), (2, 8))[1][0]
    (Term(start=0, step=1, digits=(Digit(weight=1, size=2, stride=8),)),)
    """
    base = sum(int(t.offset_at(0)) for n, own in zip(shape, axes, strict=True) if n == 1 for t in own)
    terms: list[tuple[Term, ...]] = []
    old = [(k, n) for k, n in enumerate(shape) if n != 1]
    for joined, cut in _groups(old, [n for n in sizes if n != 1]):
        if len(joined) == len(cut) == 1:
            terms.append(axes[joined[0]])
            continue
        number = _joined([(shape[k], axes[k]) for k in joined])
        pieces = None if number is None else _cut(number[1], cut)
        if number is None or pieces is None:
            return None
        base += number[0]
        terms += [(Term(0, 1, piece),) for piece in pieces]
    left = iter(terms)
    return base, tuple(() if n == 1 else next(left) for n in sizes)


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
        # Digits that count on from each other become one, so that a cut tears nothing that is whole.
        for digit in (*own[:-1], own[-1]._replace(size=-(-n // below))):
            append_joined(digits, digit)
    return base, digits


def _cut(digits: list[Digit], sizes: list[int]) -> list[tuple[Digit, ...]] | None:
    """The digits of one number shared out to axes of these sizes, major first; None if a digit would be torn."""
    left = [(d.size, d.stride) for d in digits]
    pieces: list[tuple[Digit, ...]] = []
    for n in reversed(sizes):
        if (piece := _taken(left, n)) is None:
            return None
        pieces.insert(0, piece)
    return pieces


def _taken(left: list[tuple[int, int]], n: int) -> tuple[Digit, ...] | None:
    """The digits of an axis of `n`, taken from the front of those that are left (size, stride); None if one is torn.

    >>> left = [(8, 1), (5, 32)]
    >>> _taken(left, 4), left
    ((Digit(weight=1, size=4, stride=1),), [(2, 4), (5, 32)])
    """
    piece: list[Digit] = []
    weight = 1
    while weight < n:
        size, stride = left.pop(0)
        if weight * size > n:
            if n % weight or (left and size % (n // weight)):
                return None
            left.insert(0, (-(-size * weight // n), stride * (n // weight)))
            size = n // weight
        elif left and n % (weight * size):
            return None
        piece.append(Digit(weight, size, stride))
        weight *= size
    return tuple(piece)
