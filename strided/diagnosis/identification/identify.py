"""`identify`: from bytes to an `Identification`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from strided.diagnosis.identification import verdict
from strided.diagnosis.identification.candidates import (
    HEADERS,
    Reading,
    byte_size,
    readings,
    usual_layouts,
    usualness,
)
from strided.diagnosis.identification.dimensions import possible_dimensions, trimmed
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.known import Known, known_of
from strided.diagnosis.identification.levels import Slots, slots_key
from strided.diagnosis.identification.placement import padding, placement
from strided.diagnosis.identification.reference import Reference, by_reference
from strided.diagnosis.identification.result import Identification
from strided.diagnosis.identification.sampling import Sample, Source, as_numbers, hold_none_of
from strided.diagnosis.identification.structure import Structure, goes_on, is_counted, structure
from strided.diagnosis.identification.type_signs import entropy, type_signs
from strided.diagnosis.identification.verdict import Judged
from strided.errors import BufferSizeError
from strided.files.magic import HEAD_BYTES, format_of
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES
from strided.runtime.aliases import Table
from strided.runtime.argument_checks import check_progress, whole

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
#: Slots of a large buffer that are chosen for the rows of readings.
_ROWS = 16384
_NOWHERE: Table = np.zeros(0, np.int64)
#: Places, and bytes from each on, that are looked at: each place is another page of a mapped file. Bits of information
#: in a byte from which on they say nothing: values have 7.6 at most.
_LOOKED_AT, _EVEN = (256, 256), 7.97
#: Nats by which the signs of one type, or of one byte order, must fall behind those of another to be left out.
_IMPLAUSIBLE = 60.0


def identify(
    buffer: Any,
    shape: str | AnyShape | None = None,
    *,
    like: Any = None,
    offset: SupportsIndex = 0,
    limit: SupportsIndex = 10,
    allow_excess: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Identification:
    """Which layout explains these bytes?

    Without `like` only a sample is read, so that large files take seconds and little memory.

    Parameters
    ----------
    buffer : bytes, ndarray or anything with a buffer; or the path of a file
        A file is mapped.
    shape : str or Shape, optional
        What is known: ``"bf16[17,300]"``, ``"[17,300]"``, ``"bf16"``, ``"bf16[17,?]"``, or a whole shape with a layout,
        as a claim to be checked.
    like : array_like, or a tuple (key, array_like), optional
        What the values should be, of any real type and precision: the coarser one of the two is compared. A key, as
        between NumPy's brackets, says which part of the array they are. Untyped ones, as `np.load` gives of bfloat16,
        are of the type that `shape` says.
    offset : int, optional
        Bytes in front that do not belong to the array.
    limit : int, optional
        The most candidates to return.
    allow_excess : bool, optional
        The array takes only the first bytes behind the offset: those of the claimed layout, or of the compiler's own
        for the dimensions, which must be known.
    progress : callable, optional
        Called with the number of elements just compared with `like`.

    Returns
    -------
    Identification

    Raises
    ------
    NotationError
        The text is nothing that can be known of a shape.
    BufferSizeError
        The buffer is empty, or ends before `offset`.
    LayoutError
        An array without elements.
    UnsupportedError
        Tuples, tokens, split layouts; `like` of complex numbers.
    ValueError
        `like` fits the dimensions in no order, or nothing says its type; `limit` is less than 1; excess of unknown
        dimensions.
    IndexError
        The key of `like` does not fit the dimensions.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import strided as sd
    >>> rows, columns = np.mgrid[:17, :300]
    >>> values = np.sin(rows / 9 + columns / 50).astype(np.float32)
    >>> raw = sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}").buffer
    >>> found = identify(raw, "f32[17,300]")
    >>> found.verdict, str(found.best.shape)
    ('likely', 'f32[17,300]{1,0:T(8,128)}')
    >>> identify(raw, "f32[17,300]", like=values.round(2)).verdict
    'none'
    """
    start, most = whole(offset, "offset"), whole(limit, "limit", 1)
    check_progress(progress)
    known = known_of(shape)
    with Source.opened(buffer) as source, np.errstate(all="ignore"):  # bytes of another type may be any numbers
        if not source.size:
            raise BufferSizeError("the buffer is empty: there is nothing to identify", actual=0)
        if not 0 <= start < source.size:
            raise BufferSizeError(f"offset {start} is outside a buffer of {source.size} bytes", actual=source.size)
        source.check()
        found = []
        for part in _first_bytes(source, known, start) if allow_excess else [source]:
            result = _identified(part, known, start, like, most, progress)
            notes = [f"size: the last {source.size - part.size:,} bytes are left out"] * (part is not source)
            found.append(replace(result, notes=(*result.notes, *_notes(part, known, start, result), *notes)))
        return max(found, key=lambda one: (one.best is not None, max((c.score for c in one.candidates), default=0)))


def _first_bytes(source: Source, known: Known, start: int) -> list[Source]:
    """The buffer up to the end of an array of each usual size; the whole one if none is shorter."""
    if known.sizes is None or known.element_type is None:
        raise ValueError("what is excess depends on the size: give type and dimensions, as in bf16[17,300]")
    stops = dict.fromkeys(start + size for size in _usual_sizes(known))
    return [replace(source, content=source.content[:stop]) for stop in stops if stop < source.size] or [source]


def _usual_sizes(known: Known) -> Iterator[int]:
    """The bytes of an array of known type and sizes: in the claimed layout, or else in each usual one."""
    assert known.sizes is not None
    assert known.element_type is not None
    kind = ELEMENT_TYPES[known.element_type]
    layouts = usual_layouts(kind.name, known.sizes) if known.claim is None else (known.claim,)
    return (byte_size(kind, known.sizes, layout) for layout in layouts)


def _identified(
    source: Source, known: Known, start: int, like: Any, limit: int, progress: Callable[[int], object] | None
) -> Identification:
    if like is not None:
        reference = Reference.of(like, known)
        known = replace(known, dimensions=reference.dimensions)
        found = [
            r
            for t in _types(known)
            for r in _variants(readings(source.size, start, t, reference.dimensions, known.claim))
        ]
        return by_reference(source, known, found, reference, limit, progress, judge)
    return verdict.decide(judge(source, _plausible(source, start, known)), known, limit)


def _notes(source: Source, known: Known, start: int, result: Identification) -> Iterator[str]:
    """What to say of the sizes, of a buffer that begins as another format does, and of bytes that say nothing."""
    have = source.size - start
    if known.element_type is not None and known.sizes is not None:
        kind = ELEMENT_TYPES[known.element_type]
        if known.claim is not None and (needed := byte_size(kind, known.sizes, known.claim)) != have:
            yield f"claim: the claimed layout takes {needed:,} bytes, and there are {have:,}"
        elif not result.candidates and (needed := math.prod(known.sizes) * kind.bits // 8) > have:
            yield f"size: the values alone take {needed:,} bytes, and there are {have:,}"
        elif result.best is None and have - (most := max(_usual_sizes(known))) > max(HEADERS):
            yield f"size: usual layouts take at most {most:,} bytes of the {have:,}: allow excess if others follow"
    if known.claim is not None and result.best is not None:
        if known.claim not in (result.best.shape.layout, *(tie.layout for tie in result.best.ties)):
            yield "claim: the evidence speaks against the claimed layout"
    found = format_of(source.content[start : start + HEAD_BYTES].tobytes(), have)
    if found is not None:
        yield f"format: the buffer begins as {found.name} does: {found.advice}"
    elif result.verdict != "likely" and _is_even(source, start):
        yield "content: each byte is as likely as any, as in compressed or encrypted data and in random integers"


def _is_even(source: Source, start: int) -> bool:
    """Whether all values of a byte are about as common, in a buffer that is large enough to tell."""
    size, (places, neighbours) = source.size - start, _LOOKED_AT
    if size < places * neighbours:
        return False
    begins = np.random.default_rng(31).integers(0, size - neighbours + 1, places)
    at = (begins[:, None] + np.arange(neighbours)).reshape(-1)
    return entropy(source.fetch(Reading(Shape("u8", (size,), Layout((0,))), start), at)[0]) > _EVEN


def _types(known: Known) -> Iterator[str]:
    """The element types that are possible."""
    if known.element_type is not None:
        yield known.element_type
        return
    yield from (t.name for t in ELEMENT_TYPES.values() if t.dtype is not None)


def _variants(found: Iterable[Reading]) -> Iterator[Reading]:
    """Readings in either order of bytes, or of packed elements."""
    for reading in found:
        yield reading
        if reading.shape.element_bits > 8:
            yield replace(reading, byteorder="big")
        elif reading.shape.element_bits < 8:
            yield replace(reading, bitorder="big")


def _plausible(source: Source, start: int, known: Known) -> list[tuple[Reading, Evidence]]:
    """The readings whose values look like their type, each with the evidence for the type."""
    rows = (row for name in _types(known) for row in _typed(source.size, start, name))
    signs = {_of_type(row): type_signs(source, row) for row in rows}
    best = max((e.weight for e in signs.values()), default=0.0)
    signs = {key: e for key, e in signs.items() if best - e.weight < _IMPLAUSIBLE}
    guessed = known.dimensions is None or known.dimensions.count(None) > 1
    found: list[tuple[Reading, Evidence]] = []
    for name in dict.fromkeys(name for name, _, _ in signs):
        for dimensions in possible_dimensions(known, ELEMENT_TYPES[name], source.size - start):
            possible = readings(source.size, start, name, dimensions, known.claim, guessed)
            if known.sizes is None:
                possible = (trimmed(source, r, known) for r in possible)
            variants = [v for r in possible for v in _variants(_at_either_end(r, start))]
            found += [(r, signs[_of_type(r)]) for r in variants if _of_type(r) in signs]
    if known.element_type is None and any(r.is_exact for r, _ in found):
        # Each type has sizes of its own: one that fits is a sign.
        fitting = {r.shape.element_type for r, _ in found if r.is_exact}
        found = [(r, e) for r, e in found if r.shape.element_type in fitting]
    return list(dict.fromkeys(found))


def _at_either_end(reading: Reading, start: int) -> list[Reading]:
    """A reading, and the same one with the bytes behind it that it leaves in front: either may be what is odd."""
    front = reading.offset - start
    return [reading] + [replace(reading, offset=start, excess_bytes=front)] * (front > 0)


def _typed(size: int, start: int, name: str) -> Iterator[Reading]:
    """The buffer as one row of elements of a type, packed and not, in either order of bytes."""
    kind = ELEMENT_TYPES[name]
    for bits in (kind.storage_bits, kind.bits) if kind.packs and name != "pred" else (kind.storage_bits,):
        if count := (size - start) * 8 // bits:
            packed = 0 if bits == kind.storage_bits else bits
            yield from _variants([Reading(Shape(name, (count,), Layout((0,), element_size_in_bits=packed)), start)])


def _of_type(reading: Reading) -> tuple[str, int, str]:
    return reading.shape.element_type, reading.shape.element_bits, reading.byteorder


def judge(source: Source, found: Sequence[tuple[Reading, Evidence]]) -> list[Judged]:
    """Readings with the evidence for each, the weightiest ones after a closer look."""
    scouted = _judged(source, found, _SCOUT)
    sure = max(scouted, key=lambda j: j.padding.weight, default=None)
    constants = sure.constants if sure is not None and sure.padding.weight > _SURE else ()
    if constants:
        scouted = _judged(source, found, _SCOUT, constants)
    smooth = max((j.structure.smoothness for j in scouted if j.reading.is_exact), default=0.0) > _SMOOTH
    if smooth:
        scouted = _judged(source, found, _SCOUT, constants, smooth)
    scouted.sort(key=lambda j: -j.weight)
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
    judged = _judged(
        source,
        [(j.reading, j.type_signs) for j in kept],
        _FULL if source.blocks is None else _LARGE,
        constants,
        smooth,
        _places([j.reading for j in kept]),
    )
    return [
        replace(j, structure=Structure((), np.zeros(0), 0.0, 0.0))
        if is_counted(source, j.reading)
        else replace(j, is_sequence=goes_on(source, j.reading))
        for j in judged
    ]


def _places(found: Sequence[Reading]) -> Table:
    """Bytes whose slots tell of rows in a large buffer: for each reading some of the same rows and columns."""
    places = [_NOWHERE]
    for reading in found:
        shape = reading.shape
        index = Sample.of(shape.dimensions, _ROWS // len(found), 0).index
        offsets = np.asarray(shape.address_map.offset_of(index), np.int64).reshape(-1)
        places.append(reading.start + offsets * shape.element_bits // 8)
    return np.concatenate(places)


def _judged(
    source: Source,
    found: Sequence[tuple[Reading, Evidence]],
    size: tuple[int, int],
    constants: tuple[bytes, ...] = (),
    smooth: bool = False,
    places: Table = _NOWHERE,
) -> list[Judged]:
    """Readings with the evidence for each, from a sample of a `size`, and slots at certain `places` in bytes."""
    judged: list[Judged] = []
    samples: dict[tuple[int, ...], Sample] = {}
    offsets: dict[Any, tuple[Any, int]] = {}
    fetched: dict[Any, tuple[Structure, int]] = {}
    slots: dict[Any, Slots] = {}
    for reading, signs in found:
        shape = reading.shape
        assert shape.layout is not None
        dimensions = shape.dimensions
        if dimensions not in samples:
            samples[dimensions] = Sample.of(dimensions, *size)
        key = dimensions, shape.layout.minor_to_major, shape.layout.tiles
        if key not in offsets:
            table = np.asarray(shape.address_map.offset_of(samples[dimensions].index), np.int64)
            offsets[key] = table, hash(table.tobytes())
        table, mark = offsets[key]
        same = mark, shape.element_type, shape.element_bits, reading.place, reading.byteorder, reading.bitorder
        if same not in fetched:
            own = slots_key(reading)
            if not smooth and own not in slots:
                slots[own] = Slots.of(source, reading, max(size[0], _LEAST_SLOTS), places, constants)
            fetched[same] = _structure(source, reading, table, samples[dimensions], constants, slots.get(own))
        shown, values = fetched[same]
        filling, fillings = padding(source, reading)
        placed = placement(reading, source.size)
        judged.append(Judged(reading, (dimensions, values), shown, filling, placed, signs, fillings))
    return judged


def _structure(
    source: Source, reading: Reading, offsets: Table, sample: Sample, constants: tuple[bytes, ...], slots: Slots | None
) -> tuple[Structure, int]:
    """The structure of a reading, without elements that hold a constant of padding, and a hash of its values."""
    values, inside = source.fetch(reading, np.atleast_1d(offsets))
    mark = hash((as_numbers(values).tobytes(), inside.tobytes()))
    return structure(values, inside & hold_none_of(values, constants), sample, reading, slots), mark
