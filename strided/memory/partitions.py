"""For how many devices a program is."""

from __future__ import annotations

from strided.dumps.hlo import Module
from strided.dumps.sharding.sharding import Sharding
from strided.errors import NotationError


def partitions_of(module: Module) -> int:
    """The number of partitions: as the header says, else as many as shardings in the entry computation name.

    >>> from strided.dumps.hlo import read_hlo
    >>> text = "ENTRY e { ROOT p = f32[8] parameter(0), sharding={devices=[4]<=[4]} }"
    >>> partitions_of(read_hlo(text))
    4
    """
    shardings = {text for instruction in module.entry.instructions if (text := instruction.sharding)}
    return max(module.num_partitions, *map(_devices_of, shardings), 1)


def _devices_of(sharding: str) -> int:
    try:
        parsed = Sharding.parse(sharding)
    except NotationError:
        return 1
    return max(one.num_devices or 1 for one in (parsed, *parsed.elements))
