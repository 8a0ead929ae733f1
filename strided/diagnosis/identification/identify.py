"""`identify`: from bytes to an `Identification`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from strided.diagnosis.identification.candidates import (
    HEADERS,
    Reading,
    byte_size,
    readings,
    usual_layouts,
)
from strided.diagnosis.identification.dimensions import open_sizes, possible_dimensions, trimmed
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.judging import judge
from strided.diagnosis.identification.known import Known, known_of
from strided.diagnosis.identification.reference import Reference, by_reference
from strided.diagnosis.identification.result import Identification
from strided.diagnosis.identification.sampling import Source
from strided.diagnosis.identification.type_signs import entropy, may_be_wider, type_signs
from strided.diagnosis.identification.verdict import decide
from strided.errors import BufferSizeError
from strided.files.magic import HEAD_BYTES, format_of
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES
from strided.runtime.argument_checks import check_progress, whole

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
            result = _identified(part, known, start, like, progress)
            result = replace(result, candidates=result.candidates[:most])
            notes = [f"size: the last {source.size - part.size:,} bytes are left out"] * (part is not source)
            found.append(replace(result, notes=(*result.notes, *_notes(part, known, start, like, result), *notes)))
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
    source: Source, known: Known, start: int, like: Any, progress: Callable[[int], object] | None
) -> Identification:
    """The verdict on one buffer, with values at hand or without."""
    if like is not None:
        reference = Reference.of(like, known)
        known = replace(known, dimensions=reference.dimensions)
        found = [
            r
            for t in _types(known)
            for r in _variants(readings(source.size, start, t, reference.dimensions, known.claim))
        ]
        return by_reference(source, known, found, reference, progress)
    return decide(judge(source, _plausible(source, start, known)), known)


def _notes(source: Source, known: Known, start: int, like: Any, result: Identification) -> Iterator[str]:
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
    if result.best is not None and like is None:
        for axis, n in enumerate(known.dimensions or (None,) * result.best.shape.rank):
            if n is None and len(sizes := open_sizes(result.best.shape, axis)) > 1:
                yield f"size: dimension {axis} may have {sizes[0]:,} to {sizes[-1]:,}: the last ones may be padding"
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
    rows = [row for name in _types(known) for row in _typed(source.size, start, name)]
    signs = {_of_type(row): type_signs(source, row) for row in rows}
    best = max((signs[_of_type(row)].weight for row in rows if not may_be_wider(source, row)), default=0.0)
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
