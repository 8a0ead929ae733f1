"""Comparison with what the values should be: where they are at hand, they alone decide."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import run_boxes
from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.identification import verdict
from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.judging import judge
from strided.diagnosis.identification.known import Known
from strided.diagnosis.identification.result import Identification, Verdict
from strided.diagnosis.identification.sampling import Source, Values, as_numbers
from strided.diagnosis.identification.type_signs import type_signs
from strided.errors import UnsupportedError
from strided.layout.element_types import ELEMENT_TYPES
from strided.planning.axis_maps import axis_map_of
from strided.runtime.aliases import Table

#: Elements compared at first with every reading, and then with those that passed.
_FIRST, _SECOND = 64, 8192
#: Elements by which readings are grouped, and elements compared at a time.
_GROUPED, _BLOCK = 1 << 17, 1 << 20
#: The share of elements that must be equal to name a reading although others differ.
_MOST_EQUAL = 0.9
#: The most bytes whose elements are sorted, to see whether the values are there at all.
_SORTED = 1 << 24

#: Yes or no for each value.
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What the values should be.

    Attributes
    ----------
    dimensions : tuple of int
        Of the whole array.
    values : ndarray
        Of the whole array, or of a part.
    index : tuple of int64 arrays, or None
        Of a part: the logical indices of its values, one array for each dimension.
    """

    dimensions: tuple[int, ...]
    values: Values
    index: tuple[Table, ...] | None

    @classmethod
    def of(cls, like: Any, known: Known) -> Reference:
        """`like` as `identify` takes it. ValueError if it does not fit the dimensions that are known."""
        is_part = isinstance(like, tuple) and len(like) == 2
        if isinstance(like[1] if is_part else like, (str, os.PathLike)):
            raise TypeError("`like` takes values, not a path: strided.open and numpy.load read them")
        values = _typed(np.asarray(like[1] if is_part else like), known)
        if values.dtype.kind == "c":
            raise UnsupportedError("`like` holds complex numbers: compare the real parts, as floats of half the size")
        if not _is_number(values.dtype):
            raise ValueError(f"`like` holds {values.dtype}, which are no numbers")
        if not values.size:
            raise ValueError("`like` holds no values")
        if is_part:
            if known.sizes is None:
                raise ValueError("a part of the values needs the dimensions of the whole array")
            return cls._part(like[0], values, known.sizes)
        dimensions = _fitting(values.shape, known)
        return cls(dimensions, values.reshape(dimensions), None)

    @classmethod
    def _part(cls, key: Any, values: Values, dimensions: tuple[int, ...]) -> Reference:
        index = [np.broadcast_to(along, dimensions)[key] for along in np.ix_(*map(np.arange, dimensions))]
        shape = np.shape(index[0]) if index else ()
        if values.shape != shape:
            raise ValueError(f"the key selects an array of shape {shape}, but the values have {values.shape}")
        return cls(dimensions, values.ravel(), tuple(np.asarray(i, np.int64).ravel() for i in index))

    def sample(self, count: int) -> tuple[list[Table], Values]:
        """The indices of some elements all over the array, and what they should be."""
        size = self.values.size
        flat = np.arange(size) if size <= count else np.unique(np.random.default_rng(17).integers(0, size, count))
        if self.index is not None:
            return [i[flat] for i in self.index], self.values[flat]
        index = np.unravel_index(flat, self.dimensions) if self.dimensions else ()
        return [np.asarray(i, np.int64) for i in index], self.values[tuple(index)].reshape(len(flat))


def _typed(values: Values, known: Known) -> Values:
    """Values whose file lacks their type, as what `np.save` writes of bfloat16 does, in the type that is known."""
    dtype = values.dtype
    if dtype.type is not np.void or dtype.names is not None:
        return values
    meant = None if known.element_type is None else ELEMENT_TYPES[known.element_type].dtype
    if meant is None or meant.itemsize != dtype.itemsize:
        raise ValueError(
            f"`like` holds {dtype.itemsize}-byte elements and does not say of which type, as files of np.save do not "
            "of bfloat16 and the like: the shape has to say it, as in 'bf16[17,300]'"
        )
    return values.view(meant)


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" or any(dtype == t.dtype for t in ELEMENT_TYPES.values())


def _fitting(shape: tuple[int, ...], known: Known) -> tuple[int, ...]:
    """The dimensions of the array, from those of `like` and what is known of them; the axes may be in another order."""
    dimensions = known.dimensions
    if dimensions is None:
        return shape
    if len(shape) == len(dimensions) and all(n in (None, m) for n, m in zip(dimensions, shape, strict=True)):
        return shape
    if known.sizes is not None:
        if sorted(shape) == sorted(known.sizes):
            return shape
        if math.prod(shape) == math.prod(known.sizes):
            return known.sizes
    raise ValueError(
        f"`like` has shape {shape}, which does not fit {known}; if it is a part of the array, give like=(key, values)"
    )


def equal(found: Values, wanted: Values) -> Flags:
    """Which values are equal at the coarser precision of the two; NaN equals NaN.

    >>> equal(np.array([1.0, 2.001], np.float16), np.array([1.0001, 2.5])).tolist()
    [True, False]
    >>> equal(np.array([2**53 + 1]), np.array([2**53])).tolist()
    [False]
    """
    with np.errstate(all="ignore"):
        a, b = _exact_numbers(found), _exact_numbers(wanted)
        same = _are_same(a, b)
        if not same.all():
            same |= (_rounded(a, wanted.dtype) == b).any(axis=0) | (_rounded(b, found.dtype) == a).any(axis=0)
    return same


def _exact_numbers(values: Values) -> Values:
    """Values as numbers: integers of 64 bits, which float64 would round, as they are."""
    return values if _are_long_integers(values) else as_numbers(values)


def _are_long_integers(values: Values) -> bool:
    return values.dtype.kind in "iu" and values.dtype.itemsize == 8


def _are_same(a: Values, b: Values) -> Flags:
    """Which numbers are equal; NaN equals NaN."""
    same: Flags = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _rounded(values: Values, dtype: np.dtype[Any]) -> Values:
    """Numbers rounded to a type, one row for each way: to integers to the nearest, and towards zero; to bool in none.

    Integers are whole already.
    """
    are_whole = values.dtype.kind in "iu"
    to_integers = dtype.kind in "iu" or dtype.name.startswith(("int", "uint"))
    if dtype.kind == "b" or (are_whole and to_integers):
        return values[np.newaxis]
    if to_integers:
        return np.stack([np.rint(values), np.trunc(values)])
    real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return values.astype(real).astype(np.float64)[np.newaxis]


def by_reference(
    source: Source,
    known: Known,
    found: Sequence[Reading],
    reference: Reference,
    progress: Callable[[int], object] | None,
) -> Identification:
    """The verdict of values at hand."""
    shares = sorted(_shares(source, found, reference), key=lambda pair: -pair[1])
    passed = [r for r, share in shares if share == 1.0]
    tried = (_equal(source, g, reference, progress) for g in _by_value(source, passed, reference, known))
    groups = [members for members in tried if members]
    if len(groups) > 1:
        # Rounding may make several alike. One that needs none is it.
        index, wanted = reference.sample(_SECOND)
        exact = [g for g in groups if _is_exact(source, g[0], index, wanted)]
        groups = exact if len(exact) == 1 else groups
    count = reference.values.size
    what = f"all {count:,} values" if reference.index is None else f"all {count:,} values of the part"
    if len(groups) == 1:
        if groups[0][0].missing_bytes:
            return _named(groups, f"like: {what} that the buffer has are equal", "likely")
        return _named(groups, f"like: {what} are equal", "certain")
    if groups:
        # What is at hand does not tell them apart, but the rest of the values may.
        judged = judge(source, [(r, type_signs(source, r)) for g in groups for r in g])
        sentence = f"like: {what} are equal, as they are for {len(groups) - 1} other candidates"
        return _with_evidence(verdict.decide(judged, known), sentence)
    return _closest(source, known, shares, reference)


def _with_evidence(result: Identification, sentence: str) -> Identification:
    """A verdict whose candidates all have one sentence more, the first."""
    candidates = tuple(replace(c, evidence=(sentence, *c.evidence)) for c in result.candidates)
    return Identification(candidates, result.verdict, result.notes)


def _closest(
    source: Source, known: Known, shares: Sequence[tuple[Reading, float]], reference: Reference
) -> Identification:
    """The verdict where no reading gives all values: the one that gives nearly all, if the others are far behind."""
    close = [(r, share) for r, share in shares if share >= _MOST_EQUAL]
    if close and (len(shares) == len(close) or shares[0][1] - shares[len(close)][1] > (1 - shares[0][1])):
        most = close[0][1]
        groups = _by_value(source, [r for r, share in close if share == most], reference, known)
        if len(groups) == 1:
            return _named(groups, f"like: {most:.2%} of the values that were looked at are equal", "likely", most)
    candidates = tuple(
        verdict.candidate(r, share, (f"like: {share:.1%} of the values that were looked at are equal",))
        for r, share in close
    )
    return Identification(candidates, "none", (_where(source, [r for r, _ in shares], reference),))


def _shares(source: Source, found: Sequence[Reading], reference: Reference) -> Iterator[tuple[Reading, float]]:
    """Each reading with the share of elements, out of a sample, that are equal."""
    samples = [reference.sample(n) for n in (_FIRST, _SECOND)]
    for reading in found:
        share = 0.0
        for index, wanted in samples:
            share = _share(source, reading, index, wanted)
            if share < 0.5:
                break
        yield reading, share


def _is_exact(source: Source, reading: Reading, index: Sequence[Table], wanted: Values) -> bool:
    """Whether elements are equal without any rounding."""
    found, right = _found_and_wanted(source, reading, index, wanted)
    return bool(_are_same(_exact_numbers(found), _exact_numbers(right)).all())


def _share(source: Source, reading: Reading, index: Sequence[Table], wanted: Values) -> float:
    """The share of elements that are equal, of those that the buffer has."""
    found, right = _found_and_wanted(source, reading, index, wanted)
    return float(equal(found, right).mean()) if found.size else 0.0


def _found_and_wanted(
    source: Source, reading: Reading, index: Sequence[Table], wanted: Values
) -> tuple[Values, Values]:
    """The elements at some indices that the buffer has, and what these should be."""
    offsets = np.broadcast_to(np.asarray(reading.shape.address_map.offset_of(index), np.int64), wanted.shape)
    values, inside = source.fetch(reading, offsets)
    return values[inside], wanted[inside]


def _by_value(source: Source, found: Sequence[Reading], reference: Reference, known: Known) -> list[list[Reading]]:
    """Readings that give the same values together, as far as a sample of the whole array tells."""
    whole = Reference(reference.dimensions, np.broadcast_to(np.int8(0), reference.dimensions), None)
    index, _ = whole.sample(_GROUPED)
    groups: dict[Hashable, list[Reading]] = {}
    for reading in sorted(found, key=lambda r: verdict.usualness_of(r, known)):
        offsets = np.atleast_1d(np.asarray(reading.shape.address_map.offset_of(index), np.int64))
        values, inside = source.fetch(reading, offsets)
        numbers = np.where(inside, as_numbers(values), 0)
        is_rounded = _are_long_integers(values) and np.abs(numbers).max() > 2**53
        integers = np.where(inside, values, 0).tobytes() if is_rounded else b""
        groups.setdefault((numbers.tobytes(), integers), []).append(reading)
    return list(groups.values())


def _equal(
    source: Source, group: Sequence[Reading], reference: Reference, progress: Callable[[int], object] | None
) -> list[Reading]:
    """The readings of a group whose elements are all equal, of those that lie in the buffer as the first of them does.

    All are alike if the group was told by all elements, or if all bytes are. In a large array they may differ beside
    the sample. What gives the same elements at the same addresses is compared once.
    """
    are_alike = math.prod(reference.dimensions) <= _GROUPED or _is_one_byte(source, group[0].start)
    kept: list[Reading] = []
    found: dict[Hashable, bool] = {}
    for reading in group:
        if kept and reading.lying != kept[0].lying:
            continue
        key = None if are_alike else _addresses(reading)
        if key not in found:
            found[key] = _all_equal(source, reading, reference, progress)
        if found[key]:
            kept.append(reading)
    return kept


def _is_one_byte(source: Source, start: int) -> bool:
    """Whether all bytes from one on are the same, as those of zeros, so that all layouts have the same elements."""
    for k in range(start, source.size, _BLOCK):
        if (source.content[k : k + _BLOCK] != source.content[start]).any():
            return False
        source.release()
    return True


def _addresses(reading: Reading) -> Hashable:
    """A key that is equal for readings whose elements of equal types lie at equal addresses."""
    shape, map_ = reading.shape, reading.shape.address_map
    if map_.irregular:
        return reading
    axes = tuple(axis_map_of(terms, n) for terms, n in zip(map_.axes, shape.dimensions, strict=True))
    return shape.element_type, shape.element_bits, reading.start, reading.lying, map_.base, axes


def _all_equal(
    source: Source, reading: Reading, reference: Reference, progress: Callable[[int], object] | None
) -> bool:
    """Whether all elements are equal: of a part, of an array in memory, or block by block."""
    if reference.index is not None:
        return _share(source, reading, reference.index, reference.values) == 1.0
    for box in run_boxes(reference.dimensions, _BLOCK):
        key: Any = (*box, ...)
        wanted = reference.values[key]
        found, inside = _block(source, reading, box)
        if not (equal(found, wanted) | ~inside).all():
            return False
        source.release()
        if progress is not None:
            progress(wanted.size)
    return True


def _block(source: Source, reading: Reading, box: Sequence[slice]) -> tuple[Values, Flags]:
    """A box of the array, and which of its elements the buffer has."""
    shape = tuple(s.stop - s.start for s in box)
    if not reading.missing_bytes and reading.byteorder == "little" and math.prod(shape) > _SECOND:
        array = LayoutArray(
            source.content, reading.shape, offset=reading.offset, bitorder=reading.bitorder, allow_excess=True
        )
        return array[(*box, ...)].to_numpy(), np.ones(shape, np.bool_)
    offsets = reading.shape.address_map.offsets([(s.start, s.stop) for s in box])
    values, inside = source.fetch(reading, offsets.reshape(-1))
    return values.reshape(shape), inside.reshape(shape)


def _where(source: Source, found: Sequence[Reading], reference: Reference) -> str:
    """Whether the values are there at all, in whatever order."""
    if reference.index is None and source.size <= _SORTED:
        wanted = np.sort(_exact_numbers(reference.values), axis=None)
        exact = {r.shape.element_type: r for r in found if r.is_exact and r.byteorder == r.bitorder == "little"}
        for reading in exact.values():
            slots = (source.size - reading.start) * 8 // reading.shape.element_bits
            values, inside = source.fetch(reading, np.arange(slots))
            rounded = np.sort(_rounded(wanted, values.dtype)[0])
            if len(wanted) <= slots and _contains(np.sort(_exact_numbers(values[inside])), rounded):
                return "like: the values are here, in no layout that is known here"
    return "like: no reading has these values"


def _contains(have: Values, wanted: Values) -> bool:
    """Whether sorted values hold others, each as many times."""
    values, counts = np.unique(wanted, return_counts=True)
    first, last = np.searchsorted(have, values, "left"), np.searchsorted(have, values, "right")
    return bool((last - first >= counts).all())


def _named(groups: Sequence[Sequence[Reading]], sentence: str, result: Verdict, score: float = 1.0) -> Identification:
    return Identification((verdict.candidate(groups[0][0], score, (sentence,), groups[0]),), result)
