"""The report on the padding of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from strided.pictures.html import Section, card, picture, table
from strided.pictures.marks import MarkMap
from strided.runtime.argument_checks import whole
from strided.wording import counted, range_key, wrapped

#: The most matches that a region's text lists.
_SHOWN_MATCHES = 3

_MEANING = {
    "zero": "zero",
    "constant": "one value",
    "stale": "equal to data of this array",
    "finite": "numbers, perhaps data",
    "nan": "NaN",
    "noise": "noise: leading bytes take all values alike",
}

#: Start and stop along each dimension.
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Lines of padding and the equal lines of data, each as start and stop along each dimension of the padded array."""

    padding: Ranges
    data: Ranges

    def __str__(self) -> str:
        return f"[{_key(self.padding)}] equals [{_key(self.data)}]"

    def joined(self, other: Match) -> Match | None:
        """This match joined with the next; None if they are not adjacent."""
        steps = [_step(own, theirs) for own, theirs in ((self.padding, other.padding), (self.data, other.data))]
        if None in steps or steps[0] != steps[1]:
            return None
        return Match(_joined(self.padding, other.padding), _joined(self.data, other.data))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingRegion:
    """The padding of one origin with one kind of contents.

    Attributes
    ----------
    kind : str
        "dimension": beyond the end of a dimension; "tile": other slots of a tile without an element; "tail": after the
        last tile; "bits": the bits of the last byte that belong to no slot.
    dimension : int or None
        The dimension, for the first kind. Padding beyond the end of several dimensions belongs to the first of them.
    start, stop : int
        The range of its indices in the padded dimension; for other kinds, of slots of the buffer.
    bits : int
        Its size in bits.
    contents : str
        "zero", "constant", "stale" (lines that equal data of this array elsewhere), "finite" (other numbers), "nan"
        (NaN, alone or among numbers) or "noise".
    value : scalar or None
        The value of a constant.
    leaks : int
        Bytes that look like data: all of stale lines; nonzero numbers in lines that are finite or have NaN.
    matches : tuple of Match
        The first few matches of stale lines; none for dimensions that a tile adds, whose lines have no index.
    """

    kind: str
    dimension: int | None
    start: int
    stop: int
    bits: int
    contents: str
    value: Any = None
    leaks: int = 0
    matches: tuple[Match, ...] = ()

    @property
    def bytes(self) -> int:
        """Its size in whole bytes, rounded down."""
        return self.bits // 8

    @property
    def where(self) -> str:
        """Where it lies, in words."""
        span = str(self.start) if self.stop == self.start + 1 else f"{self.start} to {self.stop - 1}"
        if self.kind == "dimension":
            return f"dimension {self.dimension}, {span}"
        return {"tile": "rest of tiles", "tail": f"tail, slots {span}", "bits": "last byte"}[self.kind]

    @property
    def what(self) -> str:
        """What it holds, in words."""
        value = f": {self.value}" if self.value is not None else ""
        more = len(self.matches) - _SHOWN_MATCHES
        found = "; ".join(map(str, self.matches[:_SHOWN_MATCHES])) + (f"; and {more} more" if more > 0 else "")
        return f"{_MEANING[self.contents]}{value}{': ' * bool(found)}{found}"

    def __str__(self) -> str:
        size = counted(self.bytes, "byte") if self.bits >= 8 else counted(self.bits, "bit")
        return f"{self.where}: {size}, {self.what}"

    def to_dict(self) -> dict[str, Any]:
        """The region in types that JSON has."""
        return {
            "kind": self.kind,
            "dimension": self.dimension,
            "start": self.start,
            "stop": self.stop,
            "bytes": self.bytes,
            "bits": self.bits,
            "contents": self.contents,
            "value": None if self.value is None else str(self.value),
            "leaks": self.leaks,
            "matches": [{"padding": _key(m.padding), "data": _key(m.data)} for m in self.matches],
        }


@dataclass(frozen=True, slots=True)
class Padding:
    """The padding of an array and its contents.

    Attributes
    ----------
    shape : str
        The array's shape.
    bytes, total_bytes : int
        Bytes of padding, rounded down, and of the whole buffer without a prefix of dynamic sizes.
    regions : tuple of PaddingRegion
        The padding by origin and contents.
    map : MarkMap or None
        A map of the padded array: what is padding, and where data leaks; None if the layout is irregular.
    """

    shape: str
    bytes: int
    total_bytes: int
    regions: tuple[PaddingRegion, ...]
    map: MarkMap | None = field(default=None, compare=False)

    @property
    def share(self) -> float:
        """Padding as a fraction of the buffer, from 0 to 1."""
        return self.bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def _size(self) -> str:
        share = "under 0.1%" if 0 < self.share < 0.001 else f"{self.share:.1%}"
        return f"{self.bytes:,} of {counted(self.total_bytes, 'byte')} ({share})"

    @property
    def leaks(self) -> int:
        """Bytes of padding that look like data."""
        return sum(region.leaks for region in self.regions)

    @property
    def is_clean(self) -> bool:
        """Whether all bytes of padding hold zeros, constants and NaNs. Bits of an incomplete byte do not count."""
        return not self.leaks and all(r.contents in ("zero", "constant", "nan") for r in self.regions if r.bytes)

    @property
    def verdict(self) -> str:
        """Whether the padding is clean, or why not, in words."""
        if not self.regions:
            return "no padding"
        if self.is_clean:
            kinds = dict.fromkeys(_MEANING[region.contents] for region in self.regions if region.bytes)
            return f"clean: {', '.join(kinds)}, and nothing else" if kinds else "no byte of padding"
        reasons = [f"{counted(size, 'byte')} {why}" for size, why in self._reasons() if size]
        return f"not clean: {'; '.join(reasons)}"

    def _reasons(self) -> Iterator[tuple[int, str]]:
        """The numbers of bytes that are not clean, each with the reason."""
        for contents, why in (
            ("stale", "equal data elsewhere"),
            ("finite", "are numbers other than zero, perhaps data"),
            ("nan", "are numbers among NaNs"),
        ):
            yield sum(region.leaks for region in self.regions if region.contents == contents), why
        yield sum(region.bytes for region in self.regions if region.contents == "noise"), "are noise"

    def text(self, width: SupportsIndex = 80) -> str:
        """The report, in lines of at most `width` columns."""
        width = whole(width, "width")
        lines = wrapped(self.shape, width, "")
        rows = [("padding", self._size), ("verdict", self.verdict)]
        rows += [("" if k else "regions", str(region)) for k, region in enumerate(self.regions)]
        for label, words in rows:
            lines += wrapped(f"  {label:<8}{words}", width, " " * 12)
        if self.map is not None and self.bytes:
            lines += ["", self.map.text(width)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Padding of {self.shape}: {self._size}, {self.verdict}>"

    def svg(self) -> str:
        """The map as SVG text; empty without one."""
        return "" if self.map is None else self.map.svg(f"padding of {self.shape}")

    def _repr_html_(self) -> str:
        sections = []
        if self.regions:
            rows = [(region.where, region.bytes, region.what) for region in self.regions]
            sections.append(Section("regions", table(("where", "bytes", "contents"), rows), is_open=True))
        if self.regions and self.map is not None:
            sections.append(Section("map", picture(self.svg()), is_open=True))
        return card("Padding", self.shape, [("padding", self._size), ("verdict", self.verdict)], sections)

    def to_dict(self) -> dict[str, Any]:
        """Everything except the map, in types that JSON has."""
        return {
            "shape": self.shape,
            "bytes": self.bytes,
            "total_bytes": self.total_bytes,
            "share": round(self.share, 6),
            "is_clean": self.is_clean,
            "leaks": self.leaks,
            "verdict": self.verdict,
            "regions": [region.to_dict() for region in self.regions],
        }


def _key(ranges: Ranges) -> str:
    return ", ".join(range_key(*each) for each in ranges)


def _step(first: Ranges, second: Ranges) -> int | None:
    """The dimension in which two ranges are adjacent, if they are equal in all others; else None."""
    changed = [d for d, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    return changed[0] if len(changed) == 1 and first[changed[0]][1] == second[changed[0]][0] else None


def _joined(first: Ranges, second: Ranges) -> Ranges:
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, second, strict=True))
