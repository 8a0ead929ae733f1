"""Members of 32-bit words that are exchanged, in all words or in some."""

from __future__ import annotations

from strided.diagnosis.difference.causes.moved.slots import from_slots, in_memory
from strided.diagnosis.difference.causes.observations import IndexMap, Observations, Probe, Test, readable, share_of
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import are_equal

_WORD_BITS = 32


def exchanged_members(observed: Observations) -> Pattern | None:
    """The exchange of member k with member ``k ^ mask`` that explains the mismatches."""
    b, a = observed.b, observed.a
    whole = in_memory(a if b.whole is None else b)
    if whole is None or whole._memory.bits >= _WORD_BITS:
        return None
    bits = whole._memory.bits
    members = _WORD_BITS // bits
    for mask in range(1, members):

        def partner(slots: Numbers, mask: int = mask) -> Numbers:
            return slots ^ mask

        test = _exchanged(observed, from_slots(whole, partner))
        if share := observed.share_of_mismatches(test):
            sentence = observed.sentence(_which_members(members, mask, 8 // bits), share, test)
            return Pattern("swap", f"0, {mask}", share, sentence)
    return None


def _exchanged(observed: Observations, partner: IndexMap) -> Test:
    """The hypothesis that elements are exchanged with their partners, each of which b has in the other's place."""
    taken = observed.moved(partner)

    def given(probe: Probe) -> float:
        origin, exists = partner(probe.points)
        beside = observed.b.at(readable(origin, exists))
        return share_of(are_equal(observed.a.at(probe.points), beside, observed.tolerance) & exists)

    return lambda probe: min(taken(probe), given(probe))


def _which_members(members: int, mask: int, in_byte: int) -> str:
    """Words for the exchange of member k with member ``k ^ mask`` in each word.

    `in_byte` is the number of packed elements in a byte, whose reversal is the other bit order.

    >>> _which_members(4, 2, 1)
    'members 2 apart of each 32-bit word have changed places'
    >>> _which_members(4, 3, 1)
    'the 4 members of each 32-bit word are in reverse order'
    >>> _which_members(8, 1, 2)
    'the 2 elements of each byte are in reverse order, as with the other bitorder'
    >>> _which_members(8, 3, 2)
    'members k and k ^ 3 of each 32-bit word have changed places'
    """
    if in_byte > 1 and mask == in_byte - 1:
        return f"the {in_byte} elements of each byte are in reverse order, as with the other bitorder"
    if members == 2:
        which = "the two members"
    elif mask == members - 1:
        return f"the {members} members of each 32-bit word are in reverse order"
    else:  # with a single bit, all pairs have the same distance
        which = f"members {mask} apart" if mask.bit_count() == 1 else f"members k and k ^ {mask}"
    return f"{which} of each 32-bit word have changed places"
