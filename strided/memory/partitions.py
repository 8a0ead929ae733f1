"""The number of devices for which a program is partitioned."""

from __future__ import annotations

import re

from strided.dumps.hlo import Module
from strided.dumps.sharding.sharding import Sharding
from strided.errors import NotationError

#: The attribute in which JAX records meshes: ``{mesh = #sdy.mesh<["x"=2, "y"=4]>}``.
_MESHES, _MESH = "xla.sdy.meshes", "#sdy.mesh<"
_AXIS = re.compile(r'"[^"]*+"=([0-9]{1,18})(?![0-9])')
#: XLA counts devices in 64 bits; a hostile text may have larger numbers.
_MOST_DEVICES = 2**63 - 1


def partitions_of(module: Module) -> int:
    """The number of partitions: the most of the header, the shardings of the entry computation, and the meshes.

    Before partitioning, a program that is sharded by ``shard_map`` or a constraint has only meshes.

    >>> from strided.dumps.hlo import read_hlo
    >>> text = "ENTRY e { ROOT p = f32[8] parameter(0), sharding={devices=[4]<=[4]} }"
    >>> partitions_of(read_hlo(text))
    4
    """
    shardings = {text for instruction in module.entry.instructions if (text := instruction.sharding)}
    meshes = module.frontend_attributes.get(_MESHES, "").split(_MESH)[1:]
    return max(module.num_partitions, *map(_devices_of, shardings), *map(_devices_of_mesh, meshes), 1)


def _devices_of_mesh(mesh: str) -> int:
    """The product of the sizes of a mesh's axes."""
    count = 1
    for size in _AXIS.findall(mesh):
        count = min(count * int(size), _MOST_DEVICES)
    return count


def _devices_of(sharding: str) -> int:
    try:
        parsed = Sharding.parse(sharding)
    except NotationError:
        return 1
    return max(one.num_devices or 1 for one in (parsed, *parsed.elements))
