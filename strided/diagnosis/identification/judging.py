"""Readings weighed on samples of the buffer: a small one for all of them, then a larger one for the best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from strided.diagnosis.identification.candidates import Reading, usualness
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.levels import Levels, Placed, Slots, slots_in_front, slots_key
from strided.diagnosis.identification.memory_order import is_counted, row_ends
from strided.diagnosis.identification.placement import padding, placement
from strided.diagnosis.identification.sampling import Sample, Source, as_numbers, hold_none_of
from strided.diagnosis.identification.structure import NO_STRUCTURE, Structure, structure
from strided.diagnosis.identification.type_signs import narrow_signs
from strided.diagnosis.identification.verdict import Judged
from strided.layout import Shape
from strided.layout.element_types import ELEMENT_TYPES
from strided.runtime.aliases import Table

#: Points, and pairs for each axis and power of two, of the sample that all readings are tried with, and of those for
#: the best ones, and for the best ones in a large file.
_SCOUT, _FULL, _LARGE = (512, 24), (16384, 320), (8192, 192)
#: Slots that all readings share in the small sample.
_LEAST_SLOTS = 2048
#: Readings that are looked at closely.
_KEPT, _LEAST_KEPT = 48, 10
#: The share of the best one's nats, in a small sample, with which there is still hope.
_HOPELESS = 0.25
#: Less usual ones, in terms of `usualness`, must be among the best of a small sample.
_USUAL = 4
#: The other order of the packed elements of a byte.
_OTHER = {"little": "big", "big": "little"}
#: Nats that constants in the padding must be worth for values that equal them to be left out elsewhere.
_SURE = 50.0
#: Nats that each pair of neighbours says in smooth values.
_SMOOTH = 0.8
#: Readings whose placing of slots is kept at a time: those of a layout, for each width of types.
_PLACED = 16
#: Slots of a large buffer that are chosen for the rows of readings.
_ROWS = 16384


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """How closely readings are looked at.

    Attributes
    ----------
    size : tuple of int
        Points of a sample, and pairs for each axis and power of two.
    constants : tuple of bytes
        What fills the padding: elements that hold one are left out.
    is_smooth : bool
        Whether values are smooth, so that levels of rows tell nothing more.
    places : int64 array
        Bytes whose slots are looked at, too.
    """

    size: tuple[int, int]
    constants: tuple[bytes, ...] = ()
    is_smooth: bool = False
    places: Table = field(default_factory=lambda: np.zeros(0, np.int64))


def judge(source: Source, found: Sequence[tuple[Reading, Evidence]]) -> list[Judged]:
    """Readings with the evidence for each, the weightiest ones after a closer look."""
    look = _Look(_SCOUT)
    scouted = _judged(source, found, look)
    sure = max(scouted, key=lambda j: j.padding.weight, default=None)
    if sure is not None and sure.padding.weight > _SURE and sure.constants:
        look = replace(look, constants=sure.constants)
        scouted = _judged(source, found, look)
    if max((j.structure.smoothness for j in scouted if j.reading.is_exact), default=0.0) > _SMOOTH:
        look = replace(look, is_smooth=True)
        scouted = _judged(source, found, look)
    kept = _hopeful(scouted)
    size, signs = _FULL if source.blocks is None else _LARGE, dict(found)
    look = replace(look, size=size, places=_places([j.reading for j in kept]))
    return [_with_order(source, j) for j in _judged(source, [(j.reading, signs[j.reading]) for j in kept], look)]


def _hopeful(scouted: Sequence[Judged]) -> list[Judged]:
    """The readings that a small sample lets hope for, the weightiest first."""
    scouted = sorted(scouted, key=lambda j: -j.weight)
    least = _HOPELESS * scouted[0].weight if scouted and scouted[0].weight > _SURE else -math.inf
    kept = [j for k, j in enumerate(scouted[:_KEPT]) if k < _LEAST_KEPT or j.weight >= least]
    if kept:
        # Usual readings that lie like the best one are not lost to the small sample.
        like_best = [j for j in scouted[_KEPT:] if j.weight >= least and j.reading.place == kept[0].reading.place]
        kept += [j for j in like_best if usualness(j.reading.shape) <= _USUAL]
        # Nor is the other bit order of the best: the small sample alone may speak against it.
        turned = {replace(j.reading, bitorder=_OTHER[j.reading.bitorder]) for j in kept[:_LEAST_KEPT]}
        turned -= {j.reading for j in kept}
        kept += [j for j in scouted if j.reading in turned]
    return kept


def _with_order(source: Source, judged: Judged) -> Judged:
    """A reading with what the order of memory alone explains: nothing then speaks for its tiles, or its dimensions."""
    if is_counted(source, judged.reading):
        return replace(judged, structure=NO_STRUCTURE)
    return replace(judged, row_ends=row_ends(source, judged.reading))


def _places(found: Sequence[Reading]) -> Table:
    """Bytes whose slots tell of rows in a large buffer: for each reading some of the same rows and columns."""
    places = [np.zeros(0, np.int64)]
    for reading in found:
        shape = reading.shape
        index = Sample.of(shape.dimensions, _ROWS // len(found), 0).index
        offsets = np.asarray(shape.address_map.offset_of(index), np.int64).reshape(-1)
        places.append(reading.start + offsets * shape.element_bits // 8)
    return np.concatenate(places)


def _judged(source: Source, found: Sequence[tuple[Reading, Evidence]], look: _Look) -> list[Judged]:
    """Readings with the evidence for each."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for k, (reading, _) in enumerate(found):
        alike.setdefault(reading.shape.dimensions, []).append(k)
    slots: dict[Any, Slots] = {}
    judged: dict[int, Judged] = {}
    for numbers in alike.values():  # one after another, so that only what was found of them is kept
        of_dimensions = _judged_alike(source, [found[k] for k in numbers], look, slots)
        judged.update(zip(numbers, of_dimensions, strict=True))
    return [judged[k] for k in range(len(found))]


def _judged_alike(
    source: Source, found: Sequence[tuple[Reading, Evidence]], look: _Look, slots: dict[Any, Slots]
) -> Iterator[Judged]:
    """`_judged` of readings of the same dimensions. `slots` are those of all readings, by `slots_key`."""
    dimensions = found[0][0].shape.dimensions
    sample = Sample.of(dimensions, *look.size)
    placed = lru_cache(maxsize=_PLACED)(Placed.of)

    def levels_of(reading: Reading) -> Levels | None:
        if look.is_smooth:
            return None
        own = slots_key(reading)
        if own not in slots:
            slots[own] = Slots.of(source, reading, max(look.size[0], _LEAST_SLOTS), look.places, look.constants)
        return Levels(slots[own], placed(slots[own].places, reading.shape.expansion, slots_in_front(reading)))

    offsets: dict[Any, tuple[Any, int]] = {}
    structures: dict[Any, tuple[Structure, int, Evidence]] = {}
    for reading, signs in found:
        shape = reading.shape
        assert shape.layout is not None
        key = shape.layout.minor_to_major, shape.layout.tiles
        if key not in offsets:
            table = np.atleast_1d(np.asarray(shape.address_map.offset_of(sample.index), np.int64))
            offsets[key] = table, hash(table.tobytes())
        table, mark = offsets[key]
        same = mark, shape.element_type, shape.element_bits, reading.place, reading.byteorder, reading.bitorder
        if same not in structures:
            values, inside = source.fetch(reading, table)
            numbers = as_numbers(values)
            value_hash = hash((numbers.tobytes(), inside.tobytes()))
            kept = inside & hold_none_of(values, [reading.in_memory(c) for c in look.constants])
            kind = ELEMENT_TYPES[shape.element_type]
            if kind.bits < 8 and shape.element_bits == 8:
                words, _ = source.fetch(Reading(Shape("u8", dimensions), reading.start), table[inside])
                signs = narrow_signs(signs, kind, words)
            structures[same] = structure(numbers, kept, sample, levels_of(reading)), value_hash, signs
        shown, value_hash, signs = structures[same]
        filling, fillings = padding(source, reading)
        yield Judged(
            reading, (dimensions, value_hash), shown, filling, placement(reading, source.size), signs, fillings
        )
