"""The digits of a coordinate, and the offset that each adds.

Permuting, tiling and re-tiling split coordinates into digits. The offset of an element is the sum of its digits, each
times a stride::

    offset = base + sum over coordinates c, over the digits of c, of ((c // weight) % size) * stride

A `Term` is that sum for one coordinate of a view, where the coordinate is ``start + step * v`` at index `v`.
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
    """One digit of a coordinate `c`: it adds ``((c // weight) % size) * stride`` to the offset, in elements.

    The digits of a coordinate are listed minor first; each weight is the product of the sizes before it. The last
    digit is never out of range for a coordinate in bounds, so its ``% size`` can be left out.
    """

    weight: int
    size: int
    stride: int


@lru_cache(maxsize=4096)
def carries_of(digits: tuple[Digit, ...]) -> tuple[tuple[int, int], ...]:
    """The (weight, factor) pairs with which ``c * digits[0].stride + sum(c // weight * factor)`` is the offset of `c`.

    They follow from ``c // weight % size == c // weight - c // (weight * size) * size``, where ``weight * size`` is the
    next digit's weight. So each digit after the first takes one division and no remainder.
    """
    return tuple((b.weight, b.stride - a.size * a.stride) for a, b in itertools.pairwise(digits))


class Term(NamedTuple):
    """The offset that the coordinate ``start + step * v`` adds at index `v` of an axis."""

    start: int
    step: int
    digits: tuple[Digit, ...]

    def offset_at(self, v: Offsets | int) -> Offsets | int:
        """What this term adds to the offset at index `v` of its axis, in elements."""
        c = v if (self.start, self.step) == (0, 1) else self.start + self.step * v
        total: Offsets | int = c * self.digits[0].stride if self.digits else c * 0
        for weight, factor in carries_of(self.digits):
            carry = c // weight
            # In place for arrays: allocating costs more than the arithmetic.
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
        """Whether the term has a single stride."""
        return len(self.digits) <= 1

    def linear(self, count: int) -> tuple[int, Term] | None:
        """This term for `count` indices as a constant and a term with start 0 and step 1; None if there is none.

        >>> Term(8, 4, (Digit(1, 4, 1), Digit(4, 5, 32))).linear(3)
        (64, Term(start=0, step=1, digits=(Digit(weight=1, size=3, stride=32),)))
        """
        if count <= 1:
            return int(self.offset_at(0)) if count else 0, Term(0, 1, ())
        if not self.digits:
            return 0, Term(0, 1, (Digit(1, count, 0),))
        digits, start, base = list(self.digits), self.start, 0
        # Digits that are the same at every index are a constant.
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
        """This term with offsets that count groups of `each` elements, or None if its digits do not divide so.

        With `along` the groups lie along this axis, and its index counts groups, too. Otherwise all strides must be
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
    """What the terms of one axis add to the offset at an array of indices, in elements.

    >>> offsets_along([Term(0, 1, (Digit(1, 4, 1), Digit(4, 5, 32)))], np.arange(6)).tolist()
    [0, 1, 2, 3, 32, 33]
    """
    return sum((np.asarray(term.offset_at(at)) for term in terms), np.zeros(at.shape, np.int64))


def append_joined(digits: list[Digit], digit: Digit) -> None:
    """Append a digit, or merge it into the last one if it continues that with the same step.

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
    """The axes reshaped to `sizes` in row-major order: a constant, and the terms of each new axis. No size is 0.

    None if that needs a copy: joined axes must fill their digits, and a cut must divide a digit evenly.

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
    """The shortest runs of old axes (number, size) and of new sizes that have equal products."""
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
    """Axes (size, terms), major first, joined into one: a constant and digits; None if an axis has unfilled digits."""
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
        # Merge digits that continue each other, so that more cuts divide evenly.
        for digit in (*own[:-1], own[-1]._replace(size=-(-n // below))):
            append_joined(digits, digit)
    return base, digits


def _cut(digits: list[Digit], sizes: list[int]) -> list[tuple[Digit, ...]] | None:
    """The digits split among axes of these sizes, major first; None if a cut does not divide a digit evenly."""
    left = [(d.size, d.stride) for d in digits]
    pieces: list[tuple[Digit, ...]] = []
    for n in reversed(sizes):
        if (piece := _taken(left, n)) is None:
            return None
        pieces.insert(0, piece)
    return pieces


def _taken(left: list[tuple[int, int]], n: int) -> tuple[Digit, ...] | None:
    """Remove the digits of an axis of size `n` from the front of `left`, which has (size, stride) of each digit.

    None if the cut does not divide a digit evenly.

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
