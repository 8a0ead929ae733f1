"""`strided shard`: what each device's file holds, how files are called, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import strided as sd
from tests.commands import Run

SHARDING = "{devices=[2,4]<=[8]}"
VALUES = np.arange(30, dtype=np.float32).reshape(3, 10)


@pytest.fixture
def array(tmp_path: Path) -> Path:
    """A file of values."""
    np.save(tmp_path / "whole.npy", VALUES)
    return tmp_path / "whole.npy"


def test_files_are_the_buffers_of_devices(run: Run, tmp_path: Path, array: Path) -> None:
    code, out, err = run("shard", array, SHARDING, tmp_path / "s{}.bin", "--to", "{1,0:T(2,128)}")
    first, last = tmp_path / "s0.bin", tmp_path / "s7.bin"
    assert (code, err) == (0, "")
    assert out == f"{first} to {last}: 8 files, 8,192 bytes, each f32[2,3]{{1,0:T(2,128)}}\n"
    expected = sd.shard(VALUES, SHARDING, "{1,0:T(2,128)}")
    for device, shard in expected.items():
        assert (tmp_path / f"s{device}.bin").read_bytes() == shard.buffer.tobytes()


@pytest.mark.parametrize("sharding", [SHARDING, "{devices=[2,2,3]<=[3,4]T(1,0) last_tile_dim_replicate}"])
@pytest.mark.parametrize("ending", [".bin", ".npy", ".npz:w", ".safetensors", ".zarr"])
def test_assemble_undoes_it(run: Run, tmp_path: Path, array: Path, sharding: str, ending: str) -> None:
    assert run("shard", array, sharding, tmp_path / f"s{{}}{ending}", "--dtype", "s4")[0] == 0
    files = sorted(tmp_path.glob("s*"))
    assert len(files) == sd.Sharding.parse(sharding).num_devices
    assert run("assemble", "s4[3,10]", sharding, *files, tmp_path / "back.npy", "--dtype", "s8")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "back.npy"), (VALUES.astype(np.int64) + 8) % 16 - 8)


def test_raw_bytes_in_a_layout_are_a_source(run: Run, tmp_path: Path) -> None:
    shape, raw = "bf16[3,10]{0,1:T(8,128)(2,1)}", tmp_path / "whole.bin"
    raw.write_bytes(sd.LayoutArray.from_numpy(VALUES, shape, element_type="bf16").buffer.tobytes())
    assert run("shard", raw, shape, SHARDING, tmp_path / "s{}.npy")[0] == 0
    np.testing.assert_array_equal(sd.load_npy(tmp_path / "s5.npy").astype(int), [[23, 24, 25], [0, 0, 0]])


def test_numbers_have_as_many_digits_as_the_greatest(run: Run, tmp_path: Path, array: Path) -> None:
    assert run("shard", array, "{replicated}", tmp_path / "s{}.npy", "--devices", 11)[0] == 0
    names = sorted(path.name for path in tmp_path.glob("s*"))
    assert names == [f"s{k:02}.npy" for k in range(11)]
    code, out, _ = run("shard", array, "{maximal device=3}", tmp_path / "only{}.bin")
    assert (code, out) == (0, f"{tmp_path / 'only3.bin'}: 120 bytes, f32[3,10]{{1,0}}\n")


def test_a_number_may_be_that_of_a_folder(run: Run, tmp_path: Path, array: Path) -> None:
    for host in range(2):
        (tmp_path / f"host{host}").mkdir()
    assert run("shard", array, "{devices=[2,1]<=[2]}", tmp_path / "host{}" / "w.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "host0" / "w.npy"), VALUES[:2])


@pytest.mark.parametrize(
    ("sharding", "out", "said"),
    [
        ("{replicated}", "s{}.npy", "does not say how many devices there are: give --devices"),
        (SHARDING, "s.npy", "would be the name of all files: put {} where a device's number goes"),
        (SHARDING, "s.npz:w{}", "s.npz would be the name of all files: put {} in front of ':'"),
        (SHARDING, "s{}.csv", "s0.csv"),
        (SHARDING, "nowhere/s{}.npy", "No such file or directory"),
        ("{devices=[2]<=[2]}", "s{}.npy", "cuts 1 dimension, the array has 2"),
        ("{devices=[1,1152921504606846976]<=[1152921504606846976]}", "s{}.npy", "too many buffers"),
        ("{manual}", "s{}.npy", "{manual}"),
        ("s{}.npy", SHARDING, "expected '{'"),
    ],
)
def test_what_is_not_written(run: Run, tmp_path: Path, array: Path, sharding: str, out: str, said: str) -> None:
    code, printed, err = run("shard", array, sharding, tmp_path / out)
    assert (code, printed) == (2, "")
    assert said in err
    assert [path.name for path in tmp_path.iterdir()] == [array.name]


def test_nothing_is_written_if_one_file_is_there(run: Run, tmp_path: Path, array: Path) -> None:
    (tmp_path / "s5.npy").write_bytes(b"kept")
    code, _, err = run("shard", array, SHARDING, tmp_path / "s{}.npy")
    assert (code, err) == (2, f"strided: {tmp_path / 's5.npy'} already exists; --force overwrites it\n")
    assert not (tmp_path / "s0.npy").exists()
    assert (tmp_path / "s5.npy").read_bytes() == b"kept"
    assert run("shard", array, SHARDING, tmp_path / "s{}.npy", "--force")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "s5.npy")[:1], VALUES[2:, 3:6])


def test_the_source_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "s1.npy", VALUES)
    assert run("shard", tmp_path / "s1.npy", SHARDING, tmp_path / "s{}.npy", "--force")[0] == 2
    np.testing.assert_array_equal(np.load(tmp_path / "s1.npy"), VALUES)
