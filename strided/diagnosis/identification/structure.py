"""What values show of a reading by where they lie: continuity, scale and order.

Where a layout is wrong, neighbours are strangers, rows have no levels of their own, and sorted values do not rise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.levels import Feature, Fit, Floats, Levels, Rows, fit, numbered
from strided.diagnosis.identification.ranking import permutation, ranks, shuffled_differences
from strided.diagnosis.identification.sampling import Pairs, Sample
from strided.runtime.aliases import Table

#: Differences below this share of those of shuffled values count as this.
_FLOOR = 0.01
#: The most that one pair counts in the error of sampling: pairs across the tiles of a wrong layout are no accident.
#: Where most neighbours are equal, as in masks, everything rests on the few pairs that differ, and chance finds these.
_OUTLIER = 5.0
#: Neighbours in a row that differ by less than this share of what others of the row do are continuous.
_ALIKE = 0.8
#: Short rows that differ from their neighbours by less than this share of what any two do are continuous.
_UNLIKE, _SHORT = 0.6, 16
#: Places of a power of two that are enough to tell what it does.
_POSITIONS = 12
#: Rows after which levels may come again.
_LEAST_STEP = 4

_NO_SCALE = Evidence("scale", 0.0, "")
_NONE: Table = np.zeros(0, np.int64)
_ZERO = np.zeros(())


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What the values of a reading show of order.

    Attributes
    ----------
    evidence : tuple of Evidence
    terms : tuple of two ndarrays
        What neighbours in each cell contribute, and what each run of slots does, to tell how far sampling may be out.
        One of them is nothing but zeros, which take no memory.
    unlike : float
        What of the weight says nothing of rows, in nats: padding is unlike values, or these change little by little.
    smoothness : float
        What each pair of neighbours says, in nats.
    """

    evidence: tuple[Evidence, ...]
    terms: tuple[Floats, Floats]
    unlike: float
    smoothness: float

    @property
    def weight(self) -> float:
        """The weights of all evidence, in nats."""
        return sum(e.weight for e in self.evidence)

    @property
    def order(self) -> float:
        """What of it is that values rise or fall throughout."""
        return sum(e.weight for e in self.evidence if e.kind == "order")

    @property
    def error(self) -> float:
        """How far sampling may be out: a standard deviation, in nats."""
        return math.sqrt(sum_of_squares(*self.terms))

    @property
    def kind(self) -> str:
        """What the weightiest evidence shows; nothing if there is none."""
        return max(self.evidence, key=lambda e: e.weight).kind if self.evidence else ""


NO_STRUCTURE = Structure((), (np.zeros(0), np.zeros(0)), 0.0, 0.0)


def structure(numbers: Floats, inside: npt.NDArray[np.bool_], sample: Sample, levels: Levels | None) -> Structure:
    """Continuity, scale and order of the sampled numbers; `inside` says which of them the buffer has.

    Scale is weighed with `levels`. Without, as of smooth values, it says nothing more: blocks of them look like rows.
    """
    kept = inside & ~_empty_ends(numbers, inside, sample)
    own = _of_points(numbers, inside, sample)
    is_signed = bool((own < 0).any())
    # Unsigned values may stand for others around a middle.
    magnitude = np.abs(numbers if is_signed or not len(own) else numbers - np.median(own))
    features = [ranks(each, _of_points(each, inside, sample)) for each in (numbers, magnitude)]
    nears = [_continuity(u, kept, sample, k) for k, u in enumerate(features) if is_signed or not k]
    near, along = max(nears, key=lambda found: found[0].weight)
    nothing = _NO_SCALE, None, 0.0
    scale, of_slots, unlike = nothing if levels is None else _scale(features, inside, sample, levels)
    is_near = near.weight >= scale.weight
    found = [near if is_near else scale, _order(numbers, inside, sample)]
    cells, runs = zeros(sum(pairs.number for pairs in sample.pairs)), zeros(0)
    if levels is not None:
        runs = zeros(len(levels.slots.places.runs.sizes))
    if is_near:
        of_axis = {one.pairs.axis: one.terms for one in along}
        cells = np.concatenate([cells[:0], *(of_axis.get(p.axis, zeros(p.number)) for p in sample.pairs)])
    elif levels is not None and of_slots is not None:
        runs = np.bincount(levels.slots.places.runs.which, of_slots).astype(np.float64, copy=False)
    smoothness = near.weight / max(1, sum(pairs.count for pairs in sample.pairs))
    return Structure(tuple(e for e in found if e.weight > 0), (cells, runs), unlike * (not is_near), smoothness)


def zeros(count: int) -> Floats:
    """So many zeros, which share the memory of one and are not to be written to."""
    return np.broadcast_to(_ZERO, count)


def sum_of_squares(*terms: Floats) -> float:
    """The sum of the squares of all numbers."""
    return sum(float((each**2).sum()) for each in terms)


def _of_points(values: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> Floats:
    """The values of the sample's points that the buffer has."""
    own, held = values[: sample.points], inside[: sample.points]
    return own if held.all() else own[held]


def _empty_ends(numbers: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> npt.NDArray[np.bool_]:
    """Which sampled elements lie in lines at the ends of an axis that hold nothing but zeros.

    Zeros in front of an array, and those of its padding, are the smoothest rows of a reading that takes them for some.
    A reading that leaves them out must not fall behind for it, so they tell nothing of neighbours.
    """
    found = np.zeros(len(numbers), np.bool_)
    points = sample.points
    if len(sample.dimensions) < 2 or not inside[:points].all():
        return found
    grid = numbers[:points].reshape([len(chosen) for chosen in sample.chosen])
    left = [*sample.chosen]
    changed = True
    while changed:  # lines that end in others that are left out by now may be constant, too
        changed = False
        for axis, end in itertools.product(range(grid.ndim), (0, -1)):
            lines = np.moveaxis(grid, axis, 0)
            lines = (lines if end == 0 else lines[::-1]).reshape(lines.shape[0], -1)
            # Padding is of zero bytes, which -0.0 has in no order of them.
            count = int(np.argmax(((lines != 0) | np.signbit(lines)).any(axis=1)))  # 0 also if all are zero
            if not count:
                continue
            changed = True
            kept = slice(count, None) if end == 0 else slice(None, -count)
            last = left[axis][count - 1 if end == 0 else -count]
            found |= sample.index[axis] <= last if end == 0 else sample.index[axis] >= last
            left[axis] = left[axis][kept]
            grid = np.moveaxis(np.moveaxis(grid, axis, 0)[kept], 0, axis)
    return found


def _spread(shuffled: Floats) -> tuple[float, float]:
    """The mean of such differences, and the mean logarithm of those that are not 0 beside their own mean."""
    mean = float(shuffled.mean()) if len(shuffled) else 0.0
    apart = shuffled[shuffled > 0]
    return mean, _mean_logarithm(apart / apart.mean()) if mean else 0.0


def _mean_logarithm(differences: Floats) -> float:
    return float(np.log(np.maximum(differences, _FLOOR)).mean())


def _told(shuffled: Floats) -> float:
    """The share of pairs that count: where most values are equal, few tell anything.

    The mean of n differences that are exponential is as certain as that of ``2 n mean**2 / mean_of_squares`` others (L.
    Kish, Survey Sampling, 1965, section 8.2: the effective size of a sample).
    """
    squares = float((shuffled**2).mean()) if len(shuffled) else 0.0
    return min(1.0, 2 * float(shuffled.mean()) ** 2 / squares) if squares else 0.0


class _Along(NamedTuple):
    """Neighbours along one axis: their differences, of which the buffer has both, and what they show.

    `near`: the mean difference of those beside that of shuffled values. `torn`: nats against it, as borders stand out.
    `told`: the share of pairs that count.
    """

    pairs: Pairs
    difference: Floats
    held: npt.NDArray[np.bool_]
    near: float
    torn: float
    told: float

    @property
    def terms(self) -> Floats:
        """What the neighbours in each cell contribute."""
        pairs, kept = self.pairs, self.difference[self.held]
        if self.near >= 1:
            return zeros(pairs.number)
        term = np.where(self.held, (1 - self.near + (self.torn > 0)) * (1 - self.difference / self.near), 0.0)
        if 2 * np.count_nonzero(kept) > len(kept):
            term = np.clip(term, -_OUTLIER, _OUTLIER)
        term *= min(1.0, pairs.distinct / pairs.count) * math.sqrt(self.told)
        return np.bincount(pairs.cells, term, pairs.number).astype(np.float64, copy=False)


def _continuity(
    u: Floats, inside: npt.NDArray[np.bool_], sample: Sample, feature: int
) -> tuple[Evidence, list[_Along]]:
    """Neighbours along each axis beside the same values shuffled."""
    shuffled = shuffled_differences(_of_points(u, inside, sample))
    (mean, logs), told = _spread(shuffled), _told(shuffled)
    found: list[_Along] = []
    total = 0.0
    for pairs in sample.pairs:
        difference, held = _neighbours(u, inside, pairs)
        if not mean or held.sum() <= 1:
            continue
        difference = difference / mean
        kept = difference[held]
        near = max(float(kept.mean()), _FLOOR)
        # Borders that stand out make the mean large beside the mean logarithm: a wrong layout shows them. Equal
        # neighbours have none: where most are equal, as in masks, their share alone would tell of borders.
        apart = kept[kept > 0]
        torn = max(0.0, math.log(apart.mean()) + logs - _mean_logarithm(apart)) if len(apart) else 0.0
        gain = (-math.log(near) - 1 + near if near < 1 else 0.0) - torn
        total += min(pairs.count, pairs.distinct) * held.mean() * told * gain
        found.append(_Along(pairs, difference, held, near, torn, told))
    what = "neighbours" if feature == 0 else "magnitudes of neighbours"
    least = min((one.near for one in found), default=1.0)
    shown = ", ".join(
        f"{one.near:.0%} along dimension {one.pairs.axis}" for one in found if one.near < 0.95 or one.near == least
    )
    sentence = f"continuity: {what} differ by {shown} of what the same values do when shuffled"
    return Evidence("continuity", total, sentence), found


def _scale(
    features: Sequence[Floats], inside: npt.NDArray[np.bool_], sample: Sample, levels: Levels
) -> tuple[Evidence, Floats | None, float]:
    """The row, or the column, that an element lies in tells its value, or its magnitude, and padding is unlike others.

    Also what each slot contributes, and how much of the weight says nothing of rows: what the padding has, or all of it
    if values change little by little.
    """
    slots = levels.slots
    best, unlike = _NO_SCALE, 0.0
    terms: Floats | None = None
    chosen: tuple[int, tuple[int, ...], Fit, Fit] | None = None
    first = len(features) - len(slots.features)
    for feature, u in enumerate(features[first:]):
        groupings = _groupings(u, inside, sample)
        what = "value" if first + feature == 0 else "magnitude"
        found = levels.fits(feature, list(groupings))
        unlike = max(unlike, found[0].gain)
        for (axes, name), told in zip([((), ""), *groupings.items()], found, strict=True):
            weight = max(told.gain, _rough(u, inside, sample, axes) if slots.is_sparse and axes else 0.0)
            if weight > best.weight:
                chosen = (feature, axes, told, found[0]) if axes else None
                whose = f"the index along {name}" if name else "what is padding and what is not"
                best = Evidence("scale", weight, f"scale: {whose} tells {told.share:.0%} of the variation of {what}")
                terms = told.terms
    if chosen is not None and not slots.is_sparse and levels.are_gradual(*chosen):
        unlike = best.weight
    return best, terms, unlike


def _groupings(u: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> dict[tuple[int, ...], str]:
    """The axes that may tell the level of an element, and what to call them.

    Where neighbours in a row are more alike than others of the row, or rows are like their neighbours, it is continuity
    that shows.
    """
    found: dict[tuple[int, ...], str] = {}
    held, own = inside[: sample.points], _of_points(u, inside, sample)
    rank = len(sample.dimensions)
    if rank < 2 or len(own) < 8 or not own.std():
        return found
    groupings: dict[tuple[int, ...], str] = {(d,): f"dimension {d}" for d in range(rank)}
    if rank > 2:
        groupings |= {tuple(k for k in range(rank) if k != d): f"the line along dimension {d}" for d in range(rank)}
    near = {p.axis: _near(u, inside, p) for p in sample.pairs}
    spread = float(shuffled_differences(own).mean())
    for axes, name in groupings.items():
        along = [near[k] for k in near if k not in axes]
        across = [near[k] for k in near if k in axes]
        length = math.prod(n for k, n in enumerate(sample.dimensions) if k not in axes)
        if not across or not along or (length < _SHORT and min(across) < _UNLIKE * spread):
            continue
        if any(_is_patchy(u, inside, p, sample.dimensions[p.axis]) for p in sample.pairs if p.axis in axes):
            continue
        rows = _point_rows(sample, held, axes)
        if len(own) <= len(rows.sizes):
            continue
        if len(axes) == 1 and _repeats(np.bincount(rows.which, own) / rows.sizes, rows):
            continue
        if min(along) > _ALIKE * float(np.abs(own[rows.others] - own[rows.mixed]).mean()):
            found[axes] = name
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _PointRows:
    """The rows that the points of a sample lie in.

    Attributes
    ----------
    which, sizes : int64 arrays
        Of each point its row, counted from 0, and the points of each row.
    mixed, others : int64 arrays
        Points, and for each of them another of its row, at random.
    steps : dict
        For each power of two the rows that have another so many rows further, and those.
    """

    which: Table
    sizes: Table
    mixed: Table
    others: Table
    steps: dict[int, tuple[Table, Table]]

    @classmethod
    def of(cls, sample: Sample, held: npt.NDArray[np.bool_], axes: tuple[int, ...]) -> Self:
        """Those of the points that are `held`; rows are given by the axes that tell the row."""
        index = [sample.index[k][: sample.points][held] for k in axes]
        places, which, sizes = numbered(np.ravel_multi_index(index, tuple(sample.dimensions[k] for k in axes)))
        mixed = permutation(5, len(which))
        # Numbers of 16 bits are sorted by their digits, several times as fast.
        mixed = mixed[np.argsort(which[mixed].astype(np.min_scalar_type(len(places))), kind="stable")]
        same = which[mixed[:-1]] == which[mixed[1:]]
        steps = {}
        for step in (1 << k for k in range(int(places[-1] - places[0]).bit_length())):
            at = np.minimum(np.searchsorted(places, places + step), len(places) - 1)
            has_other = places[at] == places + step
            steps[step] = np.flatnonzero(has_other), at[has_other]
        return cls(which, sizes, mixed[:-1][same], mixed[1:][same], steps)


def _point_rows(sample: Sample, held: npt.NDArray[np.bool_], axes: tuple[int, ...]) -> _PointRows:
    """The rows that points lie in; the sample keeps those of all its points, which many readings share."""
    if not held.all():
        return _PointRows.of(sample, held, axes)
    if axes not in sample.kept:
        sample.kept[axes] = _PointRows.of(sample, held, axes)
    found: _PointRows = sample.kept[axes]
    return found


def _rough(u: Floats, inside: npt.NDArray[np.bool_], sample: Sample, axes: tuple[int, ...]) -> float:
    """What rows explain among the points alone, in nats: for small samples of large arrays."""
    own = _of_points(u, inside, sample)
    values = (own - own.mean()) / own.std()
    which = _point_rows(sample, inside[: sample.points], axes).which
    return fit(Feature(values), np.zeros(len(own), np.int64), Rows.of(which)).gain


def _neighbours(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The differences of the neighbours along an axis, and of which pairs the buffer has both."""
    first, second = pairs.ends
    return np.abs(u[first] - u[second]), inside[first] & inside[second]


def _near(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs) -> float:
    """Mean difference of the neighbours along an axis."""
    difference, held = _neighbours(u, inside, pairs)
    return float(difference[held].mean()) if held.any() else 1.0


def _repeats(levels: Floats, rows: _PointRows) -> bool:
    """Whether the levels of rows come again after a power of two of them: then they are another axis' levels."""

    def differences(step: int) -> Floats:
        one, other = rows.steps.get(step, (_NONE, _NONE))
        found: Floats = np.abs(levels[one] - levels[other])
        return found

    spread = float(shuffled_differences(levels).mean())
    near = differences(1)
    if len(near) >= _POSITIONS and near.mean() < _UNLIKE * spread:
        return False
    return any(
        len(found) >= _POSITIONS and found.mean() < spread / 2
        for found in (differences(step) for step in rows.steps if step >= _LEAST_STEP)
    )


def _is_patchy(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs, n: int) -> bool:
    """Whether neighbours across some power of two are far more alike than across another, as in a wrong layout."""
    difference, held = (each.reshape(-1, (n - 1).bit_length()) for each in _neighbours(u, inside, pairs))
    count = held.sum(axis=0)
    is_told = (count > 0) & (n >> np.arange(1, len(count) + 1) >= _POSITIONS)
    means = np.where(held, difference, 0.0).sum(axis=0)[is_told] / count[is_told]
    return len(means) > 1 and bool(means.max() - means.min() > 0.5 * means.max())


def _order(numbers: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> Evidence:
    """Whether the values rise, or fall, throughout in row-major order.

    Values that change along one axis alone, such as positions, are those of one line. They say as much along any axis.
    """
    own, axis = _line(numbers, inside, sample)
    where = "row by row" if axis is None else f"along dimension {axis}"
    for sign, word in ((1, "rise"), (-1, "fall")):
        if len(own) >= 8 and (own[:-1] * sign <= own[1:] * sign).all():
            runs = np.diff(np.flatnonzero(np.concatenate([[True], own[:-1] != own[1:], [True]])))
            # Of all orders of these values one is sorted. It says more than any continuity does.
            weight = 2 * (math.lgamma(len(own) + 1) - sum(math.lgamma(run + 1) for run in runs.tolist()))
            return Evidence("order", weight, f"order: the values {word} throughout, {where}")
    return Evidence("order", 0.0, "")


def _line(numbers: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> tuple[Floats, int | None]:
    """The values along the axis that alone tells them, and this axis; all values, and None, if no axis does."""
    own, held = _of_points(numbers, inside, sample), inside[: sample.points]
    for axis in range(len(sample.dimensions) if len(sample.dimensions) > 1 else 0):
        _, first, which = np.unique(sample.index[axis][: sample.points][held], return_index=True, return_inverse=True)
        if (own == own[first][which]).all():
            return own[first], axis
    return own, None
