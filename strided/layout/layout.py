"""Layouts: how the elements of an array lie in memory."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple, Self, SupportsIndex

from strided.addressing.tiling import COMBINE
from strided.layout.validation import (
    INT64_MAX,
    FieldError,
    bounds_text,
    integer,
    integers,
    shortened,
)
from strided.runtime import notebook

#: Names of the memory spaces that are public. Others differ between devices.
MEMORY_SPACES = {0: "HBM", 1: "VMEM", 5: "host memory", 6: "unpinned host memory"}

#: Integer fields: the least value of each, and its name in messages.
_NUMBERS = {
    "tail_padding_alignment_in_elements": (1, "the tail padding alignment"),
    "element_size_in_bits": (0, "the element size in bits"),
    "dynamic_shape_metadata_prefix_bytes": (0, "the bytes of the metadata prefix"),
}


class PaddingValue(enum.IntEnum):
    """What the padding of a legacy layout contains (``PaddingValue`` of XLA's releases up to 2018)."""

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5

    def __repr__(self) -> str:
        return f"PaddingValue.{self.name}"


class Tile(tuple[int, ...]):
    """Sizes of a tile, most major first; `COMBINE` stands for ``*``. LayoutError if they are not integers.

    >>> str(Tile((8, 128))), str(Tile((COMBINE, 2)))
    ('(8,128)', '(*,2)')
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Self:
        return super().__new__(cls, integers(sizes, "tiles"))

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes as a plain tuple."""
        return tuple(self)

    def __str__(self) -> str:
        return f"({','.join('*' if t == COMBINE else str(t) for t in self)})"

    def __repr__(self) -> str:
        return f"({', '.join('COMBINE' if t == COMBINE else str(t) for t in self)}{',' if len(self) == 1 else ''})"


class SplitConfig(NamedTuple):
    """Where a physical dimension (0 is the most major one) is split, as XLA's ``SC(d:i,j)`` writes it."""

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"


@dataclass(frozen=True, repr=False)
class Layout:
    """How the elements of an array lie in memory.

    Parameters
    ----------
    minor_to_major : sequence of int
        Dimension numbers, the fastest varying first: a permutation of 0, 1, ..., rank - 1.
    tiles : sequence of sequence of int, optional
        Tiles, in the order in which they apply.
    tail_padding_alignment_in_elements : int, optional
        The number of elements is rounded up to a multiple of this (``L(n)``).
    element_size_in_bits : int, optional
        Bits of one element (``E(n)``); 0 if elements are not packed.
    memory_space : int, optional
        -128 to 127 (``S(n)``).
    split_configs : sequence of (int, sequence of int), optional
        Physical dimensions and where each is split (``SC(...)``).
    dynamic_shape_metadata_prefix_bytes : int, optional
        Bytes of metadata in front of the data (``M(n)``).
    padded_dimensions : sequence of int, optional
        Legacy layouts of XLA's releases up to 2018: the allocated size of each logical dimension.
    padding_value : PaddingValue, optional
        Legacy layouts: what the padding contains.

    Raises
    ------
    LayoutError
        A value is not valid; the error's `field` names it.

    Examples
    --------
    >>> str(Layout((1, 0), [(8, 128), (2, 1)]))
    '{1,0:T(8,128)(2,1)}'
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...] = ()
    tail_padding_alignment_in_elements: int = field(default=1, kw_only=True)
    element_size_in_bits: int = field(default=0, kw_only=True)
    memory_space: int = field(default=0, kw_only=True)
    split_configs: tuple[SplitConfig, ...] = field(default=(), kw_only=True)
    dynamic_shape_metadata_prefix_bytes: int = field(default=0, kw_only=True)
    padded_dimensions: tuple[int, ...] = field(default=(), kw_only=True)
    padding_value: PaddingValue = field(default=PaddingValue.INVALID_PAD, kw_only=True)

    if TYPE_CHECKING:  # fields are tuples, but any sequence makes one

        def __init__(
            self,
            minor_to_major: Sequence[SupportsIndex],
            tiles: Sequence[Sequence[SupportsIndex]] = (),
            *,
            tail_padding_alignment_in_elements: SupportsIndex = 1,
            element_size_in_bits: SupportsIndex = 0,
            memory_space: SupportsIndex = 0,
            split_configs: Sequence[tuple[SupportsIndex, Sequence[SupportsIndex]]] = (),
            dynamic_shape_metadata_prefix_bytes: SupportsIndex = 0,
            padded_dimensions: Sequence[SupportsIndex] = (),
            padding_value: PaddingValue = PaddingValue.INVALID_PAD,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("minor_to_major", "padded_dimensions"):
            put(self, name, integers(getattr(self, name), name))
        try:
            tiles = tuple(tuple(tile) for tile in self.tiles)
        except TypeError as error:
            raise FieldError("tiles", f"tiles are sequences of sizes, as in [(8, 128), (2, 1)]: {error}") from None
        put(self, "tiles", tuple(Tile(tile) for tile in tiles))
        try:
            splits = tuple((d, tuple(indices)) for d, indices in self.split_configs)
        except (TypeError, ValueError) as error:
            words = f"split_configs are pairs of a dimension and its split indices, as in [(0, (4,))]: {error}"
            raise FieldError("split_configs", words) from None
        put(
            self,
            "split_configs",
            tuple(SplitConfig(integer(d, "split_configs"), integers(i, "split_configs")) for d, i in splits),
        )
        for name in (*_NUMBERS, "memory_space"):
            put(self, name, integer(getattr(self, name), name))
        try:
            put(self, "padding_value", PaddingValue(self.padding_value))
        except ValueError as error:
            raise FieldError("padding_value", str(error)) from None
        self._validate()

    def _validate(self) -> None:
        if sorted(self.minor_to_major) != list(range(self.rank)):
            raise FieldError(
                "minor_to_major",
                f"minor_to_major must be a permutation of the dimension numbers 0 to {self.rank - 1}, "
                f"not {{{shortened(self.minor_to_major)}}}",
            )
        for tile in self.tiles:
            if not tile or any((t < 1 and t != COMBINE) or t > INT64_MAX for t in tile):
                wanted = "sizes of 1 or more (or '*')" + " that fit 64 bits" * any(t > INT64_MAX for t in tile)
                raise FieldError("tiles", f"a tile needs {wanted}, not ({shortened(tile)})")
        for name, (least, words) in _NUMBERS.items():
            if not least <= (number := getattr(self, name)) <= INT64_MAX:
                raise FieldError(name, f"{words} must be {bounds_text(least, number)}")
        if not -128 <= self.memory_space <= 127:
            raise FieldError("memory_space", f"the memory space must be from -128 to 127, not {self.memory_space}")
        if self.padded_dimensions and len(self.padded_dimensions) != self.rank:
            raise FieldError(
                "padded_dimensions", f"{len(self.padded_dimensions)} padded dimensions for a layout of rank {self.rank}"
            )
        if self.padded_dimensions and self.tiles:
            raise FieldError("padded_dimensions", "a layout has padded dimensions or tiles, not both")

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.minor_to_major)

    @property
    def memory_space_name(self) -> str:
        """Name and number of the memory space.

        >>> Layout((0,), memory_space=1).memory_space_name, Layout((0,), memory_space=3).memory_space_name
        ('VMEM (S(1))', 'memory space S(3)')
        """
        name = MEMORY_SPACES.get(self.memory_space)
        return f"memory space S({self.memory_space})" if name is None else f"{name} (S({self.memory_space}))"

    @property
    def is_descending(self) -> bool:
        """Whether the order is row-major: the last dimension varies fastest."""
        return self.minor_to_major == descending(self.rank)

    def __str__(self) -> str:
        attributes = "".join(self._attributes())
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{attributes}}}" if attributes else f"{{{order}}}"

    def _attributes(self) -> Iterator[str]:
        """What follows the colon, in XLA's order."""
        if self.tiles:
            yield "T" + "".join(map(str, self.tiles))
        if self.tail_padding_alignment_in_elements != 1:
            yield f"L({self.tail_padding_alignment_in_elements})"
        if self.element_size_in_bits:
            yield f"E({self.element_size_in_bits})"
        if self.memory_space:
            yield f"S({self.memory_space})"
        if self.split_configs:
            yield "SC" + "".join(map(str, self.split_configs))
        if self.dynamic_shape_metadata_prefix_bytes:
            yield f"M({self.dynamic_shape_metadata_prefix_bytes})"

    def _repr_html_(self) -> str | None:
        return notebook.as_html(self)

    def __repr__(self) -> str:
        shown = [repr(self.minor_to_major)]
        if self.tiles:
            shown.append(repr(self.tiles))
        values = ((field, getattr(self, field.name)) for field in fields(self) if field.kw_only)
        shown += [f"{field.name}={value!r}" for field, value in values if value != field.default]
        return f"Layout({', '.join(shown)})"


def descending(rank: int) -> tuple[int, ...]:
    """The row-major `minor_to_major`: the last dimension varies fastest."""
    return tuple(range(rank - 1, -1, -1))


def order_in_space(minor_to_major: tuple[int, ...], rank: int, memory_space: int) -> tuple[int, ...]:
    """The order of a layout; row-major if the layout gives a memory space and no order.

    XLA prints ``f32[3,5]{:S(2)}`` before layout assignment since 2026. It refuses ``f32[3,5]{}``.

    >>> order_in_space((), 2, 5), order_in_space((), 2, 0)
    ((1, 0), ())
    """
    return minor_to_major if minor_to_major or not memory_space else descending(rank)
