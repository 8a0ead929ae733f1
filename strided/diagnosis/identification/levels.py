"""Whether rows have levels of their own, and padding one of its own, weighed on the same slots for all readings.

A reading parts the slots of the buffer: each row is a group, all padding is another, and so is what lies in front and
behind. Where a buffer holds unlike things, such as values and padding, the rows of a wrong reading differ, too; often
they split what belongs together. Neither is evidence, and both show once every reading has to explain all slots: the
variance left is larger then, or the groups are more than it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strided.addressing.expansion import Expansion
from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.sampling import Source, as_numbers, hold_none_of
from strided.layout import Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES
from strided.runtime.aliases import Table
from strided.runtime.lazy import lazy

Floats = npt.NDArray[np.float64]

#: Ratios of the variance between rows to that within them that are tried.
_RATIOS = 2.0 ** np.arange(-12, 9)[:, None]
#: The least variance that is left, as a share of all: ranks are no finer.
_LEAST_REST = 1e-3
#: Slots of the variance of all that each part is taken to have besides its own.
_PRIOR = 8
#: Nats against levels that runs of rows share, and the least runs.
_RUNS, _LEAST_RUNS = 20.0, 8
#: Slots in turn that are taken to speak as one.
_RUN = 16
#: The most slots that count, so that they weigh about as much as neighbours do.
_COUNTED = 4096
#: Numbers of rows are counted, not sorted, up to so many for each slot.
_DENSE = 16
#: The share of what rows tell that others, half a row further, tell at most if rows have levels of their own: each of
#: these is half of one row and half of the next, and tells half of it.
_GRADUAL = 0.75
#: One in so many slots is too few to find two of one row.
_SPARSE = 32
#: Nats that may be rounding alone: one part with one mean explains nothing, but for the last digits of sums.
_ROUNDING = 1e-6


class Fit(NamedTuple):
    """What groups explain: a gain over one group in nats, what each slot contributes, and the share of the variance.

    `run`: how many rows share a level, as a power of two.
    """

    gain: float
    terms: Floats
    share: float
    run: int = 0


@dataclass(frozen=True, eq=False)
class Feature:
    """Numbers with mean 0, and what many fits ask of them."""

    values: Floats

    @lazy
    def total(self) -> float:
        """The sum of their squares."""
        return float(self.values @ self.values)

    @lazy
    def kurtosis(self) -> float:
        """Their kurtosis, of numbers that are not all zero."""
        return float((self.values**4).mean()) / (self.total / len(self.values)) ** 2


class Rows(NamedTuple):
    """The number of the row that each slot lies in; that without gaps, counted from 0; and the slots of each row."""

    number: Table
    which: Table
    sizes: Table

    @classmethod
    def of(cls, number: Table) -> Self:
        """Rows of any numbers.

        >>> Rows.of(np.array([5, 2, 5])).which.tolist()
        [1, 0, 1]
        """
        return cls(number, *numbered(number)[1:])

    @property
    def in_twos(self) -> Self:
        """Two rows in turn as one."""
        return self.of(self.number >> 1)


@dataclass(frozen=True)
class Places:
    """Slots of a buffer, counted in elements from the first whole one on; told apart by a `mark`, for speed."""

    at: Table = field(compare=False)
    mark: int

    @lazy
    def runs(self) -> Rows:
        """Runs of the buffer that slots lie in: those of one are like each other, where values are smooth."""
        return Rows.of(self.at // _RUN)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where slots lie in an array.

    Attributes
    ----------
    expansion : Expansion
        Of the array's layout.
    index : list of int64 arrays
        Of the slots that hold an element, one array for each dimension.
    parts : int64 array
        Whether each slot holds an element (0), is padding (1), or lies outside the array (2).
    kept : dict
        The rows of each grouping that was asked for.
    """

    expansion: Expansion
    index: list[Table]
    parts: Table
    kept: dict[tuple[int, ...], Rows] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Places, expansion: Expansion, first: int) -> Self:
        """Slots of the buffer in an array of whose slots `first` ones lie in front."""
        offsets = places.at - first
        is_inside = (offsets >= 0) & (offsets < expansion.allocated_elements)
        index, over = expansion.coordinates_at(np.where(is_inside, offsets, 0))
        parts = np.where(is_inside, np.where(over < 0, 0, 1), 2)
        return cls(expansion, [each[parts == 0] for each in index], parts)

    def rows(self, axes: tuple[int, ...]) -> Rows:
        """The rows of a grouping, given by the axes that tell the row. They are kept: many types share them."""
        if axes not in self.kept:
            index, sizes = [self.index[k] for k in axes], tuple(self.expansion.dimensions[k] for k in axes)
            self.kept[axes] = Rows.of(np.ravel_multi_index(index, sizes))
        return self.kept[axes]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Elements anywhere in the buffer, as one type reads it.

    Attributes
    ----------
    places : Places
        Which ones.
    features : tuple of Feature
        Ranks of the values, and of their magnitudes, with mean 0 and variance 1. Of signed values magnitudes alone.
    is_sparse : bool
        Whether they are too few to tell of rows: hardly two are of one row.
    """

    places: Places
    features: tuple[Feature, ...]
    is_sparse: bool

    @classmethod
    def of(cls, source: Source, reading: Reading, count: int, extra: Table, constants: Sequence[bytes]) -> Slots:
        """About `count` slots, and those at some `extra` bytes; none that hold a constant of padding."""
        bits, phase = reading.shape.element_bits, _phase(reading)
        held = max(0, source.size - phase) * 8 // bits
        if held <= count:
            at = np.arange(held)
        else:
            shares = np.random.default_rng(17).random(count)  # the same places for each width
            inner = np.random.default_rng(18).integers(0, 8, len(extra)) // bits
            at = np.unique(np.concatenate([(shares * held).astype(np.int64), (extra - phase) * 8 // bits + inner]))
            at = at[(at >= 0) & (at < held)]
        words = source.fetch(_flat(reading, held), at)[0]
        kept = hold_none_of(words, [reading.in_memory(c) for c in constants])
        numbers = as_numbers(words[kept])
        is_signed = bool((numbers < 0).any())
        # Unsigned values may stand for others around a middle.
        has_middle = not is_signed and not np.isnan(numbers).all()
        magnitude = np.abs(numbers - np.nanmedian(numbers) if has_middle else numbers)
        features = (magnitude,) if is_signed else (numbers, magnitude)
        ranked = tuple(Feature(_standard_ranks(each)) for each in features)
        chosen = at[kept]
        return cls(Places(chosen, hash(chosen.tobytes())), ranked, not len(extra) and len(at) * _SPARSE < held)


class Levels(NamedTuple):
    """What tells of levels in a reading: slots of the buffer, and where they lie in its array."""

    slots: Slots
    placed: Placed

    def fits(self, feature: int, groupings: Sequence[tuple[int, ...]]) -> list[Fit]:
        """What padding alone explains, and then the rows of each grouping, given by the axes that tell the row."""
        ranked, placed = self.slots.features[feature], self.placed
        return [fit(ranked, placed.parts), *(_best_of_runs(ranked, placed.parts, placed.rows(a)) for a in groupings)]

    def are_gradual(self, feature: int, axes: tuple[int, ...], rows: Fit, padding: Fit) -> bool:
        """Whether rows half a row further in memory tell about as much as those of a grouping, beside the `padding`.

        Then values change little by little. Any rows that are about as long tell that, those of a wrong reading, too.
        """
        expansion = self.placed.expansion
        along = next(k for k in expansion.minor_to_major if k not in axes)
        halves = 2 * self.placed.rows(axes).number + (2 * self.placed.index[along] >= expansion.dimensions[along])
        shifted = Rows.of((halves + (1 << rows.run)) >> (rows.run + 1))
        gain = fit(self.slots.features[feature], self.placed.parts, shifted).gain
        return gain - padding.gain > _GRADUAL * (rows.gain - padding.gain)


def _best_of_runs(feature: Feature, parts: Table, rows: Rows) -> Fit:
    """What rows explain, or runs of 2, 4, 8, ... rows that share levels."""
    best = fit(feature, parts, rows)
    while best.gain and rows.number.max(initial=0) >= 2 * _LEAST_RUNS:
        rows = rows.in_twos
        found = fit(feature, parts, rows)
        found = found._replace(gain=found.gain - _RUNS, run=best.run + 1)
        if found.gain <= best.gain:
            break
        best = found
    return best


def fit(feature: Feature, parts: Table, rows: Rows | None = None) -> Fit:
    """What it explains that slots belong to parts, and those of part 0 to `rows`, if any are given.

    The parts have means and variances of their own, rows means that are drawn from one normal distribution: the
    likelihood of the random model with one factor, at its best (S. R. Searle, G. Casella, C. E. McCulloch, Variance
    Components, 1992, chapter 3), over that of one mean for all. With n slots, all of them in rows, its logarithm is

        (n log(T / Q) - sum over rows of log(1 + r m)) / 2

    for r the ratio of the variance between rows to that within, m the slots of a row, T the squares about one mean and
    Q those that the model leaves. The sum is what many rows cost. Every other parameter costs log(n) / 2 (G. Schwarz,
    Estimating the Dimension of a Model, 1978). Values are ranks, so that no outlier counts more than others.

    Two rows that differ, and then the same values in rows that do not:

    >>> feature = Feature(np.repeat([-1.0, 1.0], 50) + np.tile([-0.1, 0.1], 50))
    >>> parts, rows = np.zeros(100, np.int64), np.repeat([0, 1], 50)
    >>> fit(feature, parts, Rows.of(rows)).gain > 150, fit(feature, parts, Rows.of(np.tile(rows[::50], 50))).gain
    (True, 0.0)
    """
    values, total, n = feature.values, feature.total, len(feature.values)
    nothing = Fit(0.0, np.zeros(n), 0.0)
    if n < 8 or not total:
        return nothing
    least = _LEAST_REST * total / n
    count = np.bincount(parts)
    used = np.flatnonzero(count)
    if rows is None and len(used) < 2:
        return nothing
    levels: _Levels | None = None
    means, variances = np.zeros(len(count)), np.full(len(count), total / n)
    for part in used:
        own = values[parts == part] if len(used) > 1 else values
        means[part], variance = own.mean(), float(own.var())
        # The variance of a few slots may be small by chance.
        variances[part] = max(least, (variance * len(own) + _PRIOR * total / n) / (len(own) + _PRIOR))
        if part == 0 and rows is not None:
            levels = _levels(own, variance, rows, least)
    cost = (len(used) - 1) * math.log(n)
    if levels is not None:
        variances[0] = levels.left
        cost += (levels.price + math.log(n)) / 2
    gains = np.log(total / n / variances)
    gain = float((count * gains).sum()) / 2 - cost
    if gain <= _ROUNDING:
        return nothing
    expected = means[parts]
    if rows is not None and levels is not None:
        expected[parts == 0] = levels.means[rows.which]
    squares = (values - expected) ** 2
    terms = (gains[parts] + values**2 * n / total - squares / variances[parts]) / 2
    # A variance is less certain the more it owes to few values, by the kurtosis: most are equal where these are rare.
    scale = min(1.0, _COUNTED / n) * min(1.0, 2 / max(feature.kurtosis - 1, 1e-9))
    return Fit(scale * gain, scale * terms, 1 - float(squares.sum()) / total)


class _Levels(NamedTuple):
    """The level of each row, the variance left within them, and twice what rows cost in nats."""

    means: Floats
    left: float
    price: float


def _levels(values: Floats, variance: float, rows: Rows, least: float) -> _Levels | None:
    """The levels of rows of values that have a `variance`; None where one for all does."""
    n = len(values)
    means = np.bincount(rows.which, values) / rows.sizes
    within = float(((values - means[rows.which]) ** 2).sum())
    # Rows of equally many slots are weighed alike: what tells of them is their number, their mean and the squares about
    # it. There are thousands of rows, and few such classes; each ratio takes one line.
    slots, alike, number = numbered(rows.sizes)
    centres = np.bincount(alike, means) / number
    apart = np.bincount(alike, (means - centres[alike]) ** 2)
    price = 1 + _RATIOS * slots
    weight = slots / price
    centre = (weight * number * centres).sum(axis=1) / (weight * number).sum(axis=1)
    between = (weight * (apart + number * (centres - centre[:, None]) ** 2)).sum(axis=1)
    left = np.maximum(least, (within + between) / n)
    twice = (np.log(price) * number).sum(axis=1)
    nats = n * np.log(left) + twice
    k = int(nats.argmin())
    if nats[k] >= n * math.log(max(least, variance)):
        return None
    return _Levels(centre[k] + (means - centre[k]) * (_RATIOS[k] * weight[k])[alike], float(left[k]), float(twice[k]))


def numbered(rows: Table) -> tuple[Table, Table, Table]:
    """Which rows there are, in order, which of these each is, and how often it comes; as `numpy.unique` tells.

    Where most numbers up to the highest one occur they are counted, which is several times as fast as sorting.

    >>> [each.tolist() for each in numbered(np.array([5, 2, 5]))]
    [[2, 5], [1, 0, 1], [1, 2]]
    """
    if not len(rows) or rows.max() >= _DENSE * len(rows):
        return np.unique(rows, return_inverse=True, return_counts=True)
    count = np.bincount(rows)
    places = np.flatnonzero(count)
    number = np.empty(len(count), np.int64)
    number[places] = np.arange(len(places))
    return places, number[rows], count[places]


def _phase(reading: Reading) -> int:
    """Bytes in front of the first whole element, if the buffer were one array."""
    return reading.start % max(1, reading.shape.element_bits // 8)


def slots_in_front(reading: Reading) -> int:
    """Elements of the buffer in front of the array."""
    return (reading.start - _phase(reading)) * 8 // reading.shape.element_bits


def slots_key(reading: Reading) -> tuple[Any, ...]:
    """Readings of one key share slots."""
    shape = reading.shape
    return shape.element_type, shape.element_bits, _phase(reading), reading.byteorder, reading.bitorder


def _flat(reading: Reading, count: int) -> Reading:
    """The whole buffer as one row. Of types of less than 8 bits, in bytes, the bytes: padding may hold others."""
    shape = reading.shape
    kind, bits = ELEMENT_TYPES[shape.element_type], shape.element_bits
    if kind.bits < bits or kind.name == "pred":
        return Reading(Shape("s8" if kind.name[0] == "s" else "u8", (count,)))
    packed = bits if bits < 8 else 0
    flat = Shape(kind.name, (count,), Layout((0,), element_size_in_bits=packed))
    return Reading(flat, _phase(reading), byteorder=reading.byteorder, bitorder=reading.bitorder)


def _standard_ranks(numbers: Floats) -> Floats:
    """Mid-ranks of numbers, shifted and scaled to mean 0 and variance 1; zeros if all are equal."""
    if not len(numbers):
        return numbers
    _, group, count = np.unique(numbers, return_inverse=True, return_counts=True)
    found = (np.cumsum(count) - (count - 1) / 2)[group].astype(np.float64)
    found -= found.mean()
    spread = float(np.sqrt((found**2).mean()))
    return found / spread if spread else found
