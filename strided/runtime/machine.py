"""CPUs and memory that this process may use: those of the machine, or fewer in a container."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

#: The file that lists the control groups of this process, and where groups are mounted.
_MEMBERSHIP, _ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """Number of CPUs in the affinity mask, but not more than the container's CPU quota; at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = container_cpus(_MEMBERSHIP, _ROOT)
    return max(1, min(cpus, math.ceil(quota)) if quota is not None else cpus)


def usable_memory() -> float:
    """Bytes of memory of the machine, but not more than the container's limit; infinity if unknown."""
    limit = container_memory(_MEMBERSHIP, _ROOT)
    found = math.inf if limit is None else limit
    try:
        return min(found, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return found


def container_cpus(membership: Path, root: Path) -> float | None:
    """The lowest CPU quota of the enclosing control groups, in CPUs; None without a limit.

    `membership` is the file that lists this process's groups (``/proc/self/cgroup``), `root` is where they are mounted.
    """
    return _tightest(membership, root, _CPU)


def container_memory(membership: Path, root: Path) -> float | None:
    """The lowest memory limit of the enclosing control groups, in bytes; arguments as for `container_cpus`."""
    return _tightest(membership, root, _MEMORY)


class _Controller(NamedTuple):
    """A cgroup controller: its name, and functions that read the limit of a group of version 2 and of version 1."""

    name: str
    of_unified_group: Callable[[Path], float | None]
    of_legacy_group: Callable[[Path], float | None]


def _tightest(membership: Path, root: Path, controller: _Controller) -> float | None:
    try:
        lines = membership.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    limits: list[float] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            limits += _limits(root, group, controller.of_unified_group)
        elif controller.name in controllers.split(","):
            for mount in (controller.name, controllers):
                limits += _limits(root / mount, group, controller.of_legacy_group)
    return min(limits, default=None)


def _limits(root: Path, group: str, limit_of: Callable[[Path], float | None]) -> Iterator[float]:
    """The limits of a group and of all enclosing groups; in a container these may not be visible."""
    folder = root / group.lstrip("/")
    while True:
        limit = limit_of(folder)
        if limit is not None:
            yield limit
        if folder == root or root not in folder.parents:
            return
        folder = folder.parent


# Files are read as UTF-8, which Python loads at startup. Other codecs are imported on first use; if a signal handler
# uses a codec during that import, Python considers it unknown from then on.


def _quota_of_unified_group(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text("utf-8").split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_of_legacy_group(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text("utf-8"))
        period = int((folder / "cpu.cfs_period_us").read_text("utf-8"))
        return quota / period if quota > 0 and period > 0 else None
    except (OSError, ValueError):
        return None


def _bytes_in(name: str) -> Callable[[Path], float | None]:
    def limit_of(folder: Path) -> float | None:
        try:
            return int((folder / name).read_text("utf-8"))
        except (OSError, ValueError):  # also "max", without a limit
            return None

    return limit_of


_CPU = _Controller("cpu", _quota_of_unified_group, _quota_of_legacy_group)
_MEMORY = _Controller("memory", _bytes_in("memory.max"), _bytes_in("memory.limit_in_bytes"))
