"""Print the replica groups of collective operations in XLA's three forms.

::

    replica_groups={{0,1},{2,3}}
    replica_groups=[2,2]<=[2,2]T(1,0)
    replica_groups=mesh['x'=2,'y'=2] {'y'}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strided.dumps.hlo.header import in_braces
from strided.dumps.protobuf.decode import Message
from strided.dumps.sharding.tile_assignment import iota_text


def replica_groups(message: Message) -> str:
    """The text of the groups of an instruction's message, whichever field has them.

    >>> replica_groups({"replica_groups": [{"replica_ids": [0, 1]}, {"replica_ids": [2, 3]}]})
    '{{0,1},{2,3}}'
    """
    devices = message.get("collective_device_list", {})
    # From jaxlib 0.5 to 0.8, the second form is nested in the message of the first.
    if iota := message.get("iota_collective_device_list") or devices.get("iota_replica_group_list"):
        sizes = (iota.get("num_replica_groups", 0), iota.get("num_devices_per_group", 0))
        return f"[{_join(sizes)}]<={iota_text(iota.get('iota_reshape_dims', ()), iota.get('iota_transpose_perm', ()))}"
    if mesh := message.get("mesh_axes_replica_group_list"):
        return _mesh_groups(mesh)
    listed = devices.get("replica_groups") or message.get("replica_groups", ())
    return in_braces(in_braces(group.get("replica_ids", ())) for group in listed)


def _mesh_groups(message: Message) -> str:
    mesh = message.get("mesh", {})
    axes = mesh.get("axes", ())
    sizes = (f"{_quoted(axis)}={axis.get('size', 0)}" for axis in axes)
    shown = f"mesh[{_join(sizes)}]"
    if "iota_transform" in mesh:
        iota = mesh["iota_transform"]
        shown += f", device_ids=({iota_text(iota.get('reshape_dims', ()), iota.get('transpose_perm', ()))})"
    elif mesh.get("device_ids"):
        shown += f", device_ids=({_join(mesh['device_ids'])})"
    return f"{shown} {in_braces(_axis(axes, reference) for reference in message.get('axes', ()))}"


def _axis(axes: Sequence[Message], reference: Message) -> str:
    number = reference.get("mesh_axis_index", 0)
    name = _quoted(axes[number]) if 0 <= number < len(axes) else f"'?{number}'"
    part = reference.get("sub_axis_info")
    return f"{name}:({part.get('pre_size', 0)}){part.get('size', 0)}" if part else name


def _quoted(axis: Message) -> str:
    return f"'{axis.get('name', '')}'"


def _join(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
