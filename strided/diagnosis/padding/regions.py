"""Tallies of padding by origin and contents: sizes, places, constants, and what stale lines equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.diagnosis.bit_patterns import pattern_words
from strided.diagnosis.padding.areas import Lines
from strided.diagnosis.padding.contents import CONSTANT, FINITE, KINDS, NAN, STALE, Kinds
from strided.diagnosis.padding.report import Match, PaddingRegion
from strided.diagnosis.padding.stale import Indices

#: The most matches of a region that are kept, after adjacent ones are joined.
_MOST_MATCHES = 16
#: A region of more distinct constants than these holds numbers.
_MOST_CONSTANTS = 4


@dataclass(slots=True)
class RegionTally:
    """The tally of padding of one origin and kind."""

    elements: int = 0
    start: int = 1 << 62
    stop: int = 0
    leaks: int = 0
    constants: dict[bytes, Any] = field(default_factory=dict)
    matches: list[Match] = field(default_factory=list)

    def match(self, found: Match) -> None:
        """Add lines that equal data, joined with the match before if they are adjacent."""
        joined = next(((k, j) for k, other in enumerate(self.matches) if (j := other.joined(found))), None)
        if joined is not None:
            del self.matches[joined[0]]
            self.match(joined[1])
        elif len(self.matches) < _MOST_MATCHES:
            self.matches.append(found)


#: A mask of elements of lines.
Marks: TypeAlias = npt.NDArray[np.bool_]
#: The kind of a region, and its dimension.
Origin: TypeAlias = tuple[str, int | None]
#: By origin and kind of contents.
Tallies: TypeAlias = dict[tuple[str, int | None, int], RegionTally]


class KnownLines(NamedTuple):
    """Lines of padding with their properties.

    Attributes
    ----------
    kinds : ndarray of int64
        The kind of each line's contents.
    values : ndarray
        A row for each line.
    numbers : ndarray of bool
        Which values are neither zero nor NaN.
    starts, stops : ndarray of int64
        The range of each line's indices in the padded dimension.
    """

    kinds: Kinds
    values: Lines
    numbers: Marks
    starts: Indices
    stops: Indices


def count(tallies: Tallies, origin: Origin, lines: KnownLines) -> Marks:
    """Count lines of one origin; return a mask of their elements that look like data."""
    kinds, values, numbers, starts, stops = lines
    leaks = np.zeros(values.shape, np.bool_)
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        own = np.flatnonzero(kinds == kind)
        tally = tallies.setdefault((*origin, kind), RegionTally())
        tally.elements += len(own) * values.shape[1]
        tally.start, tally.stop = min(tally.start, int(starts[own].min())), max(tally.stop, int(stops[own].max()))
        if kind in (FINITE, NAN, STALE):
            leaks[own] = kind == STALE or numbers[own]
            tally.leaks += int(np.count_nonzero(leaks[own]))
        if kind == CONSTANT and len(tally.constants) <= _MOST_CONSTANTS:
            first = values[own][:, :1]
            _, places = np.unique(pattern_words(first)[:, 0], axis=0, return_index=True)
            tally.constants |= {value.tobytes(): value[0] for value in first[places[: _MOST_CONSTANTS + 1]]}
    return leaks


def regions_of(tallies: Tallies, bits: int) -> list[PaddingRegion]:
    """The regions of padding, sorted; `bits` is the size of an element."""
    return [_region(*key, tally, bits) for key, tally in sorted(tallies.items(), key=_order)]


def _order(item: tuple[tuple[str, int | None, int], RegionTally]) -> tuple[Any, ...]:
    (kind, dimension, contents), tally = item
    return ("dimension", "tile", "tail").index(kind), dimension or 0, tally.start, contents


def _region(kind: str, dimension: int | None, contents: int, tally: RegionTally, bits: int) -> PaddingRegion:
    leaks, value = tally.leaks * bits // 8, None
    if contents == CONSTANT and len(tally.constants) == 1:
        (value,) = tally.constants.values()
    if contents == CONSTANT and len(tally.constants) > _MOST_CONSTANTS:
        contents, leaks = FINITE, tally.elements * bits // 8
    return PaddingRegion(
        kind=kind,
        dimension=dimension,
        start=tally.start,
        stop=tally.stop,
        bits=tally.elements * bits,
        contents=KINDS[contents],
        value=value,
        leaks=leaks,
        matches=tuple(tally.matches),
    )
