"""Layouts and shapes: frozen values that check and print themselves.

XLA's words. A *layout* says in which order the dimensions of an array lie in memory (`minor_to_major`, the fastest
varying first), into which tiles they are cut, how many bits an element takes, and in which memory the buffer is. A
*shape* is an element type, dimensions and a layout. JAX lists dimensions the other way round (``major_to_minor``); here
it is always minor to major.

Values validate themselves by XLA's own rules (``LayoutUtil::ValidateLayoutForShape``, ``ShapeUtil::ValidateShape``),
and ``str()`` gives XLA's canonical text.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.dtypes import ElementType, element_type
from strided.errors import LayoutError, UnsupportedError
from strided.address import AddressMap
from strided.tiling import COMBINE, Expansion, expand

#: What XLA stores as the size of a dimension of unknown size (``?``).
UNBOUNDED = -(2**63)

_INT64_MAX = 2**63 - 1

#: Names of memory spaces, as far as they are public. Others differ between devices and have none.
MEMORY_SPACES = {0: "HBM", 1: "VMEM", 5: "host", 6: "unpinned host"}


class PaddingValue(enum.IntEnum):
    """What fills the padding of a legacy padded layout (``PaddingValue`` of the XLA releases up to 2018)."""

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5

    def __repr__(self) -> str:
        return f"PaddingValue.{self.name}"


class Tile(tuple[int, ...]):
    """Sizes of a tile, most major first; `COMBINE` stands for ``*``.

    >>> str(Tile((8, 128))), str(Tile((COMBINE, 2)))
    ('(8,128)', '(*,2)')
    """

    __slots__ = ()

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


class FieldError(LayoutError):
    """A LayoutError about one field of a layout or shape; `field` is its name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, str(self))


def _integers(values: Any, what: str) -> tuple[int, ...]:
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise FieldError(what, f"{what} must be integers, not {values!r}") from None


@dataclass(frozen=True, repr=False)
class Layout:
    """How the elements of an array lie in memory.

    Parameters
    ----------
    minor_to_major : sequence of int
        Dimension numbers, the fastest varying first: a permutation of 0, 1, ..., rank - 1.
    tiles : sequence of sequence of int, optional
        Tiles, the first applied first.
    tail_padding_alignment_in_elements : int, optional
        The number of elements is rounded up to a multiple of this (``L(n)``).
    element_size_in_bits : int, optional
        Bits of one element (``E(n)``); 0 means whole bytes.
    memory_space : int, optional
        -128 to 127 (``S(n)``).
    split_configs : sequence of (int, sequence of int), optional
        Physical dimensions and where each is split (``SC(...)``).
    dynamic_shape_metadata_prefix_bytes : int, optional
        Bytes of metadata in front of the data (``M(n)``).
    padded_dimensions : sequence of int, optional
        Legacy layouts of the XLA releases up to 2018: the allocated size of each logical dimension.
    padding_value : PaddingValue, optional
        Legacy layouts: what the padding holds.

    Raises
    ------
    LayoutError
        The values make no valid layout.

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

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "minor_to_major", _integers(self.minor_to_major, "minor_to_major"))
        try:
            put(self, "tiles", tuple(Tile(_integers(t, "tiles")) for t in self.tiles))
            splits = tuple(SplitConfig(operator.index(d), _integers(i, "split_configs")) for d, i in self.split_configs)
        except (TypeError, ValueError) as error:
            if isinstance(error, LayoutError):
                raise
            raise FieldError("tiles", f"tiles are sequences of sizes, as in [(8, 128), (2, 1)]: {error}") from None
        put(self, "split_configs", splits)
        for name in (
            "tail_padding_alignment_in_elements",
            "element_size_in_bits",
            "memory_space",
            "dynamic_shape_metadata_prefix_bytes",
        ):
            put(self, name, _integers([getattr(self, name)], name)[0])
        put(self, "padded_dimensions", _integers(self.padded_dimensions, "padded_dimensions"))
        put(self, "padding_value", PaddingValue(self.padding_value))
        self._validate()

    def _validate(self) -> None:
        if sorted(self.minor_to_major) != list(range(self.rank)):
            raise FieldError(
                "minor_to_major",
                f"minor_to_major must be a permutation of the dimension numbers 0 to {self.rank - 1}, "
                f"not {{{','.join(map(str, self.minor_to_major))}}}",
            )
        for tile in self.tiles:
            if not tile or any(t < 1 and t != COMBINE or t > _INT64_MAX for t in tile):
                raise FieldError("tiles", f"a tile needs sizes of 1 or more (or '*'), not {tile}")
        if not 1 <= self.tail_padding_alignment_in_elements <= _INT64_MAX:
            raise FieldError(
                "tail_padding_alignment_in_elements",
                f"the tail padding alignment must be 1 or more, not {self.tail_padding_alignment_in_elements}",
            )
        if not 0 <= self.element_size_in_bits <= _INT64_MAX:
            raise FieldError(
                "element_size_in_bits", f"the element size must be 0 bits or more, not {self.element_size_in_bits}"
            )
        if not -128 <= self.memory_space <= 127:
            raise FieldError("memory_space", f"XLA holds a memory space in 8 signed bits; {self.memory_space} is none")
        if not 0 <= self.dynamic_shape_metadata_prefix_bytes <= _INT64_MAX:
            raise FieldError("dynamic_shape_metadata_prefix_bytes", "the metadata prefix must be 0 bytes or more")
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
        """The memory space in words, its number always shown.

        >>> Layout((0,), memory_space=1).memory_space_name, Layout((0,), memory_space=3).memory_space_name
        ('VMEM (S(1))', 'memory space S(3)')
        """
        name = MEMORY_SPACES.get(self.memory_space)
        return f"memory space S({self.memory_space})" if name is None else f"{name} (S({self.memory_space}))"

    @property
    def is_descending(self) -> bool:
        """Whether the order is the default one, row-major: the last dimension varies fastest."""
        return self.minor_to_major == tuple(range(self.rank - 1, -1, -1))

    def __str__(self) -> str:
        attributes = "".join(self._attributes())
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{attributes}}}" if attributes else f"{{{order}}}"

    def _attributes(self) -> Iterator[str]:
        """What follows the colon, in the order that XLA prints it."""
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

    def __repr__(self) -> str:
        shown = [repr(self.minor_to_major)]
        if self.tiles:
            shown.append(repr(self.tiles))
        for name, default in (
            ("tail_padding_alignment_in_elements", 1),
            ("element_size_in_bits", 0),
            ("memory_space", 0),
            ("split_configs", ()),
            ("dynamic_shape_metadata_prefix_bytes", 0),
            ("padded_dimensions", ()),
            ("padding_value", PaddingValue.INVALID_PAD),
        ):
            value = getattr(self, name)
            if value != default:
                shown.append(f"{name}={value!r}")
        return f"Layout({', '.join(shown)})"


Index: TypeAlias = Sequence[Any]


@dataclass(frozen=True, repr=False)
class Shape:
    """An array's element type, dimensions and layout. Also ``token[]`` and ``opaque[]``, which have no layout.

    Parameters
    ----------
    element_type : str
        XLA's name: ``"f32"``, ``"bf16"``, ``"s4"``.
    dimensions : sequence of int
        Sizes in elements; the bound of a dynamic dimension, `UNBOUNDED` for one without.
    layout : Layout, optional
        Row-major without.
    dynamic : sequence of bool, optional
        Which dimensions are dynamic (``<=N``, ``?``); none without.

    Raises
    ------
    LayoutError
        The values make no valid shape.

    Examples
    --------
    >>> shape = Shape("bf16", (3, 5), Layout((1, 0), [(8, 128), (2, 1)]))
    >>> str(shape), shape.byte_size, shape.offset_of((2, 3))
    ('bf16[3,5]{1,0:T(8,128)(2,1)}', 2048, 262)
    """

    element_type: str
    dimensions: tuple[int, ...]
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        try:
            kind = element_type(self.element_type)
        except UnsupportedError as error:
            raise FieldError("element_type", str(error)) from None
        put(self, "dimensions", _integers(self.dimensions, "dimensions"))
        dynamic = tuple(bool(d) for d in self.dynamic) or (False,) * self.rank
        if len(dynamic) != self.rank:
            raise FieldError("dimensions", f"{len(dynamic)} entries of `dynamic` for {self.rank} dimensions")
        put(self, "dynamic", dynamic)
        if not kind.is_array:
            if self.dimensions or self.layout is not None:
                raise FieldError("dimensions", f"{self.element_type}[] has neither dimensions nor a layout")
            return
        for n, d in zip(self.dimensions, dynamic, strict=True):
            if not (0 <= n <= _INT64_MAX or (d and n == UNBOUNDED)):
                raise FieldError("dimensions", f"the size of a dimension is 0 or more, not {n}")
        if self.layout is None:
            put(self, "layout", Layout(tuple(range(self.rank - 1, -1, -1))))
        elif not isinstance(self.layout, Layout):
            raise TypeError(f"layout must be a Layout, not {self.layout!r}; strided.parse makes one from text")
        self._validate(kind)

    def _validate(self, kind: ElementType) -> None:
        layout = self._array_layout
        if layout.rank != self.rank:
            raise FieldError(
                "minor_to_major", f"the array has {self.rank} dimensions, but minor_to_major has {layout.rank}"
            )
        # XLA multiplies in this order and stops at the first overflow, so [0, big, big] is a shape and [big, big, 0] not.
        total = 1
        for n in self.dimensions:
            total *= 1 if n == UNBOUNDED else n
            if total > _INT64_MAX:
                break
        if total * (kind.storage_bits // 8) > _INT64_MAX:
            raise FieldError("dimensions", "the number of bytes does not fit a 64-bit integer")
        for n, padded in zip(self.dimensions, layout.padded_dimensions, strict=False):
            if padded < n:
                raise FieldError("padded_dimensions", f"a dimension of {n} is padded to {padded}, which is less")
        seen = set()
        for d, indices in layout.split_configs:
            if not 0 <= d < self.rank or d in seen:
                raise FieldError("split_configs", f"split of physical dimension {d}: out of range, or named twice")
            seen.add(d)
            size = self.dimensions[layout.minor_to_major[self.rank - 1 - d]]
            if any(not a < b for a, b in zip((0, *indices), (*indices, size), strict=True) if indices):
                raise FieldError(
                    "split_configs", f"split indices {indices} must rise, above 0 and below the size of {size}"
                )

    @property
    def _array_layout(self) -> Layout:
        if self.layout is None:
            raise LayoutError(f"{self} is no array: it has no layout, size or addresses")
        return self.layout

    # What it is.

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type for the values.

        Raises
        ------
        UnsupportedError
            A token or opaque value has none.
        """
        dtype = element_type(self.element_type).dtype
        if dtype is None:
            raise UnsupportedError(f"{self} holds no values")
        return dtype

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def true_rank(self) -> int:
        """Number of dimensions of another size than 1."""
        return sum(n != 1 for n in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is dynamic."""
        return any(self.dynamic)

    def dimension_number(self, dimension: SupportsIndex) -> int:
        """A dimension number counted from the front; negative ones count from the end.

        >>> Shape("f32", (3, 5)).dimension_number(-1)
        1
        """
        d = operator.index(dimension)
        if not -self.rank <= d < self.rank:
            raise IndexError(f"dimension {d} is out of bounds for a shape of rank {self.rank}")
        return d % self.rank

    def dimension_letter(self, dimension: SupportsIndex) -> str:
        """XLA's letter for a dimension of an array of rank 2, 3 or 4: y x, z y x, p z y x; "" for other ranks."""
        d = self.dimension_number(dimension)
        return "pzyx"[4 - self.rank :][d] if 2 <= self.rank <= 4 else ""

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same array in another layout; row-major for None."""
        return Shape(self.element_type, self.dimensions, layout, dynamic=self.dynamic)

    # Sizes.

    @property
    def _known_dimensions(self) -> tuple[int, ...]:
        if UNBOUNDED in self.dimensions:
            raise LayoutError(f"{self} has a dimension of unknown size: it has no size or addresses")
        return self.dimensions

    @property
    def size(self) -> int:
        """Logical elements; a dynamic dimension counts with its bound."""
        if self.layout is None:
            return 0
        return math.prod(self._known_dimensions)

    @cached_property
    def expansion(self) -> Expansion:
        """The layout taken apart: expanded dimensions, sizes, addresses.

        Raises
        ------
        LayoutError
            A dimension of unknown size, a tile that ends in ``*``, or no array at all.
        """
        layout = self._array_layout
        return expand(
            self._known_dimensions,
            layout.minor_to_major,
            layout.tiles,
            layout.padded_dimensions,
            layout.tail_padding_alignment_in_elements,
        )

    @property
    def element_bits(self) -> int:
        """Bits of one element in the buffer: ``E(n)``, or whole bytes."""
        return self._array_layout.element_size_in_bits or element_type(self.element_type).storage_bits

    @property
    def byte_size(self) -> int:
        """Bytes that XLA allocates, padding included (``ShapeUtil::ByteSizeOf``).

        XLA counts by the first tile alone. Where a later tile pads again, addresses reach further: `address_byte_size`.
        A split layout counts with its largest piece.
        """
        if self.layout is None:
            return 0
        if self.layout.split_configs:
            return -(-self._largest_piece.allocated_elements * self.element_bits // 8)
        return -(-self.expansion.allocated_elements * self.element_bits // 8)

    @property
    def _largest_piece(self) -> Expansion:
        """The layout of the largest piece of a split array (``LayoutUtil::MaxSplitSize``)."""
        layout, sizes = self._array_layout, list(self._known_dimensions)
        for d, indices in layout.split_configs:
            logical = layout.minor_to_major[self.rank - 1 - d]
            edges = (0, *indices, sizes[logical])
            sizes[logical] = max(b - a for a, b in zip(edges, edges[1:], strict=False))
        return expand(tuple(sizes), layout.minor_to_major, layout.tiles, (), layout.tail_padding_alignment_in_elements)

    @property
    def address_byte_size(self) -> int:
        """Bytes that the address formula can reach: `byte_size`, or more where a later tile does not divide evenly.

        >>> from strided import parse
        >>> uneven = parse("bf16[24,256]{1,0:T(8,128)(2,1,1,1)}")
        >>> uneven.byte_size, uneven.address_byte_size
        (12288, 16384)
        """
        if self.layout is None:
            return 0
        return -(-self.expansion.address_elements * self.element_bits // 8)

    @property
    def unpadded_byte_size(self) -> int:
        """Bytes of the logical elements alone."""
        return 0 if self.layout is None else -(-self.size * self.element_bits // 8)

    # Addresses. Index utilities have the names of XLA's IndexUtil where it has them.

    @property
    def address_map(self) -> AddressMap:
        """Logical index to element offset.

        Raises
        ------
        UnsupportedError
            A split layout: which piece lies where is not public.
        """
        if self._array_layout.split_configs:
            raise UnsupportedError(f"{self} is split (SC): where its pieces lie is not public, so it has no addresses")
        return self.expansion.address_map

    def in_bounds(self, index: Index) -> bool:
        """Whether an index, one integer a dimension, is inside the array (no negative numbers)."""
        return len(index) == self.rank and all(
            0 <= operator.index(i) < n for i, n in zip(index, self._known_dimensions, strict=True)
        )

    def next_index(self, index: Index) -> tuple[int, ...] | None:
        """The index after `index`, the last dimension varying fastest; None after the last.

        >>> Shape("f32", (2, 3)).next_index((0, 2))
        (1, 0)
        """
        self._checked_index(index)
        following = [operator.index(i) for i in index]
        for d in range(self.rank - 1, -1, -1):
            following[d] += 1
            if following[d] < self.dimensions[d]:
                return tuple(following)
            following[d] = 0
        return None

    def stride_of(self, dimension: SupportsIndex) -> int:
        """Elements from one index to the next in a dimension.

        Raises
        ------
        LayoutError
            Tiles make it differ from place to place.
        """
        d = self.dimension_number(dimension)
        window = self.address_map
        for other in range(self.rank - 1, -1, -1):
            if other != d:
                window = window.sliced(other, 0, 1, min(1, self.dimensions[other]))
        strides = window.strides
        if strides is None or (self.dimensions[d] == 1 and self._array_layout.tiles):
            raise LayoutError(f"dimension {d} of {self} has no stride: tiles cut it")
        if self.dimensions[d] == 1:
            order = self._array_layout.minor_to_major
            padded = self._array_layout.padded_dimensions or self.dimensions
            return math.prod(padded[k] for k in order[: order.index(d)])
        return strides[d]

    def offset_of(self, index: Any) -> Any:
        """Offset of an element from the start of the buffer, in elements.

        Parameters
        ----------
        index : sequence of int, or of integer arrays that broadcast together
            One a dimension, within bounds.

        Returns
        -------
        int, or an int64 array where `index` has arrays

        Raises
        ------
        IndexError
            Out of bounds, negative, or the wrong number of them.

        Examples
        --------
        >>> from strided import parse
        >>> shape = parse("f32[3,5]{1,0:T(2,2)}")
        >>> shape.offset_of((2, 3))
        17
        >>> shape.offset_of(([0, 1, 2], 3))
        array([ 5,  7, 17])
        """
        at = self._checked_index(index)
        if all(isinstance(i, int) for i in at):
            return int(self.address_map.offset_of(at))
        broadcast = np.broadcast_arrays(*at)
        return np.asarray(self.address_map.offset_of([a.astype(np.int64) for a in broadcast]), np.int64)

    def bit_offset_of(self, index: Any) -> Any:
        """Offset of an element from the start of the buffer, in bits: byte ``bits // 8``, bit ``bits % 8``.

        Elements below eight bits fill a byte from its low bits up. Arguments and errors as `offset_of`.
        """
        return self.offset_of(index) * self.element_bits

    def _checked_index(self, index: Any) -> list[Any]:
        try:
            at = list(index)
        except TypeError:
            raise TypeError(f"an index is a sequence of {self.rank} integers or arrays, not {index!r}") from None
        if len(at) != self.rank:
            raise IndexError(f"an index of {self} has {self.rank} numbers, not {len(at)}")
        for d, i in enumerate(at):
            n = self._known_dimensions[d]
            if isinstance(i, (np.ndarray, list)) and np.ndim(i):
                values = np.asarray(i)
                if values.dtype.kind not in "iu" and values.size:
                    raise IndexError("arrays used as indices must be of integer type")
                wrong = values[(values < 0) | (values >= n)]
                at[d] = values.astype(np.int64)
                if wrong.size:
                    raise IndexError(f"index {wrong.flat[0]} is out of bounds for dimension {d} of size {n}")
            else:
                at[d] = operator.index(i.item() if isinstance(i, np.ndarray) else i)
                if not 0 <= at[d] < n:
                    raise IndexError(f"index {at[d]} is out of bounds for dimension {d} of size {n}")
        return at

    def index_at(self, offset: Any) -> Any:
        """The logical index of the element at an offset.

        Parameters
        ----------
        offset : int or integer array
            In elements, from 0 to below the elements of the padded buffer.

        Returns
        -------
        tuple of int, or None where the slot is padding
            For one offset.
        tuple of int64 arrays
            For an array of offsets: one array a dimension, -1 where the slot is padding.

        Raises
        ------
        IndexError
            Past the end of the buffer, or negative.

        Examples
        --------
        >>> from strided import parse
        >>> shape = parse("f32[3,5]{1,0:T(2,2)}")
        >>> shape.index_at(17), shape.index_at(19)
        ((2, 3), None)
        """
        offsets, scalar = self._checked_offset(offset)
        index, over = self.expansion.coordinates_at(offsets)
        if scalar:
            return None if over >= 0 else tuple(int(i) for i in index)
        return tuple(np.where(over < 0, i, -1) for i in index)

    def is_padding(self, offset: Any) -> Any:
        """Whether the slot at an offset (or at each of an array of them) holds no element."""
        offsets, scalar = self._checked_offset(offset)
        padding = self.expansion.coordinates_at(offsets)[1] >= 0
        return bool(padding) if scalar else padding

    def padding_dimension_at(self, offset: SupportsIndex) -> int | None:
        """The dimension whose padding the slot at an offset is; None where it holds an element.

        The rank of the shape where the slot pads none of its dimensions: the tile has more dimensions than the array,
        or it lies past the last tile (tail alignment).
        """
        over = int(self.expansion.coordinates_at(self._checked_offset(operator.index(offset))[0])[1])
        return None if over < 0 else over

    def _checked_offset(self, offset: Any) -> tuple[npt.NDArray[np.int64], bool]:
        if self._array_layout.split_configs:
            _ = self.address_map
        offsets = np.asarray(offset)
        if offsets.dtype.kind not in "iu" and offsets.size:
            raise TypeError(f"an offset is an integer, in elements, not {offset!r}")
        limit = self.expansion.address_elements
        wrong = offsets[(offsets < 0) | (offsets >= limit)]
        if wrong.size:
            raise IndexError(f"offset {wrong.flat[0]} is out of bounds for a buffer of {limit} elements")
        return offsets.astype(np.int64), offsets.ndim == 0

    # Text.

    def text(self, *, layout: bool = True) -> str:
        """XLA's text; `layout=False` as in a program shape: ``f32[3,5]``."""
        sizes = ",".join(
            "?" if n == UNBOUNDED else f"<={n}" if d else str(n)
            for n, d in zip(self.dimensions, self.dynamic, strict=True)
        )
        shown = "" if self.layout is None or not layout else str(self.layout)
        return f"{self.element_type}[{sizes}]{'' if shown == '{}' else shown}"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        sizes = ", ".join("UNBOUNDED" if n == UNBOUNDED else str(n) for n in self.dimensions)
        shown = [repr(self.element_type), f"({sizes}{',' if self.rank == 1 else ''})"]
        if self.layout is not None and self.layout != Layout(tuple(range(self.rank - 1, -1, -1))):
            shown.append(repr(self.layout))
        if self.is_dynamic:
            shown.append(f"dynamic={self.dynamic!r}")
        return f"Shape({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class BufferShape:
    """``b(...)``: a buffer that holds one array.

    >>> str(BufferShape(Shape("f32", (3,))))
    'b(f32[3]{0})'
    """

    shape: Shape

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape) or self.shape.layout is None:
            raise FieldError("shape", f"a buffer holds one array, not {self.shape}")

    @property
    def byte_size(self) -> int:
        """Bytes of the array, padding included."""
        return self.shape.byte_size

    def text(self, *, layout: bool = True) -> str:
        """XLA's text, with or without layouts."""
        return f"b({self.shape.text(layout=layout)})"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"BufferShape({self.shape!r})"


class TupleShape:
    """A tuple of shapes, possibly nested. Immutable.

    Parameters
    ----------
    elements : iterable of Shape, BufferShape or TupleShape

    Examples
    --------
    >>> pair = TupleShape([Shape("f32", (2,)), Shape("s32", ())])
    >>> str(pair), len(pair), str(pair[1])
    ('(f32[2]{0}, s32[])', 2, 's32[]')
    """

    # Trees are walked without recursion throughout: XLA's text may nest 32,768 deep.

    __slots__ = ("__weakref__", "_hash", "elements")

    elements: tuple[AnyShape, ...]

    def __init__(self, elements: Any) -> None:
        put = object.__setattr__
        put(self, "elements", tuple(elements))
        for e in self.elements:
            if not isinstance(e, (Shape, BufferShape, TupleShape)):
                raise TypeError(f"a tuple shape holds shapes, not {e!r}")
        put(self, "_hash", hash(tuple(map(hash, self.elements))))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a TupleShape does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a TupleShape does not change")

    def __len__(self) -> int:
        return len(self.elements)

    def __iter__(self) -> Iterator[AnyShape]:
        return iter(self.elements)

    def __getitem__(self, i: SupportsIndex) -> AnyShape:
        return self.elements[i]

    def _tokens(self) -> Iterator[Shape | BufferShape | str]:
        """The tree flattened: "(" and ")" around the elements of each tuple."""
        stack: list[Iterator[AnyShape]] = [iter(self.elements)]
        yield "("
        while stack:
            for e in stack[-1]:
                if isinstance(e, TupleShape):
                    yield "("
                    stack.append(iter(e.elements))
                    break
                yield e
            else:
                stack.pop()
                yield ")"

    @classmethod
    def _from_tokens(cls, tokens: Sequence[Shape | BufferShape | str]) -> TupleShape:
        stack: list[list[AnyShape]] = [[]]
        for token in tokens:
            if token == "(":
                stack.append([])
            elif isinstance(token, str):
                done = cls(stack.pop())
                stack[-1].append(done)
            else:
                stack[-1].append(token)
        whole = stack[0][0]
        assert isinstance(whole, TupleShape)
        return whole

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape | BufferShape]]:
        """Every shape in the tree that is no tuple, with its ShapeIndex: the positions that lead to it.

        >>> [(i, str(s)) for i, s in TupleShape([TupleShape([Shape("f32", (2,))]), Shape("token", ())]).leaves()]
        [((0, 0), 'f32[2]{0}'), ((1,), 'token[]')]
        """
        index = [-1]
        for token in self._tokens():
            if token == "(":
                index[-1] += 1
                index.append(-1)
            elif token == ")":
                index.pop()
            elif not isinstance(token, str):
                index[-1] += 1
                yield tuple(index[1:]), token

    @property
    def byte_size(self) -> int:
        """Bytes of all arrays in it, padding included. (The table of pointers that a tuple itself is, is not counted.)"""
        return sum(leaf.byte_size for _, leaf in self.leaves())

    def text(self, *, layout: bool = True) -> str:
        """XLA's text, with or without layouts; every fifth element of a tuple is numbered, as XLA does it."""
        out: list[str] = []
        counts = [0]
        for token in self._tokens():
            if token == ")":
                counts.pop()
                out.append(")")
                continue
            if len(counts) > 1 and counts[-1]:
                out.append(", ")
                if counts[-1] % 5 == 0:
                    out.append(f"/*index={counts[-1]}*/")
            counts[-1] += 1
            if token == "(":
                counts.append(0)
                out.append("(")
            elif not isinstance(token, str):
                out.append(token.text(layout=layout))
        return "".join(out)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        out: list[str] = []
        for token in self._tokens():
            out.append("TupleShape([" if token == "(" else "]), " if token == ")" else f"{token!r}, ")
        return "".join(out).replace(", ])", "])").removesuffix(", ")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TupleShape):
            return NotImplemented
        return self is other or (self._hash == other._hash and list(self._tokens()) == list(other._tokens()))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleShape._from_tokens, (list(self._tokens()),)


AnyShape: TypeAlias = Shape | BufferShape | TupleShape
