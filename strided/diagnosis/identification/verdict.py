"""From weighed evidence to a verdict."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from strided.diagnosis.identification.candidates import Reading, usualness
from strided.diagnosis.identification.dimensions import MOST_UNKNOWN
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.known import Known
from strided.diagnosis.identification.memory_order import RowEnds
from strided.diagnosis.identification.result import Candidate, Identification, Verdict
from strided.diagnosis.identification.structure import Structure, sum_of_squares
from strided.diagnosis.identification.type_signs import RARITY

#: Nats by which the best reading must be ahead of the next one, and standard errors of sampling.
_MARGIN, _DEVIATIONS = 12.0, 2.5
#: The share of its order by which tiles not as wide as lanes must be ahead of other layouts: sequences that lie one
#: below the other end at powers of two, where a wrong reading has the borders of its tiles, and blocks look like rows.
#: So must levels in one bit order be ahead of those in the other.
_AHEAD, _LANES = 0.25, 128
#: What `usualness` gives row-major order, and tiles that the compiler gives no such rows.
_ROW_MAJOR, _UNUSUAL = 2, 6
#: What bytes that are left over or missing, and swapped ones, add to that.
_INEXACT = 10
#: The same for levels of rows, of which runs in another order have much the same.
_SCALE = 0.03
#: The same for readings of which one shows continuity and the other scale: their weights are hardly comparable.
_OTHER_KIND = 0.5
#: Nats by which the usual order of bytes must be ahead of the other one: more than the rarity of that is worth.
_BYTE_ORDER = RARITY + 5.0
#: Nats of order, or of padding, without which nothing is decided: noise has less.
_LEAST = 40.0
#: How much more likely the more usual one of two readings is that are equally good otherwise, in nats.
_PREFERENCE = 2.0
_USUAL = {
    0: "usual: it is the layout that the TPU compiler gives a parameter of this shape",
    1: "usual: it is row-major, or what the TPU compiler gave a parameter on v2 and v3",
    2: "usual: it is row-major, or what the TPU compiler gave a parameter on v2 and v3",
    3: "usual: it is column-major",
    4: "usual: it has the tiles that the TPU compiler gives such rows",
    5: "usual: it has no tiles",
}


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A reading and what speaks for it. Readings of one `group` give the same values.

    `row_ends`: whether its rows show where they end in memory.
    """

    reading: Reading
    group: Hashable
    structure: Structure
    padding: Evidence
    placement: Evidence
    type_signs: Evidence
    constants: tuple[bytes, ...]
    row_ends: RowEnds = RowEnds.NEITHER

    @property
    def weight(self) -> float:
        """All evidence, in nats."""
        return self.structure.weight + self.padding.weight + self.placement.weight + self.type_signs.weight

    @property
    def telling(self) -> float:
        """The evidence that noise does not have, in nats. Order that a few places of the sample show is chance."""
        order = self.structure.weight - self.structure.unlike
        return order * (self.structure.weight > _DEVIATIONS * self.structure.error) + self.padding.weight

    @property
    def sentences(self) -> tuple[str, ...]:
        """The evidence in words, the weightiest first; what is against it comes last."""
        found = [*self.structure.evidence, self.padding, self.type_signs, self.placement]
        return tuple(e.sentence for e in sorted(found, key=lambda e: -e.weight) if e.sentence)


def decide(judged: Sequence[Judged], known: Known) -> Identification:
    """The verdict on readings, none of which was compared with values."""
    groups = grouped(judged, known)
    if not groups:
        return Identification((), "none", (_why_none(known),))
    groups.sort(key=lambda members: -members[0].weight)
    best = groups[0][0]
    rivals = [g for g in groups if _ahead(best, g[0]) <= _tolerance(best, g[0]) or _are_alike(groups[0], g)]
    extra: tuple[str, ...] = ()
    verdict: Verdict = "tied"
    if best.telling > _LEAST:
        rivals.sort(key=lambda members: _rank(members, known))
        if len(rivals) == 1:
            verdict = "tied" if _is_odd(best.reading) and not best.reading.is_exact else "likely"
        elif _rank(rivals[0], known) < _rank(rivals[1], known):
            extra = (_preferred(rivals, known),)
            if _may_be_preferred(rivals, groups[0], known) and not _is_cut_elsewhere(rivals):
                verdict = "likely"
        if min(rivals[0], key=lambda j: usualness_of(j.reading, known)).reading.has_rest:
            verdict = "tied"  # bytes behind an array say that something is amiss, and not what
    ordered = [*rivals, *(g for g in groups if g not in rivals)]
    return Identification(_candidates(ordered, len(rivals), verdict, extra, known), verdict)


def _ahead(a: Judged, b: Judged) -> float:
    """How much better one reading is than another. Of two that are in order, none is more so."""
    shapes = a.reading.shape, b.reading.shape
    are_ordered = (
        a.structure.order and b.structure.order and shapes[0].text(layout=False) == shapes[1].text(layout=False)
    )
    order = a.structure.order - b.structure.order if are_ordered else 0.0
    return a.weight - b.weight - order


def _are_alike(a: Sequence[Judged], b: Sequence[Judged]) -> bool:
    """Whether one group is a sequence, and another has the same elements in the same order of memory.

    Then only their dimensions are in another order. The other one is a sequence, too; or its rows end where the values
    jump, which the few neighbours there hardly show to the first. Of a group one member may have no tiles, and others
    tiles that give the same values.
    """
    return bool(_memories(a, RowEnds.GO_ON) & (_memories(b, RowEnds.GO_ON) | _memories(b, RowEnds.JUMP)))


def _memories(members: Sequence[Judged], ends: RowEnds) -> set[Hashable]:
    """How the elements lie of those whose rows end in one way."""
    found = (m.reading for m in members if m.row_ends is ends)
    return {(r.place, r.byteorder, r.bitorder, r.shape.element_type) for r in found}


def _is_cut_elsewhere(rivals: Sequence[Sequence[Judged]]) -> bool:
    """Whether the first of some readings is a sequence, whose values jump where the rows of another one end."""
    jumps = set().union(*(_memories(g, RowEnds.JUMP) for g in rivals[1:]))
    return bool(_memories(rivals[0], RowEnds.GO_ON) & jumps)


def _may_be_preferred(rivals: Sequence[Sequence[Judged]], best: Sequence[Judged], known: Known) -> bool:
    """Whether how usual the first of some readings is may decide for it.

    It may if that one is the best anyway, or as good as the best but for chance: the order of a sequence that goes on
    from row to row is as smooth in every other, and a square is as good as its mirror image. Beside a better reading,
    what is usual is a guess; but a claim that nothing refutes is none. The compiler's layouts and row-major order are
    both so usual that neither may be taken for granted beside the other.
    """
    first, second = rivals[:2]
    if _rank(first, known) < 0:
        return True
    if any(_are_both_byte_orders(a.reading, b.reading) for a in best for group in rivals for b in group):
        return False  # that swapped bytes are rare tells nothing of these
    ranks = _rank(first, known), _rank(second, known)
    are_usual = ranks[1] - ranks[0] <= _ROW_MAJOR and ranks[1] % _INEXACT <= _ROW_MAJOR
    if are_usual and first[0].reading.place == second[0].reading.place and not _are_twins(first, second):
        return False
    return first is best or _are_twins(first, best)


def _are_twins(a: Sequence[Judged], b: Sequence[Judged]) -> bool:
    """Whether nothing could tell two groups from each other: sequences, squares, and levels in both bit orders."""
    pairs = [(one, other) for one in a for other in b]
    return (
        _are_alike(a, b)
        or _are_alike(b, a)
        or any(_are_mirrored(x.reading, y.reading) or _are_both_bit_orders(x, y) for x, y in pairs)
    )


def _are_both_bit_orders(a: Judged, b: Judged) -> bool:
    """Whether two readings have the same levels, but for the order of elements in a byte.

    The wrong order lets neighbours change places, and with them rows or columns as a whole: each keeps its values, so
    that their levels are as telling as before, and what differs is the sample.
    """
    is_scale = a.structure.kind == b.structure.kind == "scale"
    one, other = a.reading, b.reading
    return is_scale and one != other and replace(one, bitorder=other.bitorder) == other


def _are_both_byte_orders(a: Reading, b: Reading) -> bool:
    """Whether two readings are the same but for the order of bytes."""
    return a != b and replace(a, byteorder=b.byteorder) == b


def _are_mirrored(a: Reading, b: Reading) -> bool:
    """Whether two readings have the same elements in memory, of which axes of one size are called by other names."""
    one, other = a.shape.layout, b.shape.layout
    assert one is not None
    assert other is not None
    sizes = [[r.shape.dimensions[d] for d in layout.minor_to_major] for r, layout in ((a, one), (b, other))]
    alike = replace(one, minor_to_major=other.minor_to_major) == other and sizes[0] == sizes[1]
    return alike and (a.place, a.byteorder, a.bitorder) == (b.place, b.byteorder, b.bitorder)


def _why_none(known: Known) -> str:
    """Why there is no reading."""
    unknown = 0 if known.dimensions is None else known.dimensions.count(None)
    if unknown > MOST_UNKNOWN:
        return f"too many sizes of {known} are unknown: give all but one, or of a row-major layout all but two"
    if unknown > 1:
        return f"no row-major layout that was tried for {known} takes as many bytes as there are; give one more size"
    return f"no layout of {known} takes as many bytes as there are"


def grouped(judged: Sequence[Judged], known: Known) -> list[list[Judged]]:
    """Readings that give the same values together, the most usual one of the weightiest first."""
    groups: dict[Hashable, list[Judged]] = {}
    for j in judged:
        groups.setdefault(j.group, []).append(j)
    for members in groups.values():
        members.sort(key=lambda m: (-round(m.weight), usualness_of(m.reading, known)))
    return list(groups.values())


def usualness_of(reading: Reading, known: Known) -> float:
    """How usual a reading is: what is claimed comes first, whatever takes other bytes than there are comes last."""
    swapped = reading.byteorder == "big" or reading.bitorder == "big"
    if reading.shape.layout == known.claim:
        return -1 + 0.5 * swapped
    layout = reading.shape.layout
    ascending = known.sizes is None and layout is not None and not layout.is_descending
    return usualness(reading.shape) + 0.5 * ascending + _INEXACT * (not reading.is_exact) + _INEXACT * swapped


def _tolerance(a: Judged, b: Judged) -> float:
    """How far apart two weights may be for neither to be decided for, in nats."""
    both_orders = _are_both_bit_orders(a, b)
    deviations = 1.0 if a.reading.shape == b.reading.shape and not both_orders else _DEVIATIONS
    is_doubtful = both_orders or (_is_odd(a.reading) and not _is_odd(b.reading))
    share = _AHEAD if is_doubtful else _SCALE * (a.structure.kind == "scale")
    ahead = share * a.structure.weight
    if _are_both_byte_orders(a.reading, b.reading) and a.reading.byteorder == "little":
        ahead = max(ahead, _BYTE_ORDER)
    if {a.structure.kind, b.structure.kind} == {"continuity", "scale"}:
        ahead = max(ahead, _OTHER_KIND * a.structure.weight)
    return max(_MARGIN, deviations * _error(a, b), ahead)


def _is_odd(reading: Reading) -> bool:
    """Whether a reading has tiles that the compiler never gives a parameter of a TPU: not as wide as its lanes.

    Or other tiles that it does not give such rows, and the buffer lacks some of them.
    """
    layout, rare = reading.shape.layout, usualness(reading.shape)
    assert layout is not None
    has_lanes = not layout.tiles or layout.tiles[0].dimensions[-1] == _LANES
    return (rare > _ROW_MAJOR and not has_lanes) or (reading.missing_bytes > 0 and rare >= _UNUSUAL)


def _error(a: Judged, b: Judged) -> float:
    """How far the difference of two weights may be out because of sampling: a standard deviation, in nats."""
    one, other = a.structure.terms, b.structure.terms
    are_alike = [*map(len, one)] == [*map(len, other)] and a.reading.shape.dimensions == b.reading.shape.dimensions
    terms = [x - y for x, y in zip(one, other, strict=True)] if are_alike else [*one, *other]
    return math.sqrt(sum_of_squares(*terms))


def _rank(members: Sequence[Judged], known: Known) -> float:
    return min(usualness_of(m.reading, known) for m in members)


def _preferred(rivals: Sequence[Sequence[Judged]], known: Known) -> str:
    """Why the first of some readings comes before the others."""
    if len(rivals) == 2 and any(_are_both_bit_orders(a, b) for a in rivals[0] for b in rivals[1]):
        return "bit order: low bits first is usual; nothing here tells it from high bits first"
    rank, others = _rank(rivals[0], known), len(rivals) - 1
    others_too = f"{others} other{'s' * (others > 1)} fit{'s' * (others == 1)} about as well"
    return f"{'usual: it is as claimed' if rank < 0 else _USUAL.get(int(rank), 'usual: the size fits')}; {others_too}"


def _candidates(
    groups: Sequence[Sequence[Judged]], rivals: int, verdict: Verdict, extra: tuple[str, ...], known: Known
) -> tuple[Candidate, ...]:
    top = max(g[0].weight for g in groups)
    scale = max(1.0, *(_error(groups[0][0], g[0]) for g in groups[1:rivals])) if rivals > 1 else 1.0
    logs = [max(-50.0, (g[0].weight - top) / scale) for g in groups]
    if verdict == "likely":
        logs[0] = max(0.0, *(log + _PREFERENCE for log in logs[1:])) if len(logs) > 1 else 0.0
    total = sum(map(math.exp, logs))
    found = []
    for number, (members, log) in enumerate(zip(groups, logs, strict=True)):
        first = min(members, key=lambda m: (_rank([m], known), members.index(m)))
        sentences = first.sentences + (extra if number == 0 else ())
        found.append(candidate(first.reading, math.exp(log) / total, sentences, [m.reading for m in members]))
    return tuple(found)


def candidate(reading: Reading, score: float, sentences: tuple[str, ...], same: Sequence[Reading] = ()) -> Candidate:
    """A reading as a result; its ties are readings of the `same` values that lie in the same way."""
    alike = dict.fromkeys(r.shape for r in same if r.lying == reading.lying)
    ties = tuple(shape for shape in alike if shape != reading.shape)
    return Candidate(reading.shape, score, sentences, ties, *reading.lying)
