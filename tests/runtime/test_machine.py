"""What a container grants of the machine's CPUs and memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from strided.runtime import machine


def groups(tmp_path: Path, membership: str, files: dict[str, str]) -> tuple[Path, Path]:
    """A list of groups, and the folder where they are mounted, with these files."""
    listed = tmp_path / "membership"
    listed.write_text(membership, encoding="utf-8")
    root = tmp_path / "root"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return listed, root


class TestCpus:
    """CPU time that a control group grants."""

    @staticmethod
    def quota(tmp_path: Path, membership: str, files: dict[str, str]) -> float | None:
        return machine.container_cpus(*groups(tmp_path, membership, files))

    def test_no_groups_grant_everything(self, tmp_path: Path) -> None:
        assert machine.container_cpus(tmp_path / "missing", tmp_path) is None
        assert self.quota(tmp_path, "0::/\n", {"cpu.max": "max 100000\n"}) is None

    def test_unified_group_limits(self, tmp_path: Path) -> None:
        assert self.quota(tmp_path, "0::/pod\n", {"pod/cpu.max": "150000 100000\n"}) == 1.5

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of files are text on other systems")
    def test_names_of_groups_may_be_in_any_encoding(self, tmp_path: Path) -> None:
        name = b"p\xf6d\xff"
        (tmp_path / "membership").write_bytes(b"0::/" + name)
        (tmp_path / os.fsdecode(name)).mkdir()
        (tmp_path / os.fsdecode(name) / "cpu.max").write_bytes(b"150000 100000\n")
        assert machine.container_cpus(tmp_path / "membership", tmp_path) == 1.5

    def test_the_tightest_enclosing_group_counts(self, tmp_path: Path) -> None:
        files = {"pod/cpu.max": "100000 100000", "pod/box/cpu.max": "400000 100000"}
        assert self.quota(tmp_path, "0::/pod/box\n", files) == 1.0

    def test_inside_a_container_its_own_group_is_the_root(self, tmp_path: Path) -> None:
        assert self.quota(tmp_path, "0::/../../elsewhere\n", {"cpu.max": "300000 100000"}) == 3.0

    def test_legacy_group_limits(self, tmp_path: Path) -> None:
        files = {"cpu,cpuacct/pod/cpu.cfs_quota_us": "250000", "cpu,cpuacct/pod/cpu.cfs_period_us": "100000"}
        assert self.quota(tmp_path, "4:cpu,cpuacct:/pod\n3:memory:/pod\n", files) == 2.5

    def test_legacy_group_without_limit(self, tmp_path: Path) -> None:
        files = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
        assert self.quota(tmp_path, "4:cpu:/\n", files) is None

    def test_legacy_group_without_a_period(self, tmp_path: Path) -> None:
        files = {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "0"}
        assert self.quota(tmp_path, "4:cpu:/\n", files) is None

    @pytest.mark.parametrize("text", ["", "words", "1", "1 0", "max"])
    def test_unreadable_limits_are_none(self, tmp_path: Path, text: str) -> None:
        assert self.quota(tmp_path, "0::/\n\nnonsense\n", {"cpu.max": text}) is None


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/pod\n", {"pod/memory.max": "2147483648\n", "memory.max": "max\n"}, 1 << 31),
        ("0::/pod/box\n", {"pod/memory.max": "1073741824", "pod/box/memory.max": "2147483648"}, 1 << 30),
        ("0::/\n", {"memory.max": "max"}, None),
        ("4:memory:/pod\n", {"memory/pod/memory.limit_in_bytes": "536870912"}, 1 << 29),
        ("4:cpu:/pod\n", {"memory/pod/memory.limit_in_bytes": "536870912"}, None),
        ("0::/\n", {"memory.max": ""}, None),
    ],
)
def test_memory(tmp_path: Path, membership: str, files: dict[str, str], limit: int | None) -> None:
    assert machine.container_memory(*groups(tmp_path, membership, files)) == limit


def test_memory_of_this_machine() -> None:
    assert machine.usable_memory() > 1 << 26
