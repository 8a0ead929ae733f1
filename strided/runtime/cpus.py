"""The number of CPUs that this process may use, by its affinity mask and its container."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def usable_cpus() -> int:
    """CPUs of the affinity mask, and no more than the CPU time that a container grants; at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = container_cpus(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, min(cpus, math.ceil(quota)) if quota is not None else cpus)


def container_cpus(membership: Path, root: Path) -> float | None:
    """CPUs' worth of time that the tightest enclosing control group grants, or None without a limit.

    `membership` lists this process's groups (``/proc/self/cgroup``), `root` is where the groups are mounted.
    """
    try:
        lines = membership.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    limits: list[float] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            limits += _quotas(root, group, _quota_of_unified_group)
        elif "cpu" in controllers.split(","):
            for mount in ("cpu", controllers):
                limits += _quotas(root / mount, group, _quota_of_legacy_group)
    return min(limits, default=None)


def _quotas(root: Path, group: str, quota_of: Callable[[Path], float | None]) -> Iterator[float]:
    """The quotas of a group and of all groups around it; in a container the outer ones may be invisible."""
    folder = root / group.lstrip("/")
    while True:
        quota = quota_of(folder)
        if quota is not None:
            yield quota
        if folder == root or root not in folder.parents:
            return
        folder = folder.parent


def _quota_of_unified_group(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text("ascii").split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_of_legacy_group(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text("ascii"))
        period = int((folder / "cpu.cfs_period_us").read_text("ascii"))
        return quota / period if quota > 0 and period > 0 else None
    except (OSError, ValueError):
        return None
