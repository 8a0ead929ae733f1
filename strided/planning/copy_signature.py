"""The signature of a copy: both maps without their bases.

Windows of one size on the same arrays, such as tile after tile, differ in their bases alone. So do their plans: a copy
is planned once for each signature.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Term
from strided.planning.axis_maps import AxisMap, RadixMap, axis_map_of
from strided.planning.boxes import Axis


class CopySignature(NamedTuple):
    """Two regular maps of one shape without their bases.

    Attributes
    ----------
    axes : tuple of Axis
        The axes of more than one index, offsets in bits.
    bits : (int, int)
        Bits of one element on both sides; elements of 128 bits count as two of 64.
    same_order : bool
        Whether neighbours may be moved as one: not if packed elements lie in opposite orders.
    """

    axes: tuple[Axis, ...]
    bits: tuple[int, int]
    same_order: bool


def signature_of(
    source: AddressMap, target: AddressMap, bits: tuple[int, int], units: tuple[int, int], *, same_order: bool
) -> tuple[CopySignature, tuple[int, int]]:
    """The signature of two regular maps, and their bases in bits; their offsets count `units` bits."""
    axes, source_base, target_base = [], source.base * units[0], target.base * units[1]
    for extent, source_terms, target_terms in zip(source.shape, source.axes, target.axes, strict=True):
        first, second = _sides(source_terms, target_terms, extent, units)
        source_base += first.base * units[0]
        target_base += second.base * units[1]
        if extent > 1:
            axes.append(Axis(extent, _in_bits(first, units[0]), _in_bits(second, units[1])))
    if bits[0] == 128:
        half = RadixMap(0, 1, (), (64,))
        axes.append(Axis.of_radix_maps(2, half, half))
        bits = 64, 64
    return CopySignature(tuple(axes), bits, same_order), (source_base, target_base)


def _sides(
    source: tuple[Term, ...], target: tuple[Term, ...], extent: int, units: tuple[int, int]
) -> tuple[AxisMap, AxisMap]:
    """Both sides of an axis, reversed if it goes backwards on the side where its steps are shorter."""
    sides = axis_map_of(source, extent), axis_map_of(target, extent)
    steps = [side.unit_stride * unit for side, unit in zip(sides, units, strict=True)]
    if (steps[0] if 0 < abs(steps[0]) < abs(steps[1]) else steps[1]) >= 0:
        return sides
    source, target = (tuple(term.moved(extent - 1, -1) for term in terms) for terms in (source, target))
    return axis_map_of(source, extent), axis_map_of(target, extent)


def _in_bits(side: AxisMap, unit: int) -> AxisMap:
    """The same side without its base, in bits."""
    radix_maps = [RadixMap(m.start, m.step, m.sizes, tuple([s * unit for s in m.strides])) for m in side.radix_maps]
    return AxisMap(0, tuple(radix_maps))
