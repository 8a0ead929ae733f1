"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, SupportsIndex

import numpy as np

from strided.pictures.html import Section, card, picture, table
from strided.pictures.marks import MarkMap
from strided.runtime.argument_checks import whole
from strided.wording import counted, wrapped

#: Headings of the table of mismatches.
_HEADS = ("index", "a", "b", "byte of a", "byte of b")
#: Indents of wrapped paragraphs: of the first line, and of the others.
_INDENTS = {"a": ("a: ", "   "), "b": ("b: ", "   "), "pattern": ("  ", "    "), "histogram": ("", "  ")}


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """A pair of elements that differ. Compares by bits, because NaN does not equal itself.

    Attributes
    ----------
    index : tuple of int
    a, b : scalar
        The values.
    byte_a, byte_b : int
        The byte of each buffer at which the element begins; for shards, of the shard's own buffer.
    """

    index: tuple[int, ...]
    a: Any
    b: Any
    byte_a: int
    byte_b: int

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Mismatch) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        values = [(value.dtype, value.tobytes()) for value in map(np.asarray, (self.a, self.b))]
        return self.index, self.byte_a, self.byte_b, *values


@dataclass(frozen=True, slots=True)
class Pattern:
    """Something that mismatches have in common.

    Attributes
    ----------
    kind : str
        "element", "row", "column", "plane", "tile", "sublane", "lane", "half-word", "shard", "box", "byte", "sign",
        "offset", "scale", "shift", "swap", "order", "exchange", "pitch", "transpose", "layout", "tiles", "type",
        "rounded", "quantised", "operation", "wrap", "clip" or "everywhere".
    where : str
        For a place, the key that selects it, as between NumPy's brackets: ``"8:16, 128:256"``; keys of several places
        are separated by semicolons. Otherwise the changed byte; the distance by which b is shifted; the exchanged
        members or parts ("bytes" if the bytes of each element are reversed); the order of axes, of indices along a
        dimension, or of tiles; the layout; the real row pitch and the one read; the type that b's bits are read as; the
        type or number of significant bits to which an array is rounded, or of low bits it lacks; the scale of which b's
        values are multiples; the constant offset or factor; the operation on a; the type to which it is wrapped;
        the bounds to which it is clipped, with a colon between them.
    share : float
        The share of the mismatches that it explains, from 0 to 1.
    sentence : str
        A description for people.
    """

    kind: str
    where: str
    share: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Bin:
    """The number of mismatches at distances from `start` to below `stop`: in ULPs, or for integers ``|a - b|``."""

    start: int
    stop: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two arrays differ; its text is a report with a map of the mismatches.

    Attributes
    ----------
    a, b : str
        Descriptions of the two arrays.
    tolerance : str
        The condition for elements to count as equal; empty if only equal values do.
    count, total : int
        The numbers of mismatches and of elements.
    unordered : int
        The number of mismatches in which one element is NaN (or both, if NaN does not equal NaN). The figures below and
        the histogram exclude these.
    max_abs : int or float
        The largest ``|a - b|`` of all elements; of s64 beside u64 at most ``2**64 - 1``.
    max_rel : float
        The largest ``|a - b| / |b|``; infinite where only b is 0.
    max_ulp : int
        The largest distance in ULPs, exact; for integers the largest ``|a - b|``.
    histogram : tuple of Bin
        The mismatches by distance.
    first : tuple of int or None
        The index of the first mismatch in row-major order.
    mismatches : tuple of Mismatch
        The first mismatches, in that order.
    padding_differs : int
        The number of differing bytes of padding, if both buffers have the same layout; never counted as mismatches.
    bytes_differ : int
        The number of differing bytes of elements, if both buffers have the same type and layout. These include bytes of
        equal elements, such as 0 and -0, NaNs, and booleans stored as bytes other than 0 and 1.
    patterns : tuple of Pattern
        The most informative first.
    """

    a: str
    b: str
    tolerance: str
    count: int
    total: int
    unordered: int
    max_abs: float
    max_rel: float
    max_ulp: int
    histogram: tuple[Bin, ...]
    first: tuple[int, ...] | None
    mismatches: tuple[Mismatch, ...]
    padding_differs: int
    bytes_differ: int
    patterns: tuple[Pattern, ...]
    has_ulps: bool
    map: MarkMap = field(compare=False)

    @property
    def equal(self) -> bool:
        """Whether all elements are."""
        return self.count == 0

    def to_dict(self) -> dict[str, Any]:
        """Everything except the map, in types that JSON has; infinities and NaN are strings."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "tolerance": self.tolerance,
            "count": self.count,
            "total": self.total,
            "unordered": self.unordered,
            "max_abs": _plain(self.max_abs),
            "max_rel": _plain(self.max_rel),
            "max_ulp": self.max_ulp,
            "first": None if self.first is None else list(self.first),
            "mismatches": [
                {**asdict(each), "index": list(each.index), "a": _plain(each.a), "b": _plain(each.b)}
                for each in self.mismatches
            ],
            "histogram": [asdict(each) for each in self.histogram],
            "padding_differs": self.padding_differs,
            "bytes_differ": self.bytes_differ,
            "patterns": [asdict(each) for each in self.patterns],
        }

    def text(self, width: SupportsIndex = 80, *, map_rows: SupportsIndex = 16) -> str:
        """The report, at most `width` columns wide, with a map of at most `map_rows` rows (0: no map)."""
        width, map_rows = whole(width, "width"), whole(map_rows, "map_rows")
        lines = [*self._paragraphs(width)]
        if self.count:
            if self.mismatches:
                lines += ["", *self._listed(width)]
            if self.total > 1 and map_rows:
                lines += ["", self.map.text(width, map_rows)]
        return "\n".join(lines)

    def svg(self) -> str:
        """The map of the mismatches as SVG, with a legend."""
        return self.map.svg(self.share_in_words)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        telling = [pattern.sentence for pattern in self.patterns[:1] if pattern.share > 0.5]
        return f"<Difference: {'; '.join([self.verdict, *telling])}>"

    def _repr_html_(self) -> str:
        sections = []
        if self.count:
            listed = table(_HEADS, self.cells(), self.count - len(self.mismatches))
            sections = [Section("mismatches", listed, is_open=True), Section("map", picture(self.svg()), is_open=True)]
        return card("Difference", "", self._facts(), sections)

    def _paragraphs(self, width: int) -> Iterator[str]:
        for name, words in self._facts():
            first, further = _INDENTS.get(name, ("", ""))
            yield from wrapped(first + words, width, further)

    def _facts(self) -> Iterator[tuple[str, str]]:
        """The facts to report, each with a name."""
        yield "a", self.a
        yield "b", self.b
        yield "verdict", self.verdict
        for pattern in self.patterns:
            yield "pattern", pattern.sentence
        if self.max_abs or self.unordered:
            yield "largest", self.figures
        if len(self.histogram) > 1:
            yield "histogram", self._histogram()
        if self.bytes_differ and not (self.count or self.tolerance):
            yield "bytes", f"the elements differ in {counted(self.bytes_differ, 'byte')}, but not in value"
        if self.padding_differs:
            yield "padding", f"padding differs in {counted(self.padding_differs, 'byte')}, which do not count"

    @property
    def verdict(self) -> str:
        """How many elements differ, in words."""
        within = f" (equal: {self.tolerance})" if self.tolerance else ""
        if not self.count:
            equal = "the only element is equal" if self.total == 1 else f"all {self.total:,} elements are equal"
            return f"{equal}{within}"
        return f"{self.share_in_words}, {percent(self.count / self.total)}{within}"

    @property
    def share_in_words(self) -> str:
        """How many of the elements differ, in words."""
        verb = "differs" if self.count == 1 else "differ"
        return f"{self.count:,} of {counted(self.total, 'element')} {verb}"

    @property
    def figures(self) -> str:
        """The largest distances, in words."""
        largest = f"{self.max_abs:,}" if isinstance(self.max_abs, int) else f"{self.max_abs:.6g}"
        found = [f"max |a - b| {largest}", f"max relative {self.max_rel:.3g}"]
        found += [f"max {self.max_ulp:,} ULPs"] * self.has_ulps
        found += [f"{self.unordered:,} with NaN"] * bool(self.unordered)
        return ", ".join(found)

    def _histogram(self) -> str:
        unit = "ULPs" if self.has_ulps else "|a - b|"
        bins = (f"{range_text(each)}: {each.count:,}" for each in self.histogram)
        return f"mismatches by {unit}: " + "; ".join(bins)

    def _listed(self, width: int) -> list[str]:
        """The table of the first mismatches."""
        more = self.count - len(self.mismatches)
        lines = _table([_HEADS, *self.cells()], width)
        return [*lines, f"  ... {more:,} more"] if more else lines

    def cells(self) -> list[tuple[str, ...]]:
        """The listed mismatches as rows of a table: index, both values, both bytes."""
        return [
            (f"[{', '.join(map(str, m.index))}]", _shown(m.a), _shown(m.b), str(m.byte_a), str(m.byte_b))
            for m in self.mismatches
        ]


def range_text(each: Bin) -> str:
    """The range of a bin for people, beyond a million in powers of two.

    >>> range_text(Bin(1, 2, 5)), range_text(Bin(4, 8, 5)), range_text(Bin(1 << 20, 1 << 21, 5))
    ('1', '4 to 7', '2^20 to 2^21 - 1')
    """
    if each.stop == each.start + 1:
        return f"{each.start:,}"
    if each.stop > 1 << 20:
        return f"2^{each.start.bit_length() - 1} to 2^{each.stop.bit_length() - 1} - 1"
    return f"{each.start:,} to {each.stop - 1:,}"


def percent(share: float) -> str:
    """A share for people, never rounded to 0% or 100%.

    >>> percent(1.0), percent(0.9999999), percent(1e-9), percent(0.2)
    ('100%', 'over 99.9%', 'under 0.001%', '20%')
    """
    if share == 1:
        return "100%"
    if share > 0.999:
        return "over 99.9%"
    return f"{100 * share:.3g}%" if share >= 1e-5 else "under 0.001%"


def _table(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Lines of a table, without its last columns if the terminal is narrow."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 3 and sum(widths) + 2 * len(widths) > width:
        widths.pop()
    return ["".join(f"  {cell.rjust(w)}" for cell, w in zip(row, widths, strict=False)) for row in rows]


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, (int, np.integer, np.bool_, bool)) else f"{value:.9g}"


def _plain(value: Any) -> Any:
    """A number as JSON can write it; others as text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (bool, int)):
        return value
    try:
        return float(value) if np.isfinite(float(value)) else str(float(value))
    except TypeError:
        return str(value)
