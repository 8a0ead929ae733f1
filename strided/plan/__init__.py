"""Plans: how one copy between two mapped buffers will be carried out.

A plan is a value. It is made from two address maps and two widths alone, without any buffer and without Numba, it can
be printed and compared, and the same question gives the same plan again from a cache. `convert` carries plans out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from strided.address import AddressMap
from strided.plan.axes import Side, side_of
from strided.plan.tables import Axis, Order, order_of

__all__ = ["Axis", "Order", "Plan", "Side", "Step", "Storage", "plan_copy", "plan_fill"]


@dataclass(frozen=True, slots=True)
class Storage:
    """How elements lie in a buffer.

    Attributes
    ----------
    bits : int
        Bits of one element: 1, 2, 4, 8, 16, 32, 64 or 128.
    unit_bits : int
        What the offsets of the map count; other than `bits` only where elements do not lie at multiples of themselves.
    low_first : bool
        Below eight bits: whether the first element of a byte lies in its low bits.
    """

    bits: int
    unit_bits: int = 0
    low_first: bool = True

    @property
    def unit(self) -> int:
        """Bits that one step of an offset is."""
        return self.unit_bits or self.bits

    def byte_span(self, first: int, last: int) -> tuple[int, int]:
        """The bytes, from and to, in which the elements at offsets from `first` to `last` lie."""
        return first * self.unit // 8, -(-(last * self.unit + self.bits) // 8)


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel over one box of the view.

    Attributes
    ----------
    kernel : str
        ``"nest"``, ``"nest_bits"``, ``"offsets"``, ...
    source_base, target_base : int
        Offset of the first element on either side, in units.
    axes : tuple of Axis
        The axes of the box; an axis of one element has become part of the bases.
    order : Order
        How they are walked through.
    """

    kernel: str
    source_base: int = 0
    target_base: int = 0
    axes: tuple[Axis, ...] = ()
    order: Order = Order((), -1, -1)

    def __str__(self) -> str:
        return f"{self.kernel} over {'x'.join(str(a.extent) for a in self.axes) or 'one element'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one copy is carried out.

    Attributes
    ----------
    kernel : str
        The kernel that moves nearly everything.
    reason : str
        Why this one.
    steps : tuple of Step
        What is done, in order.
    elements : int
        Elements copied.
    bytes_moved : int
        Bytes read and written, padding not counted.
    source_span, target_span : (int, int) or None
        Bytes, from and to, that are touched on each side; None where only carrying it out can tell.
    """

    kernel: str
    reason: str
    steps: tuple[Step, ...]
    elements: int
    bytes_moved: int
    source_span: tuple[int, int] | None
    target_span: tuple[int, int] | None

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.reason}", f"{self.elements} elements, {self.bytes_moved} bytes moved"]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


@lru_cache(maxsize=512)
def plan_copy(source: AddressMap, target: AddressMap, source_storage: Storage, target_storage: Storage) -> Plan:
    """The plan of a copy between two views of the same shape.

    Raises
    ------
    ValueError
        The shapes differ, or elements of these widths cannot be copied into each other.
    """
    if source.shape != target.shape:
        raise ValueError(f"cannot copy a view of shape {source.shape} into one of shape {target.shape}")
    packed = source_storage.bits < 8 or target_storage.bits < 8
    if source_storage.bits != target_storage.bits and not (
        packed and max(source_storage.bits, target_storage.bits) <= 8
    ):
        raise ValueError(f"cannot copy elements of {source_storage.bits} bits into ones of {target_storage.bits} bits")
    moved = -(-source.size * source_storage.bits // 8) - (-source.size * target_storage.bits // 8)
    if source.size == 0:
        return Plan(
            kernel="none", reason="no elements", steps=(), elements=0, bytes_moved=0, source_span=None, target_span=None
        )
    if not (source.is_regular and target.is_regular):
        return Plan(
            kernel="offsets",
            reason="a tile cuts across digits, so every offset is computed",
            steps=(Step("offsets"),),
            elements=source.size,
            bytes_moved=moved,
            source_span=None,
            target_span=None,
        )
    step, source_bounds, target_bounds = _general(source, target, "nest_bits" if packed else "nest")
    return Plan(
        kernel=step.kernel,
        reason="any regular layout",
        steps=(step,),
        elements=source.size,
        bytes_moved=moved,
        source_span=source_storage.byte_span(*source_bounds),
        target_span=target_storage.byte_span(*target_bounds),
    )


@lru_cache(maxsize=512)
def plan_fill(target: AddressMap, storage: Storage) -> Plan:
    """The plan of setting every element of a view to one value."""
    still = AddressMap(target.shape, 0, ((),) * target.ndim)
    return plan_copy(still, target, storage, storage)


def _general(source: AddressMap, target: AddressMap, kernel: str) -> tuple[Step, tuple[int, int], tuple[int, int]]:
    """The step that copies anything regular, and the least and largest offset on either side."""
    axes = []
    source_base, target_base = source.base, target.base
    bounds = [0, 0, 0, 0]
    for extent, source_terms, target_terms in zip(source.shape, source.axes, target.axes, strict=True):
        sides = side_of(source_terms, extent), side_of(target_terms, extent)
        for k, side in enumerate(sides):
            low, high = side.bounds(extent)
            bounds[2 * k] += low
            bounds[2 * k + 1] += high
        source_base += sides[0].base
        target_base += sides[1].base
        if extent > 1:
            axes.append(Axis(extent, sides[0]._replace(base=0), sides[1]._replace(base=0)))
    step = Step(kernel, source_base, target_base, tuple(axes), order_of(axes))
    return (
        step,
        (source.base + bounds[0], source.base + bounds[1]),
        (target.base + bounds[2], target.base + bounds[3]),
    )
