"""What `identify` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, SupportsIndex, TypeAlias

from strided.layout import Shape
from strided.pictures.html import Section, card, table
from strided.runtime.argument_checks import whole
from strided.wording import counted, wrapped

Verdict: TypeAlias = Literal["certain", "likely", "tied", "none"]

#: Each verdict in words.
_WORDS = {
    "certain": "every element equals the values at hand",
    "likely": "the evidence decides for one",
    "tied": "the evidence does not decide between these",
    "none": "no layout that is known here explains the bytes",
}
#: Ties that are printed of one candidate.
_SHOWN_TIES = 4
#: Scores of ties whose evidence is printed.
_SHOWN_SCORE = 0.05


@dataclass(frozen=True, slots=True)
class Candidate:
    """One explanation of the bytes.

    Attributes
    ----------
    shape : Shape
    score : float
        From 0 to 1: how well the evidence speaks for it, beside all others.
    evidence : tuple of str
        What the score rests on, the weightiest first.
    ties : tuple of Shape
        Other shapes that give the same values on these very bytes.
    offset : int
        Bytes in front of the array's buffer, whose prefix of dynamic sizes the shape tells.
    missing_bytes : int
        Bytes that the buffer lacks at its end.
    byteorder, bitorder : str
        "little" or "big": of the bytes of an element, and of packed elements in a byte.
    """

    shape: Shape
    score: float
    evidence: tuple[str, ...] = ()
    ties: tuple[Shape, ...] = ()
    offset: int = 0
    missing_bytes: int = 0
    byteorder: str = "little"
    bitorder: str = "little"

    @property
    def place(self) -> str:
        """What is unusual about how the array lies in the buffer; empty if nothing is.

        >>> from strided import parse_shape
        >>> Candidate(parse_shape("f32[3]"), 1.0, offset=128, byteorder="big").place
        '128 bytes in front, bytes swapped'
        """
        parts = [
            f"{counted(self.offset, 'byte')} in front" * bool(self.offset),
            f"the last {counted(self.missing_bytes, 'byte')} missing" * bool(self.missing_bytes),
            "bytes swapped" * (self.byteorder == "big"),
            "high bits first" * (self.bitorder == "big"),
        ]
        return ", ".join(part for part in parts if part)

    @property
    def summary(self) -> str:
        """The shape, and what is unusual about how the array lies."""
        return ", ".join(filter(None, [str(self.shape), self.place]))

    def to_dict(self) -> dict[str, Any]:
        """The candidate in types that JSON has."""
        return {
            "shape": str(self.shape),
            "score": round(self.score, 4),
            "evidence": list(self.evidence),
            "ties": [str(shape) for shape in self.ties],
            "offset": self.offset,
            "missing_bytes": self.missing_bytes,
            "byteorder": self.byteorder,
            "bitorder": self.bitorder,
        }

    def text(self, width: SupportsIndex = 80) -> str:
        """Lines of at most `width` columns; a shape is never broken."""
        place, width = f"  ({self.place})" if self.place else "", whole(width, "width")
        lines = wrapped(f"{self.score:5.2f}  {self.shape}{place}", width, " " * 7, whole_words=True)
        if self.ties:
            shown = ", ".join(map(str, self.ties[:_SHOWN_TIES]))
            more = f" and {len(self.ties) - _SHOWN_TIES} more" if len(self.ties) > _SHOWN_TIES else ""
            lines += wrapped(f"       same values: {shown}{more}", width, whole_words=True)
        for sentence in self.evidence:
            lines += wrapped(f"       {sentence}", width, whole_words=True)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Identification:
    """Which layouts may explain a buffer.

    Attributes
    ----------
    candidates : tuple of Candidate
        The best first, at most `limit`.
    verdict : str
        "certain", "likely", "tied" (the evidence does not decide) or "none".
    notes : tuple of str
        What concerns the buffer and no single candidate.
    """

    candidates: tuple[Candidate, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The explanation that the evidence decides for, or None."""
        return self.candidates[0] if self.verdict in ("certain", "likely") else None

    def to_dict(self) -> dict[str, Any]:
        """The result in types that JSON has."""
        return {
            "verdict": self.verdict,
            "best": None if self.best is None else self.best.to_dict(),
            "candidates": [c.to_dict() for c in self.candidates],
            "notes": list(self.notes),
        }

    def text(self, width: SupportsIndex = 80) -> str:
        """The result in lines of at most `width` columns."""
        width = whole(width, "width")
        lines = wrapped(f"{self.verdict}: {_WORDS[self.verdict]}", width, whole_words=True)
        for note in self.notes:
            lines += wrapped(f"  {note}", width, whole_words=True)
        for number, candidate in enumerate(self.candidates):
            has_evidence = number == 0 or (self.verdict == "tied" and candidate.score > _SHOWN_SCORE)
            lines.append((candidate if has_evidence else replace(candidate, evidence=())).text(width))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        words: list[str] = [self.verdict]
        if self.best is not None:
            words.append(self.best.summary)
        elif self.candidates:
            words.append(f"{counted(len(self.candidates), 'candidate')}, the first {self.candidates[0].summary}")
        return f"<Identification: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        rows = [
            (f"{c.score:.2f}", f"{c.shape} {c.place}".rstrip(), "; ".join(c.evidence), ", ".join(map(str, c.ties)))
            for c in self.candidates
        ]
        listed = table(("score", "shape", "evidence", "same values"), rows)
        facts = [(self.verdict, _WORDS[self.verdict]), *(("", note) for note in self.notes)]
        return card("Identification", "", facts, [Section("candidates", listed, is_open=True)])
