"""Read and write OpSharding and NamedShardingProto messages.

Metadata on the program's source are skipped, because they do not affect where data lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from strided.dumps.protobuf.decode import Fields
from strided.dumps.protobuf.wire import MAX_DEPTH, bytes_field, integer_field, integers_field
from strided.dumps.sharding.named import REDUCTIONS, Axis, DimensionSharding, Mesh, NamedSharding
from strided.dumps.sharding.tile_assignment import TileAssignment, device_number
from strided.dumps.sharding.value import Group, ShardingValue
from strided.errors import DumpError, LayoutError

T = TypeVar("T")

#: OpSharding.Type by number.
_TYPES = ("replicated", "maximal", "tuple", "tiled", "manual", "unknown", "unreduced")
_GROUPS = ("as", "like")


def read_sharding_proto(view: memoryview, make: Callable[..., T]) -> T:
    """Read an OpSharding message; `make` builds the sharding (see `Sharding`).

    DumpError for an invalid message or sharding.
    """
    return _sharding(Fields("OpSharding", view), make, 0)


def _sharding(found: Fields, make: Callable[..., T], depth: int) -> T:
    try:
        if "named_sharding" in found:  # all other fields are then ignored
            return make(named=_named(found.message("named_sharding")))
        return _unnamed(found, make, depth)
    except LayoutError as error:
        raise DumpError(f"OpSharding: {error}", position=found.at) from error


def _unnamed(found: Fields, make: Callable[..., T], depth: int) -> T:
    at, number = found.at, found.integer("type")
    if not 0 <= number < len(_TYPES):
        raise DumpError(f"OpSharding.type {number} is unknown", position=at)
    kind = _TYPES[number]
    group = _group(found) if found.integer("is_shard_group") else None
    if kind == "tuple":
        if depth >= MAX_DEPTH:
            raise DumpError(f"tuples of shardings are nested more than {MAX_DEPTH} deep", position=at)
        elements = found.messages("tuple_shardings")
        return make(kind=kind, elements=tuple(_sharding(one, make, depth + 1) for one in elements))
    dimensions = found.integers("tile_assignment_dimensions")
    devices = found.integers("tile_assignment_devices")
    reshape = found.integers("iota_reshape_dims")
    if kind == "tiled" and len(devices) == 1 and not reshape:
        kind = "replicated"  # XLA ignores which device is listed
    if kind == "maximal":
        if len(devices) != 1:
            raise DumpError(f"a maximal OpSharding needs one device, found {len(devices)}", position=at)
        return make(kind="maximal", device=device_number(devices[0]), group=group)
    if kind != "tiled":
        return make(kind=kind, group=group)
    if not dimensions:
        raise DumpError("a tiled OpSharding needs the sizes of its grid, found none", position=at)
    if reshape:
        grid = TileAssignment.iota(dimensions, reshape, found.integers("iota_transpose_perm"))
    else:
        grid = TileAssignment.listed(dimensions, devices)
    return make(kind="tiled", grid=grid, subgroups=_subgroups(found), group=group)


def _group(found: Fields) -> Group:
    number = found.integer("shard_group_type")
    if not 0 <= number < len(_GROUPS):
        raise DumpError(f"OpSharding.shard_group_type {number} is unknown", position=found.at)
    return Group(_GROUPS[number], found.integer("shard_group_id"))


def _subgroups(found: Fields) -> tuple[str, ...]:
    """The kinds of a grid's last dimensions."""
    types = found.integers("last_tile_dims")
    if not found.integer("replicate_on_last_tile_dim"):
        return tuple(_TYPES[k] if 0 <= k < len(_TYPES) else str(k) for k in types)
    if types:
        raise DumpError("replicate_on_last_tile_dim and last_tile_dims exclude each other", position=found.at)
    return ("replicated",)


def _named(found: Fields) -> NamedSharding:
    dimensions = tuple(
        DimensionSharding(_axes(dim, "axes"), not dim.integer("is_closed")) for dim in found.messages("dim_shardings")
    )
    replicated, unreduced, manual = (_axes(found, name) for _, name in _AXIS_LISTS)
    reduction = found.integer("reduction_op")
    word = REDUCTIONS[reduction] if 0 <= reduction < len(REDUCTIONS) else str(reduction)
    return NamedSharding(_mesh(found.message("mesh")), dimensions, replicated, unreduced, manual, word)


#: Fields of a NamedShardingProto, in the order of NamedSharding's.
_AXIS_LISTS = ((4, "replicated_axes"), (5, "unreduced_axes"), (7, "manual_axes"))


def _mesh(found: Fields) -> Mesh:
    axes = [(axis.text("name"), axis.integer("size")) for axis in found.messages("axes")]
    names, sizes = tuple(name for name, _ in axes), [size for _, size in axes]
    if devices := found.integers("device_ids"):
        return Mesh(names, TileAssignment.listed(sizes, devices))
    if "iota_transform" not in found:
        return Mesh(names, TileAssignment.iota(sizes) if names else None)
    iota = found.message("iota_transform")
    return Mesh(names, TileAssignment.iota(sizes, iota.integers("reshape_dims"), iota.integers("transpose_perm")))


def _axes(found: Fields, name: str) -> tuple[Axis, ...]:
    axes = []
    for axis in found.messages(name):
        index = axis.integer("mesh_axis_index")
        if "sub_axis_info" not in axis:
            axes.append(Axis(index))
            continue
        sub = axis.message("sub_axis_info")
        axes.append(Axis.part(index, sub.integer("pre_size"), sub.integer("size")))
    return tuple(axes)


# ---- writing --------------------------------------------------------------------------------------------------------


def write_sharding_proto(sharding: ShardingValue) -> bytes:
    """A sharding as an OpSharding message."""
    if sharding.named is not None:
        return bytes_field(14, _write_named(sharding.named))
    parts = [integer_field(1, _TYPES.index(sharding.kind))]
    grid = sharding.grid
    if sharding.kind == "tuple":
        parts += [bytes_field(5, write_sharding_proto(element)) for element in sharding.elements]
    if sharding.kind == "maximal":
        parts.append(integers_field(4, (sharding.device or 0,)))
    if grid is not None:
        copies = sharding.subgroups == ("replicated",)
        subgroups = [] if copies else [_TYPES.index(kind) for kind in sharding.subgroups]
        parts += [integers_field(3, grid.dimensions), integers_field(4, grid.devices)]
        parts += [integer_field(6, copies), integers_field(8, subgroups)]
        if grid.digits is not None:
            reshape, perm = grid.iota_form
            parts += [integers_field(9, reshape), integers_field(10, perm)]
    if sharding.group is not None:
        parts += [integer_field(11, 1), integer_field(12, sharding.group.number)]
        parts.append(integer_field(13, _GROUPS.index(sharding.group.kind)))
    return b"".join(parts)


def _write_named(named: NamedSharding) -> bytes:
    mesh, devices = named.mesh, named.mesh.devices
    parts = [
        bytes_field(1, bytes_field(1, name.encode("utf-8", "surrogatepass")) + integer_field(2, size))
        for name, size in zip(mesh.names, mesh.sizes, strict=True)
    ]
    if devices is not None and devices.digits is None:
        parts.append(integers_field(2, devices.devices))
    elif devices is not None and len(devices.digits or ()) > 1:
        reshape, perm = devices.iota_form
        parts.append(bytes_field(3, integers_field(1, reshape) + integers_field(2, perm)))
    message = [bytes_field(2, b"".join(parts))]
    message += [
        bytes_field(3, _write_axes(1, dim.axes) + integer_field(2, not dim.open)) for dim in named.dim_shardings
    ]
    message += [_write_axes(number, getattr(named, name.removesuffix("_axes"))) for number, name in _AXIS_LISTS]
    message.append(integer_field(8, REDUCTIONS.index(named.reduction)))
    return b"".join(message)


def _write_axes(number: int, axes: tuple[Axis, ...]) -> bytes:
    parts = []
    for axis in axes:
        sub = bytes_field(2, integer_field(1, axis.pre_size) + integer_field(2, axis.size)) if axis.size else b""
        parts.append(bytes_field(number, integer_field(1, axis.index) + sub))
    return b"".join(parts)
