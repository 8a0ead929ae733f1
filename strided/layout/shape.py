"""Shapes: an element type, dimensions and a layout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.addressing.expansion import Expansion
from strided.addressing.tiling import expand
from strided.errors import LayoutError, UnsupportedError
from strided.layout.element_types import ElementType, element_type
from strided.layout.index_util import Addressing
from strided.layout.layout import Layout, PaddingValue, descending
from strided.layout.validation import INT64_MAX, FieldError, bounds_text, check_order, integers, shortened
from strided.runtime import notebook
from strided.runtime.argument_checks import whole
from strided.runtime.lazy import lazy

#: The size that XLA stores for a dimension of unknown size (``?``).
UNBOUNDED = -(2**63)


@dataclass(frozen=True, repr=False)
class Shape(Addressing):
    """Element type, dimensions and layout of an array; also ``token[]`` and ``opaque[]``, which have no layout.

    Parameters
    ----------
    element_type : str
        XLA's name: ``"f32"``, ``"bf16"``, ``"s4"``.
    dimensions : sequence of int
        Sizes in elements. The size of a dynamic dimension is its bound, or `UNBOUNDED`.
    layout : Layout, optional
        By default row-major.
    dynamic : sequence of bool, optional
        Which dimensions are dynamic (``<=N``, ``?``); by default none.

    Raises
    ------
    LayoutError
        A value is not valid; the error's `field` names it.
    TypeError
        `layout` is not a Layout.

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

    if TYPE_CHECKING:  # fields are tuples, but any sequence makes one

        def __init__(
            self,
            element_type: str,
            dimensions: Sequence[SupportsIndex],
            layout: Layout | None = None,
            *,
            dynamic: Sequence[bool] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        put = object.__setattr__
        try:
            kind = element_type(self.element_type)
        except UnsupportedError as error:
            raise FieldError("element_type", str(error)) from None
        put(self, "dimensions", integers(self.dimensions, "dimensions"))
        try:
            dynamic = tuple(bool(d) for d in self.dynamic) or (False,) * self.rank
        except (TypeError, ValueError):
            raise FieldError("dimensions", "`dynamic` must be booleans, one for each dimension") from None
        if len(dynamic) != self.rank:
            raise FieldError("dimensions", f"{len(dynamic)} entries of `dynamic` for {self.rank} dimensions")
        put(self, "dynamic", dynamic)
        if not kind.is_array:
            if self.dimensions or self.layout is not None:
                raise FieldError("dimensions", f"{self.element_type}[] has neither dimensions nor a layout")
            return
        for n, d in zip(self.dimensions, dynamic, strict=True):
            if not (0 <= n <= INT64_MAX or (d and n == UNBOUNDED)):
                raise FieldError("dimensions", f"the size of a dimension is {bounds_text(0, n)}")
        if self.layout is None:
            put(self, "layout", Layout(descending(self.rank)))
        elif not isinstance(self.layout, Layout):
            raise TypeError(
                f"layout must be a Layout, not {type(self.layout).__name__}; strided.parse makes one from text"
            )
        self._validate(kind)

    def _validate(self, kind: ElementType) -> None:
        layout = self._array_layout
        check_order(layout.minor_to_major, self.rank)
        # XLA multiplies in this order and stops at the first overflow: [0, big, big] is a shape, [big, big, 0] is not.
        total = 1
        for n in self.dimensions:
            total *= 1 if n == UNBOUNDED else n
            if total > INT64_MAX:
                break
        if total * (kind.storage_bits // 8) > INT64_MAX:
            raise FieldError("dimensions", "the number of bytes does not fit a 64-bit integer")
        for n, padded in zip(self.dimensions, layout.padded_dimensions, strict=False):
            if padded < n:
                raise FieldError("padded_dimensions", f"a dimension of {n} is padded to {padded}, which is less")
        seen = set()
        for d, indices in layout.split_configs:
            if not 0 <= d < self.rank or d in seen:
                raise FieldError("split_configs", f"split of physical dimension {d}: out of range, or split twice")
            seen.add(d)
            size = self.dimensions[layout.minor_to_major[self.rank - 1 - d]]
            if any(not a < b for a, b in zip((0, *indices), (*indices, size), strict=True) if indices):
                raise FieldError(
                    "split_configs",
                    f"split indices {shortened(indices)} must increase, and be above 0 and below the size of {size}",
                )

    @property
    def _array_layout(self) -> Layout:
        if self.layout is None:
            raise LayoutError(f"{self} is not an array: it has no layout, size or addresses")
        return self.layout

    # Properties.

    @lazy
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the values; UnsupportedError for token and opaque."""
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
        """Number of dimensions whose size is not 1 (``ShapeUtil::TrueNumDimensions``)."""
        return sum(n != 1 for n in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is dynamic."""
        return any(self.dynamic)

    def dimension_number(self, dimension: SupportsIndex) -> int:
        """A dimension number made non-negative: negative ones count from the end. IndexError out of bounds.

        >>> Shape("f32", (3, 5)).dimension_number(-1)
        1
        """
        d = whole(dimension, "dimension")
        if not -self.rank <= d < self.rank:
            raise IndexError(f"dimension {d} is out of bounds for a shape of rank {self.rank}")
        return d % self.rank

    def dimension_letter(self, dimension: SupportsIndex) -> str:
        """XLA's letter for a dimension of an array of rank 2, 3 or 4: y x, z y x, p z y x; "" for other ranks.

        Negative dimensions count from the end. IndexError out of bounds.

        >>> Shape("f32", (2, 3, 5)).dimension_letter(0)
        'z'
        """
        d = self.dimension_number(dimension)
        return "pzyx"[4 - self.rank :][d] if 2 <= self.rank <= 4 else ""

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same array in another layout; None is row-major. LayoutError if it does not fit the dimensions.

        >>> str(Shape("f32", (3, 5)).with_layout(Layout((0, 1))))
        'f32[3,5]{0,1}'
        """
        return Shape(self.element_type, self.dimensions, layout, dynamic=self.dynamic)

    # Sizes.

    @property
    def _known_dimensions(self) -> tuple[int, ...]:
        if UNBOUNDED in self.dimensions:
            raise LayoutError(f"{self} has a dimension of unknown size: it has no size or addresses")
        return self.dimensions

    @property
    def size(self) -> int:
        """Number of logical elements; dynamic dimensions have the size of their bounds. LayoutError if unknown."""
        if self.layout is None:
            return 0
        return math.prod(self._known_dimensions)

    @lazy
    def expansion(self) -> Expansion:
        """The layout with its tiles applied: expanded dimensions, sizes, addresses.

        Raises
        ------
        LayoutError
            A dimension has unknown size, a tile ends in ``*``, there are more than 64 tiles and ``*``, or the shape is
            not that of an array.
        """
        layout = self._array_layout
        return expand(
            self._known_dimensions,
            layout.minor_to_major,
            layout.tiles,
            layout.padded_dimensions,
            layout.tail_padding_alignment_in_elements,
        )

    @lazy
    def element_bits(self) -> int:
        """Bits of one element in the buffer: ``E(n)``, or whole bytes."""
        return self._array_layout.element_size_in_bits or element_type(self.element_type).storage_bits

    @lazy
    def byte_size(self) -> int:
        """Bytes that XLA allocates, padding included (``ShapeUtil::ByteSizeOf``).

        XLA counts the padding of the first tile only; if a later tile pads again, addresses go beyond this
        (`address_byte_size`). Of a split layout this is its largest piece. LayoutError for a dimension of unknown size.
        """
        if self.layout is None:
            return 0
        if self.layout.split_configs:
            order, tiles = self.layout.minor_to_major, self.layout.tiles
            piece = expand(self._largest_piece, order, tiles, (), self.layout.tail_padding_alignment_in_elements)
        else:
            piece = self.expansion
        return -(-piece.allocated_elements * self.element_bits // 8)

    @property
    def _largest_piece(self) -> tuple[int, ...]:
        """The sizes of the largest piece of a split layout (``LayoutUtil::MaxSplitSize``); otherwise of the array."""
        layout, sizes = self._array_layout, list(self._known_dimensions)
        for d, indices in layout.split_configs:
            logical = layout.minor_to_major[self.rank - 1 - d]
            edges = (0, *indices, sizes[logical])
            sizes[logical] = max(b - a for a, b in itertools.pairwise(edges))
        return tuple(sizes)

    @lazy
    def address_byte_size(self) -> int:
        """Bytes of all slots that have addresses: `byte_size`, or more if a later tile pads again.

        >>> from strided import parse_shape
        >>> uneven = parse_shape("bf16[24,256]{1,0:T(8,128)(2,1,1,1)}")
        >>> uneven.byte_size, uneven.address_byte_size
        (12288, 16384)
        """
        if self.layout is None:
            return 0
        return -(-self.expansion.address_elements * self.element_bits // 8)

    @lazy
    def buffer_byte_size(self) -> int:
        """Bytes of the buffer: the metadata prefix and `address_byte_size`.

        >>> from strided import parse_shape
        >>> parse_shape("f32[3,5]{1,0:M(16)}").buffer_byte_size
        76
        """
        prefix = 0 if self.layout is None else self.layout.dynamic_shape_metadata_prefix_bytes
        return prefix + self.address_byte_size

    @property
    def slots(self) -> int:
        """Number of slots, padding included."""
        return self.expansion.address_elements

    @property
    def padding_maps(self) -> tuple[AddressMap, ...] | None:
        """Maps onto the slots that hold no element, each slot once; None for irregular layouts."""
        return self.expansion.padding_maps

    @property
    def padding_value(self) -> PaddingValue:
        """What the padding of a legacy layout contains."""
        return self._array_layout.padding_value

    @property
    def unpadded_byte_size(self) -> int:
        """Bytes of the logical elements without padding; of a split layout, those of its largest piece."""
        return 0 if self.layout is None else -(-math.prod(self._largest_piece) * self.element_bits // 8)

    # Text.

    def text(self, *, layout: bool = True) -> str:
        """XLA's text, with or without the layout: ``f32[3,5]{1,0}`` or ``f32[3,5]``."""
        sizes = ",".join(
            "?" if n == UNBOUNDED else f"<={n}" if d else str(n)
            for n, d in zip(self.dimensions, self.dynamic, strict=True)
        )
        shown = "" if self.layout is None or not layout else str(self.layout)
        return f"{self.element_type}[{sizes}]{'' if shown == '{}' else shown}"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str | None:
        return notebook.as_html(self)

    def __repr__(self) -> str:
        sizes = ", ".join("UNBOUNDED" if n == UNBOUNDED else str(n) for n in self.dimensions)
        shown = [repr(self.element_type), f"({sizes}{',' if self.rank == 1 else ''})"]
        if self.layout is not None and self.layout != Layout(descending(self.rank)):
            shown.append(repr(self.layout))
        if self.is_dynamic:
            shown.append(f"dynamic={self.dynamic!r}")
        return f"Shape({', '.join(shown)})"
