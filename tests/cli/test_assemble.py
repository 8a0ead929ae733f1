"""`strided assemble`: which file is whose shard, what is written, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from tests.commands import Run

SHAPE, SHARDING = "f32[12,5]{1,0:T(2,128)}", "{devices=[12,1]<=[12]}"
COPIES = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
VALUES = np.arange(60, dtype=np.float32).reshape(12, 5)


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Raw shards, in the order of their devices; 10 and 11 come before 2 in the alphabet."""
    found = []
    for device, shard in sd.shard(VALUES, SHARDING, "{1,0:T(2,128)}").items():
        found.append(tmp_path / f"device{device}.bin")
        found[-1].write_bytes(shard.buffer.tobytes())
    return found


def test_assemble(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    target, raw = tmp_path / "x.npy", tmp_path / "x.bin"
    code, out, err = run("assemble", SHAPE, SHARDING, *shards, target)
    assert (code, out, err) == (0, f"{target}: 368 bytes, float32[12, 5]\n", "")
    np.testing.assert_array_equal(np.load(target), VALUES)
    assert run("assemble", SHAPE, SHARDING, *shards, raw, "--to", "{0,1:T(8,128)}")[0] == 0
    np.testing.assert_array_equal(sd.open(raw, "f32[12,5]{0,1:T(8,128)}"), VALUES)
    assert run("assemble", SHAPE, SHARDING, *shards, tmp_path / "x.npz:w", "--index", "3, 1:", "--dtype", "s8")[0] == 0
    found = np.load(tmp_path / "x.npz")["w"]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, VALUES[3, 1:])


@pytest.mark.parametrize("short", [False, True])
def test_shards_that_say_their_own_shape(run: Run, tmp_path: Path, short: bool) -> None:
    files = []
    slices = sd.Sharding.parse("{devices=[5,1]<=[5]}").slices((12, 5))
    for device, shard in sd.shard(VALUES, "{devices=[5,1]<=[5]}").items():
        files.append(tmp_path / f"{device}.npy")
        np.save(files[-1], VALUES[slices[device]] if short else shard.to_numpy())
    assert run("assemble", "f32[12,5]", "{devices=[5,1]<=[5]}", *files, tmp_path / "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)


def test_compressed_shards_with_something_in_front(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    for shard in shards:
        shard.write_bytes(gzip.compress(b"header" + shard.read_bytes()))
    assert run("assemble", SHAPE, SHARDING, *shards, tmp_path / "x.npy", "--offset", 6)[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)


def test_shards_in_the_order_of_a_shell(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    code, _, err = run("assemble", SHAPE, SHARDING, *sorted(shards), tmp_path / "x.npy")
    assert code == 2
    assert f"{shards[2]} comes after {shards[11]}: give shards in the order of their devices" in err
    named = [f"{device}={shard}" for device, shard in enumerate(shards)]
    assert run("assemble", SHAPE, SHARDING, *sorted(named), tmp_path / "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)


def test_shards_that_are_called_alike_in_the_folder_of_each_host(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    moved = []
    for host, shard in enumerate(shards):
        moved.append(tmp_path / f"host{host}" / "w.bin")
        moved[-1].parent.mkdir()
        shard.rename(moved[-1])
    assert run("assemble", SHAPE, SHARDING, *moved, tmp_path / "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)
    code, _, err = run("assemble", SHAPE, SHARDING, *sorted(moved), tmp_path / "y.npy")
    assert code == 2
    assert f"{moved[2]} comes after {moved[11]}" in err


def test_names_whose_numbers_say_nothing(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    others = [
        shard.rename(tmp_path / name) for shard, name in zip(shards[:3], ("b2.bin", "a1.bin", "c.bin"), strict=True)
    ]
    assert run("assemble", SHAPE, SHARDING, *others, *shards[3:], tmp_path / "x.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)


def test_some_shards_alone(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    target = tmp_path / "x.npy"
    assert run("assemble", SHAPE, SHARDING, f"7={shards[7]}", target, "--index", "7")[0] == 0
    np.testing.assert_array_equal(np.load(target), VALUES[7])
    code, _, err = run("assemble", SHAPE, SHARDING, f"7={shards[7]}", tmp_path / "y.npy")
    assert (code, err) == (2, "strided: no shard holds [0:1, 0:5] of the array; that of device 0 would\n")
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["{1}", "{2}"], "x.npy: say which device each is from, as in 0="),
        (["{1}"] * 12, "device1.bin is given twice: name a file for each device, or each as DEVICE=FILE"),
        (["0={0}", "{1}"], "device1.bin has no number, and others have: give all as DEVICE=FILE, or none"),
        (["0={0}", "0={1}"], "device 0 has two shards"),
        (["0={0}", "12={1}"], "has no device 12"),
        (["0=nothing.bin"], "nothing.bin: No such file"),
        (["-"], "standard input can be read only once"),
        (["0=-"], "standard input can be read only once"),
    ],
)
def test_whose_shards_are_not_told(run: Run, tmp_path: Path, shards: list[Path], given: list[str], said: str) -> None:
    code, out, err = run("assemble", SHAPE, SHARDING, *(one.format(*shards) for one in given), tmp_path / "x.npy")
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("same", [True, False])
def test_copies_are_compared(run: Run, tmp_path: Path, same: bool) -> None:
    files = []
    for device, shard in sd.shard(VALUES, COPIES).items():
        values = shard.to_numpy()
        values[1, 2] += device == 3 and not same
        files.append(tmp_path / f"{device}.npy")
        np.save(files[-1], values)
    code, out, err = run("assemble", "f32[12,5]", COPIES, *files, tmp_path / "x.npy", "--compare-replicas")
    if same:
        assert (code, err) == (0, "")
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), VALUES)
        return
    assert (code, out) == (1, "")
    assert "device 3 differs from device 2 in 1 element of [6:12, 0:5], first at [7, 2]: 38.0 instead of 37.0" in err
    assert err.endswith("x.npy is not written\n")
    assert not (tmp_path / "x.npy").exists()


def test_a_shard_is_not_overwritten(run: Run, tmp_path: Path, shards: list[Path]) -> None:
    before = shards[3].read_bytes()
    for given in (shards, [f"{device}={shard}" for device, shard in enumerate(shards)]):
        assert run("assemble", SHAPE, SHARDING, *given, shards[3], "--force")[0] == 2
        assert shards[3].read_bytes() == before


@pytest.mark.parametrize(
    ("shape", "sharding", "said"),
    [
        ("f32[12,5", SHARDING, "expected"),
        (SHAPE, "{devices=[12,1]<=[12", "expected ']'"),
        (SHAPE, "{manual}", "{manual}"),
        ("(f32[2], f32[3])", "{replicated}", "tuple"),
    ],
)
def test_what_is_no_array_in_shards(
    run: Run, tmp_path: Path, shards: list[Path], shape: str, sharding: str, said: str
) -> None:
    code, out, err = run("assemble", shape, sharding, *shards, tmp_path / "x.npy")
    assert (code, out) == (2, "")
    assert said in err
