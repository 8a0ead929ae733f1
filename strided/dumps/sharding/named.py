"""Shardings with named mesh axes: ``{mesh['x'=2,'y'=4], [{'x'}, {}], replicated={'y'}}``.

Each dimension of the array lists, from major to minor, the mesh axes that cut it; other axes are replicated, unless
they are manual or unreduced. A sub-axis ``'x':(p)k`` of an axis of size n is the middle one of the factors p, k,
n/(p*k). A ``?`` leaves a dimension open for further sharding, and does not affect where data lie.

The mesh is a `TileAssignment`. Splitting its axes into sub-axes reshapes it, and sorting them by the array's dimensions
transposes it (`NamedSharding.tile_assignment`).

Partial values are summed, unless another reduction precedes their axes, as newer compilers print it:
``unreduced=max{'y'}``, or ``unreduced=max`` for all axes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations, pairwise

from strided.dumps.sharding.tile_assignment import TileAssignment
from strided.errors import LayoutError

#: The reductions of partial values on unreduced axes; the first is not printed.
REDUCTIONS = ("sum", "max", "min")
#: The lists of mesh axes that cut no dimension, in XLA's order; a bare name means all axes.
AXIS_LISTS = ("replicated", "unreduced", "manual")


@dataclass(frozen=True)
class Axis:
    """A mesh axis by number, or its sub-axis of `size` after a factor of `pre_size`; both are 0 for a whole axis."""

    index: int
    pre_size: int = 0
    size: int = 0

    @classmethod
    def part(cls, index: int, pre_size: int, size: int) -> Axis:
        """A sub-axis; LayoutError if it is trivial."""
        if pre_size < 1 or size < 2:
            raise LayoutError("a sub-axis needs a size of 2 or more behind a factor of 1 or more")
        return cls(index, pre_size, size)

    def bounds(self, axis_size: int) -> tuple[int, int]:
        """The products of the axis's factors before it and up to its end: ``(1, axis_size)`` for a whole axis."""
        return (self.pre_size, self.pre_size * self.size) if self.size else (1, axis_size)


@dataclass(frozen=True)
class DimensionSharding:
    """The axes that cut one dimension, from major to minor; `open` if it may be cut further."""

    axes: tuple[Axis, ...] = ()
    open: bool = False


@dataclass(frozen=True)
class Mesh:
    """Named axes of a grid of devices, or one device without axes (``maximal_mesh``), or nothing (``mesh[]``).

    The dimensions of `devices` are the sizes of the axes; it is None for ``mesh[]``.
    """

    names: tuple[str, ...]
    devices: TileAssignment | None

    def __post_init__(self) -> None:
        if not self.names:
            if self.devices is not None and self.devices.digits is not None:  # without axes, XLA has no iota
                object.__setattr__(self, "devices", None)
            return
        if len(set(self.names)) < len(self.names):
            name = Counter(self.names).most_common(1)[0][0]
            raise LayoutError(f"the mesh has two axes named {quoted(name)}")
        if self.devices is None or len(self.devices.dimensions) != len(self.names):
            raise LayoutError("a mesh needs one size for each of its axes")
        if self.devices.digits is None:
            count = tuple(range(self.devices.size))
            if tuple(sorted(self.devices.devices)) != count:
                raise LayoutError("the devices of a mesh should be 0, 1, 2, ... in some order")
            if self.devices.devices == count:  # XLA aborts on a list that equals the default
                object.__setattr__(self, "devices", TileAssignment.iota(self.devices.dimensions))

    @property
    def sizes(self) -> tuple[int, ...]:
        return () if self.devices is None else self.devices.dimensions

    @property
    def is_maximal(self) -> bool:
        """Whether it is a single device rather than a mesh."""
        return not self.names and self.devices is not None

    def __str__(self) -> str:
        if self.devices is None:
            return "mesh[]"
        if not self.names:
            return f"maximal_mesh[device_id={self.devices.device_text()}]"
        axes = ",".join(f"{quoted(name)}={size}" for name, size in zip(self.names, self.sizes, strict=True))
        is_default = self.devices.digits is not None and len(self.devices.iota_form[0]) == 1
        return f"mesh[{axes}]" + ("" if is_default else f", device_ids=({self.devices.device_text()})")


@dataclass(frozen=True)
class NamedSharding:
    """The assignment of mesh axes to an array's dimensions. Prints as XLA does.

    `reduction` combines the partial values of unreduced axes: "sum", "max" or "min".

    If no dimension is cut and all devices are unreduced (or manual), the other lists are dropped, even axes of size 1.
    LayoutError for axes that do not exist, overlap, could be written as one, or are in the wrong order.
    """

    mesh: Mesh
    dim_shardings: tuple[DimensionSharding, ...] = ()
    replicated: tuple[Axis, ...] = ()
    unreduced: tuple[Axis, ...] = ()
    manual: tuple[Axis, ...] = ()
    reduction: str = REDUCTIONS[0]

    def __post_init__(self) -> None:
        if self.reduction not in REDUCTIONS:
            raise LayoutError(f"partial values are reduced by {', '.join(REDUCTIONS)}, found {self.reduction!r}")
        for axis in chain.from_iterable(self._lists):
            self._check_axis(axis)
        self._check_overlaps(chain.from_iterable(self._lists))
        for axes in self._lists:
            for one, next_one in pairwise(axes):
                if one.size and one.index == next_one.index and one.pre_size * one.size == next_one.pre_size:
                    raise LayoutError(f"{self._axis_text(one)} and {self._axis_text(next_one)} should be one axis")
        for word in AXIS_LISTS:
            axes = getattr(self, word)
            if list(axes) != sorted(axes, key=lambda axis: (axis.index, axis.pre_size)):
                raise LayoutError(f"the axes of {word}={self._list_text(axes)} should stand in the order of the mesh")
        self._normalise()

    @property
    def _lists(self) -> list[tuple[Axis, ...]]:
        """The axes of each dimension, followed by those of each of the `AXIS_LISTS`."""
        return [*(dim.axes for dim in self.dim_shardings), *(getattr(self, word) for word in AXIS_LISTS)]

    def _normalise(self) -> None:
        """Drop what XLA drops."""
        for word in AXIS_LISTS[1:]:
            axes = getattr(self, word)
            if axes and not self.dim_shardings and self._total(axes) == math.prod(self.mesh.sizes):
                every = tuple(map(Axis, range(len(self.mesh.names))))
                for name, value in {**dict.fromkeys(AXIS_LISTS, ()), word: every}.items():
                    object.__setattr__(self, name, value)
        if not self.unreduced:
            object.__setattr__(self, "reduction", REDUCTIONS[0])

    def _total(self, axes: Iterable[Axis]) -> int:
        return math.prod(axis.size or self.mesh.sizes[axis.index] for axis in axes)

    def _check_axis(self, axis: Axis) -> None:
        if not 0 <= axis.index < len(self.mesh.names):
            raise LayoutError(f"the mesh has {len(self.mesh.names)} axes, found the number {axis.index}")
        if not axis.size and not axis.pre_size:
            return
        whole = self.mesh.sizes[axis.index]
        if axis.pre_size < 1 or axis.size < 2:
            raise LayoutError(f"{self._axis_text(axis)}: a sub-axis is 2 or larger, behind a factor of at least 1")
        if whole % (axis.pre_size * axis.size) or axis.size >= whole:
            raise LayoutError(f"{self._axis_text(axis)} is no part of an axis of size {whole}")

    def _check_overlaps(self, axes: Iterable[Axis]) -> None:
        by_index: dict[int, list[Axis]] = {}
        for axis in axes:
            by_index.setdefault(axis.index, []).append(axis)
        for index, used in by_index.items():
            if len(used) > 64:  # no axis below 2**63 has more factors
                raise LayoutError(f"{self._axis_text(used[0])} is used {len(used)} times")
            whole = self.mesh.sizes[index]
            for one, other in combinations(used, 2):
                first, last = sorted((one.bounds(whole), other.bounds(whole)))
                if first[1] > last[0] or last[0] % first[1] or 0 in (one.size, other.size):
                    raise LayoutError(f"{self._axis_text(one)} and {self._axis_text(other)} overlap")

    def tile_assignment(self) -> tuple[TileAssignment, tuple[str, ...]]:
        """The sharding as a grid, and the kinds of its last dimensions: manual, unreduced, replicated."""
        mesh = self.mesh.devices or TileAssignment.iota(())
        parts = self._parts()
        fine = mesh.reshaped([high // low for _, low, high in parts])
        place = {(index, low): k for k, (index, low, _) in enumerate(parts)}
        high = {(index, low): high for index, low, high in parts}

        order: list[int] = []
        dimensions: list[int] = []
        subgroups: list[str] = []
        axes_of = [
            *((None, dim.axes) for dim in self.dim_shardings),
            ("manual", self.manual),
            ("unreduced", self.unreduced),
        ]
        for subgroup, axes in axes_of:
            before = len(order)
            for axis in axes:
                point, end = axis.bounds(self.mesh.sizes[axis.index])
                order.append(place[axis.index, point])
                while (point := high[axis.index, point]) < end:
                    order.append(place[axis.index, point])
            size = math.prod(fine.dimensions[k] for k in order[before:])
            if subgroup is None or axes:
                dimensions.append(size)
                subgroups += [subgroup] if subgroup else []
        left = sorted(set(range(len(parts))) - set(order))
        copies = math.prod(fine.dimensions[k] for k in left)
        if copies > 1:
            dimensions.append(copies)
            subgroups.append("replicated")
        return fine.transposed([*order, *left]).reshaped(dimensions), tuple(subgroups)

    def _parts(self) -> list[tuple[int, int, int]]:
        """The mesh axes split at all bounds of sub-axes: (axis, factor before, factor up to the end)."""
        points = [{1, size} for size in self.mesh.sizes]
        for axis in chain.from_iterable(self._lists):
            points[axis.index].update(axis.bounds(self.mesh.sizes[axis.index]))
        return [
            (index, low, high)
            for index, ends in enumerate(points)
            for low, high in (pairwise(sorted(ends)) if len(ends) > 1 else [(1, 1)])
        ]

    def _axis_text(self, axis: Axis) -> str:
        name = quoted(self.mesh.names[axis.index])
        return f"{name}:({axis.pre_size}){axis.size}" if axis.size or axis.pre_size else name

    def _list_text(self, axes: Iterable[Axis], last: str = "") -> str:
        return "{" + ", ".join([*map(self._axis_text, axes), *([last] if last else [])]) + "}"

    def __str__(self) -> str:
        return f"{{{self.text()}}}"

    def text(self) -> str:
        """XLA's text without the outer braces."""
        if self.mesh.is_maximal:
            return str(self.mesh)
        lists = [getattr(self, word) for word in AXIS_LISTS]
        if not self.dim_shardings and not any(lists):
            return f"{self.mesh}, replicated"
        by = "" if self.reduction == REDUCTIONS[0] else self.reduction
        for word, axes in zip(AXIS_LISTS[1:], lists[1:], strict=True):
            whole = len(axes) == len(self.mesh.names) and not any(axis.size for axis in axes)
            if axes and whole and not self.dim_shardings:
                return f"{self.mesh}, {word}{f'={by}' if by and word == 'unreduced' else ''}"
        shown = [f"[{', '.join(self._list_text(dim.axes, '?' if dim.open else '') for dim in self.dim_shardings)}]"]
        for word, axes in zip(AXIS_LISTS, lists, strict=True):
            shown += [f"{word}={by if word == 'unreduced' else ''}{self._list_text(axes)}"] if axes else []
        return ", ".join([str(self.mesh), *shown])


def quoted(name: str) -> str:
    """An axis name as XLA prints it, but with quotes and backslashes escaped, which XLA neglects.

    >>> print(quoted("x"), quoted("it's"))
    'x' 'it\\'s'
    """
    escaped = name.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
