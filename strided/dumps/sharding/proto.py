"""OpSharding and NamedShardingProto messages, both ways.

========================  =============================================================================================
OpSharding                1 type, 3 tile_assignment_dimensions, 4 tile_assignment_devices, 5 tuple_shardings,
                          6 replicate_on_last_tile_dim, 7 metadata, 8 last_tile_dims, 9 iota_reshape_dims,
                          10 iota_transpose_perm, 11 is_shard_group, 12 shard_group_id, 13 shard_group_type,
                          14 named_sharding (where it is present, nothing else counts)
NamedShardingProto        2 mesh, 3 dim_shardings {1 axes, 2 is_closed}, 4 replicated_axes, 5 unreduced_axes,
                          6 metadata, 7 manual_axes
MeshProto                 1 axes {1 name, 2 size}, 2 device_ids, 3 iota_transform {1 reshape_dims, 2 transpose_perm}
AxisRefProto              1 mesh_axis_index, 2 sub_axis_info {1 pre_size, 2 size}
========================  =============================================================================================

Metadata are skipped: what they say of a program's source does not move any data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strided.dumps.protobuf.decode import Fields
from strided.dumps.protobuf.wire import MAX_DEPTH, Field, bytes_field, integer_field, integers_field
from strided.dumps.sharding.named import Axis, DimensionSharding, Mesh, NamedSharding
from strided.dumps.sharding.tile_assignment import TileAssignment
from strided.dumps.sharding.value import Group, ShardingValue
from strided.errors import DumpError, LayoutError

T = TypeVar("T")

#: OpSharding.Type by number.
_TYPES = ("replicated", "maximal", "tuple", "tiled", "manual", "unknown", "unreduced")
_GROUPS = ("as", "like")


def read_sharding_proto(view: memoryview, make: Callable[..., T], at: int = 0, depth: int = 0) -> T:
    """The sharding of an OpSharding message, built by `make` (see `Sharding`); `at` is the byte where it begins.

    Raises
    ------
    DumpError
    """
    try:
        found = Fields(view, "OpSharding", at)
        if 14 in found:
            return make(named=_named(*found.message(14, "OpSharding.named_sharding")))
        return _unnamed(found, make, at, depth)
    except LayoutError as error:
        raise DumpError(f"OpSharding: {error}", position=at) from error


def _unnamed(found: Fields, make: Callable[..., T], at: int, depth: int) -> T:
    number = found.integer(1, "OpSharding.type")
    if not 0 <= number < len(_TYPES):
        raise DumpError(f"OpSharding.type {number} is unknown", position=at)
    kind = _TYPES[number]
    group = None
    if found.integer(11, "OpSharding.is_shard_group"):
        like = found.integer(13, "OpSharding.shard_group_type")
        if not 0 <= like < len(_GROUPS):
            raise DumpError(f"OpSharding.shard_group_type {like} is unknown", position=at)
        group = Group(_GROUPS[like], found.integer(12, "OpSharding.shard_group_id"))
    if kind == "tuple":
        if depth >= MAX_DEPTH:
            raise DumpError(f"tuples of shardings are nested more than {MAX_DEPTH} deep", position=at)
        views = [(one.view("OpSharding.tuple_shardings"), one.at) for one in found[5]]
        return make(kind=kind, elements=tuple(read_sharding_proto(one, make, place, depth + 1) for one, place in views))
    dimensions = found.integers(3, "OpSharding.tile_assignment_dimensions")
    devices = found.integers(4, "OpSharding.tile_assignment_devices")
    reshape = found.integers(9, "OpSharding.iota_reshape_dims")
    if kind == "maximal" or (kind == "tiled" and len(devices) == 1 and not reshape):
        if len(devices) != 1:
            raise DumpError(f"a maximal OpSharding needs one device, found {len(devices)}", position=at)
        if devices[0] < 0:
            raise DumpError(f"a device number is at least 0, found {devices[0]}", position=at)
        return make(kind="maximal", device=devices[0], group=group)
    if kind != "tiled":
        return make(kind=kind, group=group)
    if reshape:
        grid = TileAssignment.iota(dimensions, reshape, found.integers(10, "OpSharding.iota_transpose_perm"))
    else:
        grid = TileAssignment.listed(dimensions, devices)
    types = found.integers(8, "OpSharding.last_tile_dims")
    subgroups = tuple(_TYPES[k] if 0 <= k < len(_TYPES) else str(k) for k in types)
    if found.integer(6, "OpSharding.replicate_on_last_tile_dim"):
        if subgroups:
            raise DumpError("replicate_on_last_tile_dim and last_tile_dims exclude each other", position=at)
        subgroups = ("replicated",)
    return make(kind="tiled", grid=grid, subgroups=subgroups, group=group)


def _named(view: memoryview, at: int) -> NamedSharding:
    found = Fields(view, "NamedShardingProto", at)
    mesh = _mesh(*found.message(2, "NamedShardingProto.mesh")) if 2 in found else Mesh((), None)
    dimensions = []
    for one in found[3]:
        part = Fields(one.view("NamedShardingProto.dim_shardings"), "DimensionSharding", one.at)
        axes, closed = _axes(part[1], "DimensionSharding.axes"), part.integer(2, "DimensionSharding.is_closed")
        dimensions.append(DimensionSharding(axes, not closed))
    lists = (_axes(found[n], f"NamedShardingProto.{word}_axes") for n, word in _AXIS_LISTS)
    return NamedSharding(mesh, tuple(dimensions), *lists)


_AXIS_LISTS = ((4, "replicated"), (5, "unreduced"), (7, "manual"))


def _mesh(view: memoryview, at: int) -> Mesh:
    found = Fields(view, "MeshProto", at)
    names, sizes = [], []
    for one in found[1]:
        axis = Fields(one.view("MeshProto.axes"), "MeshAxis", one.at)
        names.append(axis.text(1, "MeshAxis.name"))
        sizes.append(axis.integer(2, "MeshAxis.size"))
    devices = found.integers(2, "MeshProto.device_ids")
    if devices:
        return Mesh(tuple(names), TileAssignment.listed(sizes, devices))
    if 3 in found:
        view, at = found.message(3, "MeshProto.iota_transform")
        iota = Fields(view, "IotaTransform", at)
        reshape, perm = iota.integers(1, "reshape_dims"), iota.integers(2, "transpose_perm")
        return Mesh(tuple(names), TileAssignment.iota(sizes, reshape, perm))
    return Mesh(tuple(names), TileAssignment.iota(sizes) if names else None)


def _axes(items: list[Field], wanted: str) -> tuple[Axis, ...]:
    axes = []
    for one in items:
        axis = Fields(one.view(wanted), "AxisRefProto", one.at)
        index = axis.integer(1, "AxisRefProto.mesh_axis_index")
        if 2 not in axis:
            axes.append(Axis(index))
            continue
        view, at = axis.message(2, "AxisRefProto.sub_axis_info")
        part = Fields(view, "SubAxis", at)
        axes.append(Axis(index, part.integer(1, "SubAxis.pre_size"), part.integer(2, "SubAxis.size")))
        if axes[-1].size < 2 or axes[-1].pre_size < 1:
            raise DumpError("a sub-axis needs a size of 2 or more behind a factor of 1 or more", position=at)
    return tuple(axes)


# ---- writing --------------------------------------------------------------------------------------------------------


def write_sharding_proto(sharding: ShardingValue) -> bytes:
    """The bytes of the OpSharding message of a sharding."""
    if sharding.named is not None:
        return bytes_field(14, _write_named(sharding.named))
    parts = [integer_field(1, _TYPES.index(sharding.kind))]
    grid = sharding.grid
    if sharding.kind == "tuple":
        parts += [bytes_field(5, write_sharding_proto(element)) for element in sharding.elements]
    if sharding.kind == "maximal":
        parts.append(integers_field(4, (sharding.device or 0,)))
    if grid is not None:
        parts.append(integers_field(3, grid.dimensions) + integers_field(4, grid.devices))
        copies = sharding.subgroups == ("replicated",)
        parts.append(integer_field(6, copies))
        parts.append(b"" if copies else integers_field(8, [_TYPES.index(kind) for kind in sharding.subgroups]))
        if grid.digits is not None:
            reshape, perm = grid.iota_form
            parts.append(integers_field(9, reshape) + integers_field(10, perm))
    if sharding.group is not None:
        parts.append(integer_field(11, 1) + integer_field(12, sharding.group.number))
        parts.append(integer_field(13, _GROUPS.index(sharding.group.kind)))
    return b"".join(parts)


def _write_named(named: NamedSharding) -> bytes:
    mesh, devices = named.mesh, named.mesh.devices
    parts = []
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        parts.append(bytes_field(1, bytes_field(1, name.encode("utf-8", "surrogatepass")) + integer_field(2, size)))
    if devices is not None and devices.digits is None:
        parts.append(integers_field(2, devices.devices))
    elif devices is not None and len(devices.digits or ()) > 1:
        reshape, perm = devices.iota_form
        parts.append(bytes_field(3, integers_field(1, reshape) + integers_field(2, perm)))
    message = [bytes_field(2, b"".join(parts))]
    for dim in named.dim_shardings:
        message.append(bytes_field(3, _write_axes(1, dim.axes) + integer_field(2, not dim.open)))
    for number, word in _AXIS_LISTS:
        message.append(_write_axes(number, getattr(named, word)))
    return b"".join(message)


def _write_axes(number: int, axes: tuple[Axis, ...]) -> bytes:
    parts: list[bytes] = []
    for axis in axes:
        sub: Any = bytes_field(2, integer_field(1, axis.pre_size) + integer_field(2, axis.size)) if axis.size else b""
        parts.append(bytes_field(number, integer_field(1, axis.index) + sub))
    return b"".join(parts)
