"""The value of a sharding, which text and protos are converted from and to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from strided.dumps.sharding.named import NamedSharding
from strided.dumps.sharding.tile_assignment import TileAssignment
from strided.errors import LayoutError

#: The words for shardings without a grid.
KINDS = ("replicated", "maximal", "manual", "unknown", "unreduced")

#: The kinds of subgroups, the last dimensions of a grid, in XLA's order.
SUBGROUPS = ("maximal", "manual", "unreduced", "replicated")


class Group(NamedTuple):
    """A shard group: members of ``shard_as 1`` get the same sharding, those of ``shard_like 1`` similar ones."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"shard_{self.kind} {self.number}"


@dataclass(frozen=True, repr=False)
class ShardingValue:
    """The fields of a sharding (see `Sharding`), in XLA's canonical form."""

    kind: str = ""
    grid: TileAssignment | None = None
    subgroups: tuple[str, ...] = ()
    device: int | None = None
    elements: tuple[ShardingValue, ...] = ()
    named: NamedSharding | None = None
    group: Group | None = None
    metadata: tuple[str, ...] = field(default=(), compare=False)
    num_devices: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        kinds = (
            ("grid", TileAssignment),
            ("named", NamedSharding),
            ("group", Group),
            ("device", int),
            ("num_devices", int),
        )
        for name, kind in kinds:
            value = getattr(self, name)
            if not (value is None or isinstance(value, kind)):
                raise TypeError(f"{name} must be {kind.__name__} or None, not {type(value).__name__}; parse reads text")
        for name, part in (("subgroups", str), ("elements", ShardingValue), ("metadata", str)):
            values = getattr(self, name)
            if not (isinstance(values, tuple) and all(isinstance(one, part) for one in values)):
                raise TypeError(f"{name} must be a tuple of {part.__name__.removesuffix('Value')}; parse reads text")
        if self.named is not None:
            mesh = self.named.mesh
            self._take_over(*_parts_of(self.named), mesh.devices.size if mesh.names and mesh.devices else None)
        elif self.kind == "tiled" and self.grid is not None:
            self._take_over(*canonical(self.grid, self.subgroups), self.device, self.grid.last_device + 1)
        elif self.kind not in (*KINDS, "tuple"):
            raise LayoutError(f"a sharding is {', '.join(KINDS)}, tiled over a grid or a tuple, found {self.kind!r}")
        elif any(element.kind == "tuple" for element in self.elements):
            raise LayoutError("a tuple has a sharding for each leaf, and none is a tuple again")

    def _take_over(self, *values: object) -> None:
        # The number of devices is stored separately, because a grid that cuts nothing becomes a word without it.
        for name, value in zip(("kind", "grid", "subgroups", "device", "num_devices"), values, strict=True):
            object.__setattr__(self, name, value)


def canonical(grid: TileAssignment, subgroups: tuple[str, ...]) -> tuple[str, TileAssignment | None, tuple[str, ...]]:
    """A grid with subgroups in canonical form: kind, grid and subgroups.

    Subgroups of size 1 are dropped, those of one kind merged, kinds sorted (replicas last), and the devices of each set
    of replicas sorted. A grid that cuts nothing becomes the word for its only kind.
    """
    rank = len(grid.dimensions) - len(subgroups)
    if rank < 0 or any(kind not in SUBGROUPS for kind in subgroups):
        raise LayoutError(f"the subgroups {subgroups} do not fit a grid of {len(grid.dimensions)} dimensions")
    if not subgroups:
        return "tiled", grid, ()
    cut = math.prod(grid.dimensions[:rank])
    if cut == 1 and len(set(subgroups)) == 1 and subgroups[0] != "maximal":
        return subgroups[0], None, ()  # also if all sizes are 1
    of_kind: dict[str, list[int]] = {kind: [] for kind in SUBGROUPS}
    single: list[int] = []
    for k, kind in enumerate(subgroups, rank):
        (single if grid.dimensions[k] == 1 else of_kind[kind]).append(k)
    order = [*range(rank), *(k for dims in of_kind.values() for k in dims), *single]
    kept = {kind: math.prod(grid.dimensions[k] for k in dims) for kind, dims in of_kind.items() if dims}
    if order != list(range(len(order))):
        grid = grid.transposed(order)
    grid = grid.reshaped([*grid.dimensions[:rank], *kept.values()])
    kinds = tuple(kept)
    # XLA prints `{devices=[6,1]<=[6] last_tile_dims={unreduced, replicated}}` as a grid, and reads that as the word.
    if cut == 1 and len(kinds) == 1 and kinds[0] != "maximal":
        return kinds[0], None, ()
    return "tiled", grid.sorted_last() if kinds[-1:] == ("replicated",) else grid, kinds


def _parts_of(named: NamedSharding) -> tuple[str, TileAssignment | None, tuple[str, ...], int | None]:
    if named.mesh.is_maximal and named.mesh.devices is not None:
        return "maximal", None, (), named.mesh.devices.devices[0]
    grid, subgroups = named.tile_assignment()
    if grid.size == 1 and not subgroups and all(size == 1 for size in grid.dimensions):
        return "replicated", None, (), None
    return *canonical(grid, subgroups), None
