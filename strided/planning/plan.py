"""Plans: how one copy between two mapped buffers will be carried out.

A plan is a value, made from two address maps and two widths alone, without any buffer and without Numba. It can be
printed and compared, and the same question gives the same plan from a cache. `transfer` carries plans out.

The steps of a plan are of four kinds. A `VectorStep` is a vector kernel, chosen by the two nearest axes. A
`StagedCopy` is several of them, block by block: in turn, through blocks that stay in the cache, or one part each. A
`NestStep` is the general nest of loops over tables of offsets: anything regular. `PerElementStep` is for the rest: it
computes the offset of every element. Setting all elements to one value has steps of its own, `FillStep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

from strided.addressing.address_map import AddressMap
from strided.planning.axis_maps import axis_map_of
from strided.planning.copy_signature import signature_of
from strided.planning.fill_step import FillStep
from strided.planning.kernel_kinds import KINDS
from strided.planning.linearize import linearized
from strided.planning.nest_step import NestStep
from strided.planning.runs import runs_around, runs_of
from strided.planning.select_steps import steps_of
from strided.planning.staged_step import StagedCopy
from strided.planning.vector_step import VectorStep
from strided.runtime.cache import forgettable

__all__ = [
    "PHASE_BITS",
    "FillStep",
    "NestStep",
    "PerElementStep",
    "Plan",
    "StagedCopy",
    "Step",
    "Storage",
    "VectorStep",
    "plan_copy",
    "plan_fill",
    "refuse_misfit",
    "span_of",
]


@dataclass(frozen=True, slots=True)
class Storage:
    """How elements lie in a buffer.

    Attributes
    ----------
    bits : int
        Bits of one element: 1, 2, 4, 8, 16, 32, 64 or 128.
    unit_bits : int
        Bits that one step of an offset is; 0 stands for `bits`. Whole bytes, or `bits` below eight.
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
class PerElementStep:
    """A step of a plan: the offset of every element is computed."""

    elements: int
    kernel: str = "offsets"

    def __str__(self) -> str:
        return f"{self.kernel} of {self.elements} elements"


Step: TypeAlias = VectorStep | StagedCopy | NestStep | PerElementStep | FillStep

#: Steps are planned for bases modulo this many bits: elements and the words that rows share repeat.
PHASE_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one copy is carried out.

    Attributes
    ----------
    kernel : str
        The kernel that moves most of it.
    reason : str
        Why this one.
    steps : tuple of VectorStep, StagedCopy, NestStep, PerElementStep or FillStep
        Steps, in order.
    shift : (int, int)
        Bits to add to the offsets of all steps in the source and the target.
    elements : int
        Elements copied.
    bytes_moved : int
        Bytes read and written, padding not counted.
    source_span, target_span : (int, int) or None
        Bytes, from and to, that the kernels touch on each side, which buffers must have; None if only the copy itself
        can tell.
    """

    kernel: str
    reason: str
    steps: tuple[Step, ...]
    shift: tuple[int, int]
    elements: int
    bytes_moved: int
    source_span: tuple[int, int] | None
    target_span: tuple[int, int] | None

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.reason}", f"{self.elements:,} elements, {self.bytes_moved:,} bytes moved"]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


@forgettable
@lru_cache(maxsize=512)
def plan_copy(
    source: AddressMap,
    target: AddressMap,
    source_storage: Storage,
    target_storage: Storage,
    *,
    whole_words: bool = True,
) -> Plan:
    """The plan of a copy between two views of the same shape.

    Kernels take words of 32 bits as a whole, where elements of several rows share them. The last words may then end
    up to three bytes behind the last elements; without `whole_words` they are copied separately, and nothing behind the
    elements' last bytes is touched.

    Raises
    ------
    ValueError
        The shapes differ, or elements of these widths cannot be copied into each other.
    """
    bits = source_storage.bits, target_storage.bits
    refuse_misfit(source, target, *bits)
    moved = sum(-(-source.size * width // 8) for width in bits)
    regular = (source, target) if source.is_regular and target.is_regular else linearized(source, target)
    if source.size == 0:
        return _plan((), (0, 0), 0, 0, ((0, 0), (0, 0)))
    if regular is None:
        return _plan((PerElementStep(source.size),), (0, 0), source.size, moved, (None, None))
    same_order = min(bits) >= 8 or source_storage.low_first == target_storage.low_first
    signature, bases = signature_of(*regular, bits, (source_storage.unit, target_storage.unit), same_order=same_order)
    # Steps depend on where the elements begin only as far as these lie inside bytes and words.
    phase = bases[0] % PHASE_BITS, bases[1] % PHASE_BITS
    shift = bases[0] - phase[0], bases[1] - phase[1]
    steps = steps_of(signature, phase, whole_words)
    spans = [_touched(steps, side, shift[side - 1] // 8) for side in (1, 2)]
    return _plan(steps, shift, source.size, moved, spans)


@forgettable
@lru_cache(maxsize=512)
def plan_fill(target: AddressMap, storage: Storage, spare: int = 0) -> Plan | None:
    """The plan of setting every element of a view to one value, or None if the value must be copied instead.

    The first `spare` elements of the buffer may be set, too, where that is faster.
    """
    find = partial(runs_around, room=spare * storage.bits) if spare else runs_of
    runs = find(target, storage.bits, storage.unit)
    if not runs:
        return None
    steps = tuple(FillStep(part, max(8, storage.bits) // 8) for part in runs)
    span = min(step.span[0] for step in steps), max(step.span[1] for step in steps)
    return _plan(steps, (0, 0), target.size, sum(step.filled_bytes for step in steps), (None, span))


def _plan(
    steps: tuple[Step, ...],
    shift: tuple[int, int],
    elements: int,
    moved: int,
    spans: Sequence[tuple[int, int] | None],
) -> Plan:
    most = max(steps, key=_share, default=None)
    return Plan(
        kernel="none" if most is None else most.kernel,
        reason=_reason(most),
        steps=steps,
        shift=shift,
        elements=elements,
        bytes_moved=moved,
        source_span=spans[0],
        target_span=spans[1],
    )


def _reason(step: Step | None) -> str:
    """Why a copy is done by the step that does most of it, or why there is none."""
    if step is None:
        return "no elements"
    if isinstance(step, PerElementStep):
        return "a tile cuts across digits, so that every offset is computed"
    if isinstance(step, StagedCopy) and step.kernel not in KINDS:
        several = "one after another, in the cache" if step.staging else "each a part of every block"
        return f"no single kernel does it; several do, {several}"
    return KINDS[step.kernel].reason


def _touched(steps: Sequence[VectorStep | StagedCopy | NestStep], side: int, shift: int) -> tuple[int, int]:
    """The bytes, from and to, that steps touch on one side (1 source, 2 target), plus `shift` bytes."""
    spans = [step.spans[side - 1] for step in steps]
    return min(low for low, _ in spans) + shift, max(high for _, high in spans) + shift


def refuse_misfit(source: AddressMap, target: AddressMap, source_bits: int, target_bits: int) -> None:
    """Raise ValueError unless two views, and the widths of their elements, fit each other."""
    if source.shape != target.shape:
        raise ValueError(f"cannot copy a view of shape {source.shape} into one of shape {target.shape}")
    if source_bits != target_bits and not (max(source_bits, target_bits) == 8 > min(source_bits, target_bits)):
        raise ValueError(f"cannot copy {source_bits}-bit elements into {target_bits}-bit ones")


def _share(step: Step) -> int:
    """How much of a copy a step does: bits, more of what is computed or goes through blocks; of a fill, bytes."""
    if isinstance(step, FillStep):
        return step.filled_bytes
    return step.elements * step.bits if isinstance(step, VectorStep | NestStep) else 64 * step.elements


@lru_cache(maxsize=512)
def span_of(map_: AddressMap, storage: Storage) -> tuple[int, int] | None:
    """The bytes, from and to, in which the elements of a view lie, or None for irregular views."""
    if not map_.is_regular:
        return None
    if map_.size == 0:
        return 0, 0
    low = high = map_.base
    for terms, extent in zip(map_.axes, map_.shape, strict=True):
        least, most = axis_map_of(terms, extent).bounds(extent)
        low, high = low + least, high + most
    return storage.byte_span(low, high)
