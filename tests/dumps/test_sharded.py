"""Shards to one array and back: lazily, in parallel, with copies compared."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays.layout_array import LayoutArray, map_array
from strided.dumps.sharded.assemble import ShardedArray, assemble, shard
from strided.dumps.sharding.sharding import Sharding
from strided.errors import BufferSizeError, DumpError, LayoutError, UnsupportedError
from tests.strategies import keys

LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(2,4)}", "{0,1:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{1,0:T(4)}"]
SHARDINGS = [
    "{replicated}",
    "{maximal device=2}",
    "{devices=[2,4]<=[8]}",
    "{devices=[4,2]<=[2,4]T(1,0)}",
    "{devices=[1,8]<=[8]}",
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[3,2]5,4,3,2,1,0}",
    "{mesh['x'=2,'y'=4], [{'y'}, {}]}",
    "{mesh['x'=8], [{'x':(2)4}, {'x':(1)2}]}",
]


def poisoned_shards(values: np.ndarray, sharding: str, layout: str) -> dict[int, LayoutArray]:
    """Shards whose padding must not be read: it holds another value."""
    num_devices = 4 if Sharding.parse(sharding).num_devices is None else None
    return shard(values, sharding, layout, num_devices=num_devices, padding=99)


# ---- whole arrays ----


@given(
    st.sampled_from(SHARDINGS),
    st.sampled_from(LAYOUTS),
    st.integers(0, 11),
    st.integers(0, 11),
    st.sampled_from(["f4", "u1", "c8", "i8"]),
)
def test_shards_and_back(sharding, layout, rows, columns, dtype):
    values = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    shards = poisoned_shards(values, sharding, layout)
    dims = Sharding.parse(sharding).shard_shape(values.shape)
    assert all(one.shape == dims for one in shards.values())
    whole = assemble(shards, sharding, values.shape)
    assert (whole.shape, whole.dtype, whole.nbytes) == (values.shape, values.dtype, values.nbytes)
    np.testing.assert_array_equal(np.asarray(whole), values)
    out = np.full(values.shape, 7, values.dtype)
    assert whole.to_numpy(out=out) is out
    np.testing.assert_array_equal(out, values)
    for other in ("{0,1:T(2,128)}", None):
        np.testing.assert_array_equal(whole.to_layout(other).to_numpy(), values)
    assert whole.compare_replicas().agree
    assert not whole.missing


@given(st.sampled_from(SHARDINGS), st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_key_reads_what_numpy_reads(sharding, rows, columns, data):
    values = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    whole = assemble(poisoned_shards(values, sharding, "{0,1:T(2,4)}"), sharding, values.shape)
    key = data.draw(keys(values.shape, wrong=data.draw(st.integers(0, 5)) == 0))
    try:
        want = values[key]
    except (IndexError, ValueError, TypeError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            whole[key]
        return
    got = whole[key]
    assert type(got) is type(want)
    assert np.shape(got) == np.shape(want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("text", ["s4[5,7]{1,0:T(8,128)(8,1)E(4)}", "s4[5,7]{0,1:E(4)}", "u2[5,7]{1,0:E(2)}"])
def test_packed_elements_meet_inside_a_byte(text):
    kind = LayoutArray(bytes(4096), text, allow_excess=True)
    values = np.random.default_rng(0).integers(0, 4, (5, 7)).astype(kind.dtype)
    layout = text[text.index("{") :]
    shards = shard(values, "{devices=[2,4]<=[8]}", layout)
    assert shards[0].xla_shape.element_type == text[:2]
    whole = assemble({k: one.buffer for k, one in shards.items()}, "{devices=[2,4]<=[8]}", text)
    np.testing.assert_array_equal(whole.to_numpy(), values)
    packed = whole.to_layout("{1,0:E(4)}" if text[:2] == "s4" else "{1,0:E(2)}")
    np.testing.assert_array_equal(packed.to_numpy(), values)


def test_scalars_and_one_dimension():
    assert assemble([np.float32(3)], "{replicated}", "f32[]")[()] == 3
    shards = shard(np.float32(3), "{replicated}", num_devices=2)
    assert assemble(shards, "{replicated}", ()).to_numpy() == 3
    whole = assemble([np.arange(2), np.arange(2, 4), np.array([4, -1])], "{devices=[3]<=[3]}", (5,))
    assert whole[-1] == 4
    assert len(whole) == 5
    assert whole[[4, 0, 4]].tolist() == [4, 0, 4]


# ---- laziness ----


def test_a_read_opens_only_the_files_it_needs(tmp_path):
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    for device, one in shard(values, "{devices=[2,4]<=[8]}", "{1,0:T(8,128)}").items():
        one.buffer.tofile(tmp_path / f"{device}.bin")
    paths = {device: tmp_path / f"{device}.bin" for device in range(8)}
    whole = assemble(paths, "{devices=[2,4]<=[8]}", "f32[8,8]{1,0:T(8,128)}")
    assert len(whole._opened) == 0
    np.testing.assert_array_equal(whole[1:3, 2:4], values[1:3, 2:4])
    assert [device for device in range(8) if whole._opened.get(device) is not None] == [1]
    np.testing.assert_array_equal(whole[::3, -1], values[::3, -1])
    assert [device for device in range(8) if whole._opened.get(device) is not None] == [1, 3, 7]
    np.testing.assert_array_equal(np.asarray(whole), values)


def test_more_shards_than_files_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    values = np.arange(600, dtype=np.float32).reshape(300, 2)
    text = "{devices=[300,1,2]<=[600] last_tile_dim_replicate}"
    paths = {}
    for device, one in shard(values, text).items():
        paths[device] = tmp_path / f"{device}.bin"
        one.buffer.tofile(paths[device])
    whole = assemble(paths, text, "f32[300,2]")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
    try:
        np.testing.assert_array_equal(np.asarray(whole), values)
        assert whole.compare_replicas().agree
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.int4])
@pytest.mark.parametrize("layout", [None, "{0,1:T(4,8)}"])
def test_files_are_written_block_by_block(dtype, layout, tmp_path, monkeypatch):
    monkeypatch.setattr("strided.io.write_values.BLOCK_BYTES", 256)
    values = (np.arange(17 * 30).reshape(17, 30) % 15 - 7).astype(dtype)
    text = "{devices=[2,3]<=[6]}"
    whole = assemble(shard(values, text, "{1,0:T(2,4)}"), text, values.shape)
    monkeypatch.setattr(ShardedArray, "to_numpy", None)  # nothing converts all of it
    if layout is None:
        sd.save_npy(tmp_path / "w.npy", whole)
        assert sd.load_npy(tmp_path / "w.npy").tobytes() == values.tobytes()
    sd.save_safetensors(tmp_path / "w.safetensors", {"w": whole}, layout)
    assert sd.open(f"{tmp_path / 'w.safetensors'}:w").tobytes() == values.tobytes()


def test_a_missing_shard_leaves_no_file(tmp_path):
    part = assemble({0: np.zeros(2)}, "{devices=[2]<=[2]}", (4,))
    for save in (lambda: sd.save_npy(tmp_path / "w", part), lambda: sd.save_safetensors(tmp_path / "w", {"w": part})):
        with pytest.raises(DumpError, match="no shard holds"):
            save()
    assert not list(tmp_path.iterdir())


def test_missing_shards_matter_only_where_they_are_read():
    values = np.arange(16, dtype=np.int32).reshape(4, 4)
    shards = shard(values, "{devices=[2,2]<=[4]}")
    del shards[2]
    whole = assemble(shards, "{devices=[2,2]<=[4]}", values.shape)
    assert whole.missing == ((slice(2, 4), slice(0, 2)),)
    assert "1 tile missing" in repr(whole)
    assert str(whole) == repr(whole)
    np.testing.assert_array_equal(whole[:2], values[:2])
    with pytest.raises(DumpError, match=r"no shard holds \[2:4, 0:2\] of the array; that of device 2 would"):
        whole[:, 1]
    copies = assemble({3: np.arange(3)}, "{replicated}", (3,))
    assert copies[1] == 1


def test_empty_tiles_need_no_shard():
    whole = assemble({0: np.array([1]), 1: np.array([2]), 2: np.array([3])}, "{devices=[4]<=[4]}", (3,))
    assert not whole.missing
    assert whole.to_numpy().tolist() == [1, 2, 3]


def test_a_text_may_claim_any_number_of_devices():
    sharding = f"{{devices=[1,{1 << 62}]<=[{1 << 62}]}}"
    whole = assemble({device: np.full((2, 1), device) for device in (0, 2)}, sharding, (2, 3))
    assert whole.missing == ((slice(0, 2), slice(1, 2)),)
    assert whole[:, ::2].tolist() == [[0, 2]] * 2
    assert assemble({0: np.ones((2, 0))}, sharding, (2, 0)).to_numpy().shape == (2, 0)


@pytest.mark.parametrize("start", range(14, 23))
@pytest.mark.parametrize("wrap", [np.asarray, lambda raw: LayoutArray(raw, "u8[2]{0}")])
def test_out_may_lie_where_the_shards_are(start, wrap):
    memory = np.arange(64, dtype=np.uint8)
    whole = assemble({0: wrap(memory[16:18]), 1: wrap(memory[18:20])}, "{devices=[2]<=[2]}", "u8[4]{0}")
    out = memory[start : start + 4]
    assert whole.to_numpy(out) is out
    assert out.tolist() == [16, 17, 18, 19]


# ---- copies ----


def test_copies_are_compared_bit_for_bit():
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    text = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
    shards = {k: LayoutArray.from_numpy(one.to_numpy(), "{1,0:T(2,4)}") for k, one in shard(values, text).items()}
    assert assemble(shards, text, values.shape).compare_replicas().agree
    shards[6][1, 5] = np.nan
    shards[6][0, 7] = -1
    shards[4].buffer[-1] ^= 0  # the layout has no padding here
    report = assemble(shards, text, values.shape).compare_replicas()
    assert report.devices == (6,)
    (found,) = report.differences
    assert (found.device, found.reference, found.count, found.index) == (6, 4, 2, (2, 7))
    assert (found.value, found.expected) == (-1, 23)
    line = "device 6 differs from device 4 in 2 elements of [2:4, 0:8], first at [2, 7]: -1.0 instead of 23.0"
    assert line in str(report)
    agreeing = assemble(shard(values, text), text, values.shape).compare_replicas()
    assert str(agreeing) == "the copies of all 2 tiles agree"
    alone = assemble(shard(values, "{devices=[2,4]<=[8]}"), "{devices=[2,4]<=[8]}", values.shape).compare_replicas()
    assert alone.agree
    assert str(alone) == "no tile is held by several devices"


def test_each_file_is_opened_once_for_an_array_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if fewer files stay open than there are; what lies in memory may be the array itself."""
    files: dict[int, Any] = {}
    for device, one in shard(np.arange(8, dtype=np.int32), "{devices=[8]<=[8]}").items():
        files[device] = tmp_path / f"{device}.bin"
        one.buffer.tofile(files[device])
    held = np.full(8, 9, np.int32)
    files[7] = held[:1]
    opened: list[Path] = []

    def counted(path: Path, shape: sd.Shape) -> Any:
        opened.append(path)
        return map_array(path, shape)

    monkeypatch.setattr("strided.dumps.sharded.sharded_array.MOST_OPEN", 2)
    a = ShardedArray(files, Sharding.parse("{devices=[8]<=[8]}"), (8,), sd.parse_shape("s32[8]"), counted)
    assert a.to_numpy(out=np.empty(8, np.int32)).tolist() == [0, 1, 2, 3, 4, 5, 6, 9]
    assert sorted(opened) == [files[k] for k in range(7)]
    assert a.to_numpy(out=held).tolist() == [0, 1, 2, 3, 4, 5, 6, 9]


def test_values_that_print_alike_are_shown_with_their_bits():
    quiet, other = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    report = assemble([quiet, other], "{replicated}", (1,)).compare_replicas()
    assert str(report).endswith("first at [0]: nan (0x7fc00001) instead of nan (0x7fc00000)")


def test_the_odd_one_out_is_named_even_when_it_comes_first():
    good, bad = np.array([1.0, 2.0]), np.array([1.0, np.nan])
    report = assemble([bad, good, good], "{replicated}", (2,)).compare_replicas()
    assert report.devices == (0,)
    assert assemble([bad, bad.copy()], "{replicated}", (2,)).compare_replicas().agree


def test_padding_of_short_shards_is_not_compared():
    text = "{devices=[2,2]<=[4] last_tile_dim_replicate}"
    shards = [np.array([1, 2]), np.array([1, 2]), np.array([3, 55]), np.array([3, 66])]
    assert assemble(shards, text, (3,)).compare_replicas().agree


def test_large_copies_are_compared_in_pieces(monkeypatch):
    monkeypatch.setattr("strided.dumps.sharded.replicas._CHUNK_ELEMENTS", 7)
    values = np.arange(5 * 3 * 11).reshape(5, 3, 11)
    other = values.copy()
    other[3, 1, 4] = other[4, 2, 10] = -1
    (found,) = assemble([values, other], "{replicated}", values.shape).compare_replicas().differences
    assert type(found).__name__ == "ReplicaDifference"  # `Difference` is what `diff` gives
    assert (found.count, found.index, found.value, found.expected) == (2, (3, 1, 4), -1, values[3, 1, 4])


# ---- refusals ----


@pytest.mark.parametrize(
    ("shards", "sharding", "shape", "error", "words"),
    [
        ([], "{devices=[2]<=[2]}", (4,), DumpError, "no shards were given"),
        ([np.zeros(3)], "{devices=[2]<=[2]}", (4,), DumpError, r"device 0 has the shape \(3,\), not \(2,\)"),
        ([np.zeros(2)] * 3, "{devices=[2]<=[2]}", (4,), DumpError, "has no device 2"),
        ([np.zeros(2)], "{maximal device=1}", (2,), DumpError, "none of the devices"),
        ([np.zeros(2)], "{manual}", (2,), UnsupportedError, "does not say which part"),
        ([np.zeros(2)], "{unreduced}", (2,), UnsupportedError, "partial sums"),
        ([np.zeros(2)], "{{replicated}}", (2,), UnsupportedError, "each leaf: take one of its elements"),
        ([np.zeros(2)], "{devices=[2]<=[2]}", (2, 2), LayoutError, "cuts 1 dimension, the array has 2"),
        ([np.zeros(2)], "{replicated}", "(f32[2], f32[2])", UnsupportedError, "not the shape of one array"),
        ([bytes(8)], "{replicated}", (2,), DumpError, "need a shape with an element type"),
        (
            [bytes(8), bytes(7)],
            "{devices=[2]<=[2]}",
            "f32[4]",
            BufferSizeError,
            "shard of device 1: .* the buffer has 7",
        ),
        ("abc", "{replicated}", "f32[2]", TypeError, "not one str: put it in a list"),
        (bytes(8), "{replicated}", "f32[2]", TypeError, "not one bytes: put it in a list"),
        (Path("abc"), "{replicated}", "f32[2]", TypeError, "Path: put it in a list"),
    ],
)
def test_what_does_not_fit_is_refused(shards, sharding, shape, error, words):
    with pytest.raises(error, match=words):
        assemble(shards, sharding, shape).to_numpy()


def test_dtypes_and_outs_must_agree():
    whole = assemble([np.zeros(2, np.float64)], "{replicated}", "f32[2]{0}")
    with pytest.raises(DumpError, match="device 0 holds float64, not float32"):
        whole.to_numpy()
    with pytest.raises(ValueError, match="out must be an ndarray"):
        assemble([np.zeros(2)], "{replicated}", (2,)).to_numpy(out=np.zeros(3))
    with pytest.raises(ValueError, match="without a copy"):
        np.array(assemble([np.zeros(2)], "{replicated}", (2,)), copy=False)
    with pytest.raises(KeyError, match="no shard was given for device 5"):
        assemble([np.zeros(2)], "{replicated}", (2,)).shard(5)


@pytest.mark.parametrize("sharding", ["{devices=[2]<=[2]}", "{replicated}"])
def test_shards_of_several_dtypes_are_refused_where_no_shape_names_one(sharding: str) -> None:
    """They would be cast to the first one's without a word, and copies compared bit by bit."""
    size = 2 if "devices" in sharding else 1
    with pytest.raises(DumpError, match="the shard of device 1 holds float64, not int32"):
        assemble({0: np.array([1], "i4"), 1: np.array([2.9])}, sharding, (size,))
    with pytest.raises(DumpError, match=r"device 1 has the shape \(2,\)"):
        assemble({0: np.array([1], "i4"), 1: np.array([1, 2], "i4")}, sharding, (size,))


def test_an_element_is_found_in_whatever_tile_it_is() -> None:
    values = np.arange(12.0).reshape(3, 4)
    whole = assemble(shard(values, "{devices=[2,2]<=[4]}", padding=-1), "{devices=[2,2]<=[4]}", values.shape)
    assert all(value in whole for value in values.flat)
    assert -1 not in whole, "what a short shard holds besides is none"
    assert np.nan not in whole
    assert values[1] in whole
    assert "x" not in whole


def test_an_ndarray_of_all_can_be_written_to_only_where_it_is_a_copy_of_the_callers():
    whole = assemble([np.zeros(2), np.ones(2)], "{devices=[2]<=[2]}", (4,))
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(whole)[0] = 5
    for own in (np.array(whole), np.asarray(whole, np.float32), whole.to_numpy()):
        own[0] = 5
    assert whole.to_numpy().tolist() == [0, 0, 1, 1]


def test_short_shards_may_come_without_their_padding():
    whole = assemble([np.array([1, 2]), np.array([3])], "{devices=[2]<=[2]}", (3,))
    assert whole.to_numpy().tolist() == [1, 2, 3]


def test_short_shards_of_bytes_are_values_not_raw_buffers():
    shards = [np.array([1, 2], np.uint8), np.array([3], np.uint8)]
    for shape in ("u8[3]", "u8[3]{0}"):
        assert assemble(shards, "{devices=[2]<=[2]}", shape).to_numpy().tolist() == [1, 2, 3]


def test_raw_buffers_of_bytes_may_be_ndarrays_whatever_the_rank():
    values = np.arange(15, dtype=np.uint8).reshape(5, 3)
    raw = {k: one.buffer for k, one in shard(values, "{devices=[2,1]<=[2]}").items()}
    assert raw[0].ndim == 1
    np.testing.assert_array_equal(assemble(raw, "{devices=[2,1]<=[2]}", "u8[5,3]").to_numpy(), values)
    granule = np.arange(512, dtype=np.uint16).astype(np.uint8)  # a buffer may be rounded up
    assert assemble([granule], "{replicated}", "u8[7]")[3:].tolist() == [3, 4, 5, 6]


def test_numbers_of_devices_and_sizes_are_integers():
    with pytest.raises(DumpError, match=r"\{replicated\} has no device -1"):
        assemble({-1: np.zeros(3)}, "{replicated}", (3,))
    with pytest.raises(TypeError, match="the number of a device must be an integer, not str"):
        assemble({"0": np.zeros(3)}, "{replicated}", (3,))
    with pytest.raises(TypeError, match="the size of a dimension must be an integer, not float"):
        assemble([np.zeros(3)], "{replicated}", (3.5,))
    assert assemble({np.int64(0): np.float32(3)}, "{replicated}", ())[()] == 3


def test_shards_that_hold_copies_share_their_buffer():
    found = shard(np.arange(4), "{devices=[2,2]<=[4] last_tile_dim_replicate}")
    assert found[0] is found[1]
    assert found[0] is not found[2]
    assert isinstance(assemble(found, "{devices=[2,2]<=[4] last_tile_dim_replicate}", (4,)), ShardedArray)


def test_a_text_that_counts_the_copies_needs_no_other_number():
    text = "{devices=[1,3]<=[3] last_tile_dim_replicate}"
    found = shard(np.arange(6.0), text)
    assert list(found) == [0, 1, 2]
    assert found[2].to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert assemble(found, text, (6,)).to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(DumpError, match=r"\{replicated\} of 3 devices has no device 3"):
        assemble({3: np.arange(6.0)}, text, (6,))


def test_many_small_tiles():
    values = np.arange(math.prod((64, 64)), dtype=np.int16).reshape(64, 64)
    shards = shard(values, "{devices=[32,32]<=[1024]}", "{1,0:T(2,128)(2,1)}")
    assert len(shards) == 1024
    np.testing.assert_array_equal(assemble(shards, "{devices=[32,32]<=[1024]}", (64, 64)).to_numpy(), values)


# ---- JAX itself ----

_RUN_JAX = """
import json, os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = np.array(jax.devices())
found = []
for axes, spec, order in [
    ({"x": 2, "y": 4}, P("x", "y"), range(8)),
    ({"x": 2, "y": 4}, P("y", "x"), range(8)),
    ({"x": 2, "y": 4}, P("x", None), [3, 1, 2, 0, 7, 6, 5, 4]),
    ({"x": 2, "y": 4}, P(None, ("y", "x")), range(8)),
    ({"x": 8}, P(), range(8)),
]:
    mesh = Mesh(devices[list(order)].reshape(list(axes.values())), list(axes))
    array = jax.device_put(np.arange(128, dtype=np.float32).reshape(8, 16), NamedSharding(mesh, spec))
    text = str(array.sharding._to_xla_hlo_sharding(2))
    logical = {device.id: k for k, device in enumerate(mesh.devices.flat)}
    held = {logical[s.device.id]: s for s in array.addressable_shards}
    shards = {k: np.asarray(s.data).tolist() for k, s in held.items()}
    index = {k: [i.indices(n)[:2] for i, n in zip(s.index, array.shape)] for k, s in held.items()}
    found.append([text, shards, index])
json.dump(found, sys.stdout)
"""


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda array: pickle.loads(pickle.dumps(array))])
def test_a_copy_of_all_shares_nothing(copied: Callable[[ShardedArray], ShardedArray]) -> None:
    original = assemble([np.arange(2), np.arange(2, 4)], "{devices=[2]<=[2]}", (4,))
    np.asarray(original)  # which keeps the shards
    other = copied(original)
    original.shard(0)[0] = 9
    assert other[0] == 0
    other.shard(1)[1] = 7
    assert other[3] == 7
    assert original[3] == 3


@pytest.mark.jax
def test_shards_of_jax_arrays():
    pytest.importorskip("jax")
    done = subprocess.run([sys.executable, "-c", _RUN_JAX], capture_output=True, text=True, check=True, timeout=300)
    want = np.arange(128, dtype=np.float32).reshape(8, 16)
    found = json.loads(done.stdout)
    assert len(found) == 5
    for text, shards, index in found:
        slices = Sharding.parse(text).slices(want.shape, num_devices=8)
        assert {str(k): [[s.start, s.stop] for s in one] for k, one in enumerate(slices)} == index
        whole = assemble({int(k): np.array(one, np.float32) for k, one in shards.items()}, text, want.shape)
        np.testing.assert_array_equal(whole.to_numpy(), want)
        assert whole.compare_replicas().agree


@pytest.mark.parametrize(
    ("padding", "last"),
    [(None, 0), (3, 3), ("zero", 0), ("one", 1), ("lowest", -128), ("highest", 127), ("unknown", 0)],
)
def test_padding_of_short_shards_is_named_as_that_of_layouts(padding: Any, last: int) -> None:
    buffers = shard(np.arange(1, 6, dtype=np.int8), "{devices=[2]<=[2]}", padding=padding)
    assert buffers[1].tolist() == [4, 5, last]
