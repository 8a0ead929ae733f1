"""What values show of a reading by where they lie: continuity, scale and order.

Where a layout is wrong, neighbours are strangers, rows have no levels of their own, and sorted values do not rise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.levels import Feature, Fit, Floats, Slots, fit, numbered
from strided.diagnosis.identification.sampling import Pairs, Sample, Source, as_numbers

#: Differences below this share of those of shuffled values count as this.
_FLOOR = 0.01
#: Values that others are ranked among.
_QUANTILES = 1024
#: The most that one pair counts in the error of sampling: pairs across the tiles of a wrong layout are no accident.
#: Where most neighbours are equal, as in masks, everything rests on the few pairs that differ, and chance finds these.
_OUTLIER = 5.0
#: Neighbours in a row that differ by less than this share of what others of the row do are continuous.
_ALIKE = 0.8
#: Short rows that differ from their neighbours by less than this share of what any two do are continuous.
_UNLIKE, _SHORT = 0.6, 16
#: Ends of rows that are looked at, and the fewest that tell whether values go on there, if within rows they differ by
#: less than this share of what others do.
_ENDS, _LEAST_ENDS, _SEQUENCE = 512, 8, 0.25
#: Values that are compared with those a row further, and the share of what neighbours differ by that tells rows.
_APART, _CLOSER = 1024, 0.9
#: The share of steps that are equal where values count: those of ``arange % 16`` are, but for one in 16.
_COUNTED = 0.9
#: Columns of tiles that interleave no rows: as many as a vector of a TPU has lanes.
_LANES = 128
#: Places of a power of two that are enough to tell what it does.
_POSITIONS = 12

_NO_SCALE = Evidence("scale", 0.0, "")


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What the values of a reading show of order.

    Attributes
    ----------
    evidence : tuple of Evidence
    terms : ndarray
        What neighbours in each cell, or each run of slots, contribute, to tell how far sampling may be out.
    unlike : float
        What of the weight says nothing of rows, in nats: padding is unlike values, or these change little by little.
    smoothness : float
        What each pair of neighbours says, in nats.
    """

    evidence: tuple[Evidence, ...]
    terms: Floats
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
        return math.sqrt(float((self.terms**2).sum()))

    @property
    def kind(self) -> str:
        """What the weightiest evidence shows; nothing if there is none."""
        return max(self.evidence, key=lambda e: e.weight).kind if self.evidence else ""


def structure(
    values: npt.NDArray[Any], inside: npt.NDArray[np.bool_], sample: Sample, reading: Reading, slots: Slots | None
) -> Structure:
    """Continuity, scale and order of the sampled values; `inside` says which of them the buffer has.

    Scale is weighed with `slots`. Without, as of smooth values, it says nothing more: blocks of them look like rows.
    """
    numbers = as_numbers(values)
    kept = inside & ~_empty_ends(numbers, inside, sample)
    own = _of_points(numbers, inside, sample)
    is_signed = bool((own < 0).any())
    # Unsigned values may stand for others around a middle.
    magnitude = np.abs(numbers if is_signed or not len(own) else numbers - np.median(own))
    features = [ranks(each, _of_points(each, inside, sample)) for each in (numbers, magnitude)]
    nears = [_continuity(u, kept, sample, k) for k, u in enumerate(features) if is_signed or not k]
    near, pairs = max(nears, key=lambda found: found[0].weight)
    nothing = _NO_SCALE, np.zeros(0), 0.0
    scale, terms, unlike = nothing if slots is None else _scale(features, inside, sample, reading, slots)
    is_near = near.weight >= scale.weight
    found = [near if is_near else scale, _order(numbers, inside, sample)]
    if slots is not None:
        terms = np.bincount(slots.runs, terms).astype(np.float64)
    terms = np.concatenate([pairs * is_near, terms * (not is_near)])
    smoothness = near.weight / max(1, sum(pairs.count for pairs in sample.pairs))
    return Structure(tuple(e for e in found if e.weight > 0), terms, unlike * (not is_near), smoothness)


def _of_points(values: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> Floats:
    """The values of the sample's points that the buffer has."""
    return values[: sample.points][inside[: sample.points]]


def ranks(numbers: Floats, among: Floats) -> Floats:
    """The place of each value among others, from 0 to 1: outliers and units play no part. NaN is last."""
    reference = np.sort(among)
    if not reference.size:
        return np.zeros(len(numbers))
    reference = reference[:: max(1, len(reference) // _QUANTILES)]
    # Numbers in order are counted many times as fast as each is searched for.
    order = np.argsort(numbers)
    above = np.searchsorted(numbers[order], reference, "right")
    below = np.empty(len(numbers), np.int64)
    below[order] = np.cumsum(np.bincount(above, minlength=len(numbers) + 1)[:-1])
    equal = np.searchsorted(reference, reference, "right") - np.arange(len(reference))
    found = np.minimum(below, len(reference) - 1)
    return (below + np.where(reference[found] == numbers, equal[found], 0) / 2) / len(reference)


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
            count = int(np.argmax((lines != 0).any(axis=1)))  # 0 also if all are zero
            if not count:
                continue
            changed = True
            kept = slice(count, None) if end == 0 else slice(None, -count)
            last = left[axis][count - 1 if end == 0 else -count]
            found |= sample.index[axis] <= last if end == 0 else sample.index[axis] >= last
            left[axis] = left[axis][kept]
            grid = np.moveaxis(np.moveaxis(grid, axis, 0)[kept], 0, axis)
    return found


def _shuffled(u: Floats) -> Floats:
    """Differences of values drawn at random, one for each."""
    differences: Floats = np.abs(u - np.roll(u[_permutation(3, len(u))], 1))
    return differences


@lru_cache(maxsize=64)
def _permutation(seed: int, count: int) -> npt.NDArray[np.int64]:
    """A random order of so many values; many readings have equally many."""
    found = np.random.default_rng(seed).permutation(count)
    found.flags.writeable = False  # it is shared
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


def _continuity(u: Floats, inside: npt.NDArray[np.bool_], sample: Sample, feature: int) -> tuple[Evidence, Floats]:
    """Neighbours along each axis beside the same values shuffled."""
    shuffled = _shuffled(_of_points(u, inside, sample))
    (mean, logs), told = _spread(shuffled), _told(shuffled)
    parts, terms = [], []
    total = 0.0
    for pairs in sample.pairs:
        difference, held = _neighbours(u, inside, pairs)
        term = np.zeros(pairs.count)
        if mean and held.sum() > 1:
            near, gain, term = _nearness(difference / mean, held, logs)
            total += min(pairs.count, pairs.distinct) * held.mean() * told * gain
            parts.append((pairs.axis, near))
            term *= min(1.0, pairs.distinct / pairs.count) * math.sqrt(told)
        terms.append(np.bincount(pairs.cells, term, pairs.number))
    what = "neighbours" if feature == 0 else "magnitudes of neighbours"
    least = min((share for _, share in parts), default=1.0)
    shown = ", ".join(f"{share:.0%} along dimension {axis}" for axis, share in parts if share < 0.95 or share == least)
    sentence = f"continuity: {what} differ by {shown} of what the same values do when shuffled"
    return Evidence("continuity", total, sentence), np.concatenate(terms) if terms else np.zeros(0)


def _nearness(difference: Floats, held: npt.NDArray[np.bool_], logs: float) -> tuple[float, float, Floats]:
    """How far apart neighbours are, what each pair says of it in nats, and what each contributes to the error.

    Differences are in terms of the mean one of shuffled values; `logs` is what `_spread` says of those.
    """
    kept = difference[held]
    near = max(float(kept.mean()), _FLOOR)
    # Borders that stand out make the mean large beside the mean logarithm: a wrong layout shows them. Equal
    # neighbours have none: where most are equal, as in masks, their share alone would tell of borders.
    apart = kept[kept > 0]
    torn = max(0.0, math.log(apart.mean()) + logs - _mean_logarithm(apart)) if len(apart) else 0.0
    if near >= 1:
        return near, 0.0 - torn, np.zeros(len(difference))
    term = np.where(held, (1 - near + (torn > 0)) * (1 - difference / near), 0.0)
    if 2 * np.count_nonzero(kept) > len(kept):
        term = np.clip(term, -_OUTLIER, _OUTLIER)
    return near, -math.log(near) - 1 + near - torn, term


def _scale(
    features: Sequence[Floats], inside: npt.NDArray[np.bool_], sample: Sample, reading: Reading, slots: Slots
) -> tuple[Evidence, Floats, float]:
    """The row, or the column, that an element lies in tells its value, or its magnitude, and padding is unlike others.

    Also what each slot contributes, and how much of the weight says nothing of rows: what the padding has, or all of it
    if values change little by little.
    """
    best, terms, unlike = _NO_SCALE, np.zeros(len(slots.at)), 0.0
    chosen: tuple[int, tuple[int, ...], Fit, Fit] | None = None
    first = len(features) - len(slots.features)
    for feature, u in enumerate(features[first:]):
        groupings = _groupings(u, inside, sample)
        what = "value" if first + feature == 0 else "magnitude"
        found = slots.fits(reading, feature, list(groupings))
        unlike = max(unlike, found[0].gain)
        for (axes, name), told in zip([((), ""), *groupings.items()], found, strict=True):
            weight = max(told.gain, _rough(u, inside, sample, axes) if slots.is_sparse and axes else 0.0)
            if weight > best.weight:
                chosen = (feature, axes, told, found[0]) if axes else None
                whose = f"the index along {name}" if name else "what is padding and what is not"
                best = Evidence("scale", weight, f"scale: {whose} tells {told.share:.0%} of the variation of {what}")
                terms = told.terms
    if chosen is not None and not slots.is_sparse and slots.are_gradual(reading, *chosen):
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
    spread = float(_shuffled(own).mean())
    for axes, name in groupings.items():
        along = [near[k] for k in near if k not in axes]
        across = [near[k] for k in near if k in axes]
        length = math.prod(n for k, n in enumerate(sample.dimensions) if k not in axes)
        if not across or not along or (length < _SHORT and min(across) < _UNLIKE * spread):
            continue
        if any(_is_patchy(u, inside, p, sample.dimensions[p.axis]) for p in sample.pairs if p.axis in axes):
            continue
        places, group = _grouped(sample, held, axes)
        if len(own) <= len(places):
            continue
        if len(axes) == 1 and _repeats(np.bincount(group, own) / np.bincount(group), places):
            continue
        mixed = _permutation(5, len(own))
        # Numbers of 16 bits are sorted by their digits, several times as fast.
        mixed = mixed[np.argsort(group[mixed].astype(np.min_scalar_type(len(places))), kind="stable")]
        same = group[mixed[:-1]] == group[mixed[1:]]
        if min(along) > _ALIKE * float(np.abs(np.diff(own[mixed]))[same].mean()):
            found[axes] = name
    return found


def _grouped(
    sample: Sample, held: npt.NDArray[np.bool_], axes: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows that the points lie in, and of each point which one."""
    index = [sample.index[k][: sample.points][held] for k in axes]
    return numbered(np.ravel_multi_index(index, tuple(sample.dimensions[k] for k in axes)))[:2]


def _rough(u: Floats, inside: npt.NDArray[np.bool_], sample: Sample, axes: tuple[int, ...]) -> float:
    """What rows explain among the points alone, in nats: for small samples of large arrays."""
    own = _of_points(u, inside, sample)
    values = (own - own.mean()) / own.std()
    rows = _grouped(sample, inside[: sample.points], axes)[1]
    return fit(Feature(values), np.zeros(len(own), np.int64), rows).gain


def _neighbours(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The differences of the neighbours along an axis, and of which pairs the buffer has both."""
    first, second = pairs.ends
    return np.abs(u[first] - u[second]), inside[first] & inside[second]


def _near(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs) -> float:
    """Mean difference of the neighbours along an axis."""
    difference, held = _neighbours(u, inside, pairs)
    return float(difference[held].mean()) if held.any() else 1.0


def _repeats(levels: Floats, places: npt.NDArray[np.int64]) -> bool:
    """Whether the levels of rows come again after a power of two of them: then they are another axis' levels."""

    def differences(step: int) -> Floats:
        at = np.minimum(np.searchsorted(places, places + step), len(places) - 1)
        found: Floats = np.abs(levels - levels[at])[places[at] == places + step]
        return found

    spread = float(_shuffled(levels).mean())
    near = differences(1)
    if len(near) >= _POSITIONS and near.mean() < _UNLIKE * spread:
        return False
    steps = (1 << k for k in range(2, int(places[-1] - places[0]).bit_length()))
    return any(len(found) >= _POSITIONS and found.mean() < spread / 2 for found in map(differences, steps))


def _is_patchy(u: Floats, inside: npt.NDArray[np.bool_], pairs: Pairs, n: int) -> bool:
    """Whether neighbours across some power of two are far more alike than across another, as in a wrong layout."""
    difference, held = _neighbours(u, inside, pairs)
    levels = (n - 1).bit_length()
    found = [difference[k::levels][held[k::levels]] for k in range(levels) if n >> (k + 1) >= _POSITIONS]
    means = [float(d.mean()) for d in found if len(d)]
    return len(means) > 1 and max(means) - min(means) > 0.5 * max(means)


def goes_on(source: Source, reading: Reading) -> bool:
    """Whether values without tiles go on from the end of each row to the next one, as within rows.

    Then they are one sequence, which is as smooth in every order of dimensions: neighbours tell nothing of these.
    """
    shape = reading.shape
    assert shape.layout is not None
    if len(shape.dimensions) < 2 or shape.layout.tiles or shape.expansion.allocated_elements != shape.size:
        return False
    row = shape.dimensions[shape.layout.minor_to_major[0]]
    count = (shape.size - 1) // row
    if row < 2 or count < _LEAST_ENDS:
        return False
    ends = np.arange(1, count + 1, max(1, count // _ENDS)) * row
    values, inside = source.fetch(reading, np.concatenate([ends - 1, ends, ends - row // 2 - 1, ends - row // 2]))
    if not inside.all():
        return False
    last, first, *within = _ranked(values, inside).reshape(4, -1)
    far = float(np.median(_shuffled(np.concatenate([last, first]))))
    near, across = float(np.median(np.abs(within[1] - within[0]))), float(np.median(np.abs(first - last)))
    return 0 < near < _SEQUENCE * far and across <= 2 * near and not _are_rows_alike(source, reading, row)


def _ranked(values: npt.NDArray[Any], inside: npt.NDArray[np.bool_]) -> Floats:
    """The place of each value among all that the buffer has."""
    numbers = as_numbers(values)
    return ranks(numbers, numbers[inside])


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
    here, near, far = _ranked(values, inside).reshape(3, -1)
    return float(np.abs(far - here).mean()) < _CLOSER * float(np.abs(near - here).mean())


def _order(numbers: Floats, inside: npt.NDArray[np.bool_], sample: Sample) -> Evidence:
    """Whether the values rise, or fall, throughout in row-major order."""
    own = _of_points(numbers, inside, sample)
    for sign, word in ((1, "rise"), (-1, "fall")):
        if len(own) >= 8 and (own[:-1] * sign <= own[1:] * sign).all():
            runs = np.diff(np.flatnonzero(np.concatenate([[True], own[:-1] != own[1:], [True]])))
            # Of all orders of these values one is sorted. It says more than any continuity does.
            weight = 2 * (math.lgamma(len(own) + 1) - sum(math.lgamma(run + 1) for run in runs.tolist()))
            return Evidence("order", weight, f"order: the values {word} throughout, row by row")
    return Evidence("order", 0.0, "")
