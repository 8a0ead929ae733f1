"""`strided convert`: what it writes, where, and what it leaves as it was."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.demo import SHAPE, expected, sample
from tests.commands import Run
from tests.zstd_writer import zstd_compressed


def test_convert_to_npy(run: Run, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    code, out, err = run("convert", dump, SHAPE, target)
    assert (code, err) == (0, "")
    assert f"strided.load_npy('{target}')" in out
    loaded = sd.load_npy(target)
    assert loaded.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(loaded, expected())
    np.testing.assert_array_equal(np.load(target).view(ml_dtypes.bfloat16), expected())
    assert run("show", target, "0, :2")[1].startswith("[1 0.539062]")


def test_convert_to_raw_bytes(run: Run, dump: Path, tmp_path: Path) -> None:
    there, back, plain = tmp_path / "there.bin", tmp_path / "back.bin", tmp_path / "plain.bin"
    assert run("convert", dump, SHAPE, there, "--to", "{0,1:T(8,128)(2,1)}")[0] == 0
    assert run("convert", there, "bf16[5,131]{0,1:T(8,128)(2,1)}", back, "--to", "{1,0:T(8,128)(2,1)}")[0] == 0
    assert run("convert", dump, SHAPE, plain)[0] == 0
    np.testing.assert_array_equal(sd.open(back, SHAPE), expected())
    np.testing.assert_array_equal(np.fromfile(plain, ml_dtypes.bfloat16).reshape(5, 131), expected())
    assert back.read_bytes() == sd.LayoutArray.from_numpy(expected(), "{1,0:T(8,128)(2,1)}").buffer.tobytes()


@pytest.mark.parametrize("text", ["f32[]", "f32[0,3]", "s4[3]{0:E(4)}", "pred[2,3]{0,1:T(4)}", "c64[2]{0:T(128)M(16)}"])
def test_convert_small_things(run: Run, tmp_path: Path, text: str) -> None:
    shape = sd.parse(text)
    values = np.arange(shape.size).reshape(shape.dimensions).astype(shape.dtype)
    source, target, raw = tmp_path / "x.bin", tmp_path / "x.npy", tmp_path / "y.bin"
    array = sd.LayoutArray.from_numpy(values, shape)
    prefix = shape.layout.dynamic_shape_metadata_prefix_bytes
    source.write_bytes(bytes(prefix) + array.buffer.tobytes())
    assert run("convert", source, text, target)[0] == 0
    loaded = sd.load_npy(target)
    assert loaded.dtype == shape.dtype
    np.testing.assert_array_equal(loaded, values)
    assert run("convert", source, text, raw, "--to", shape.layout)[0] == 0
    assert raw.read_bytes() == source.read_bytes()


def test_large_files_go_through_in_blocks(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strided.io.write_values.BLOCK_BYTES", 5000)
    values = np.random.default_rng(0).standard_normal((37, 3, 211)).astype(np.float32)
    source, target = tmp_path / "x.bin", tmp_path / "y.bin"
    sd.LayoutArray.from_numpy(values, "{2,0,1:T(8,128)}").buffer.tofile(source)
    for layout in ("{2,0,1:T(4,32)}", "{0,1,2:T(8,128)}", "{2,1,0}"):
        assert run("convert", source, "f32[37,3,211]{2,0,1:T(8,128)}", target, "--to", layout, "-f")[0] == 0
        assert target.read_bytes() == sd.LayoutArray.from_numpy(values, layout).buffer.tobytes()
    assert run("convert", source, "f32[37,3,211]{2,0,1:T(8,128)}", tmp_path / "y.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), values)


@pytest.mark.parametrize("how", ["itself", "symlink", "hard link", "another path"])
@pytest.mark.parametrize("options", [(), ("--force",), ("--force", "--to", "{0,1}")])
def test_a_source_is_never_its_own_target(
    run: Run, dump: Path, tmp_path: Path, how: str, options: tuple[str, ...]
) -> None:
    target = {"itself": dump, "another path": tmp_path / ".." / tmp_path.name / "dump.bin"}.get(how, tmp_path / "x.bin")
    if how == "symlink":
        target.symlink_to(dump)
    if how == "hard link":
        os.link(dump, target)
    code, out, err = run("convert", dump, SHAPE, target, *options)
    assert (code, out) == (2, "")
    assert "source and target are the same file" in err
    with pytest.raises(OSError, match="same file"):
        sd.convert_file(dump, SHAPE, target, layout="{1,0}")
    assert dump.read_bytes() == sample()


def test_what_is_there_stays_without_force(run: Run, dump: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npy"
    target.write_bytes(b"as it was")
    code, out, err = run("convert", dump, SHAPE, target)
    assert (code, out) == (2, "")
    assert err == f"strided: {target} already exists; --force overwrites it\n"
    with pytest.raises(FileExistsError, match=r"; overwrite=True replaces it: .*out\.npy"):
        sd.convert_file(dump, SHAPE, target, overwrite=False)
    assert target.read_bytes() == b"as it was"
    for force in ("--force", "-f"):
        assert run("convert", dump, SHAPE, target, force)[0] == 0
        np.testing.assert_array_equal(sd.load_npy(target), expected())
    sd.convert_file(dump, SHAPE, target)  # as numpy.save


@pytest.mark.parametrize("name", ["out.csv", "out.h5", "out.PT", "out.npy.gz", "a.txt"])
@pytest.mark.parametrize("options", [(), ("--to", "{0,1}")])
def test_endings_of_other_formats_are_not_written(
    run: Run, dump: Path, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    code, out, err = run("convert", dump, SHAPE, tmp_path / name, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "only .npy, .npz, .safetensors, .zarr and raw bytes" in err
    with pytest.raises(sd.UnsupportedError, match=r"only \.npy, \.npz, \.safetensors, .zarr and raw bytes"):
        sd.convert_file(dump, SHAPE, tmp_path / name, layout="{0,1}")
    assert [p.name for p in tmp_path.iterdir()] == ["dump.bin"]


def test_raw_bytes_go_to_names_that_say_so_or_with_a_layout(run: Run, dump: Path, tmp_path: Path) -> None:
    values = expected().tobytes()
    for name in ("a.bin", "a.raw", "a.dat", "a"):
        assert run("convert", dump, SHAPE, tmp_path / name)[0] == 0
        assert (tmp_path / name).read_bytes() == values
    code, _, err = run("convert", dump, SHAPE, tmp_path / "a.other")
    assert (code, "the ending does not say what to write" in err) == (2, True)
    code, _, err = run("convert", dump, SHAPE, tmp_path / "a.npy:name")
    assert (code, "a.npy holds one array, which has no name: leave ':name' out" in err) == (2, True)
    assert run("convert", dump, SHAPE, tmp_path / "a.other", "--to", "{1,0}")[0] == 0
    assert (tmp_path / "a.other").read_bytes() == values


def test_a_loop_of_links_is_an_error(run: Run, dump: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop.npy"
    loop.symlink_to(loop)
    for arguments in (("convert", dump, SHAPE, loop), ("convert", loop, SHAPE, tmp_path / "x.npy"), ("show", loop)):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(OSError, match="symbolic links"):
        sd.convert_file(dump, SHAPE, loop)
    with pytest.raises(OSError, match="symbolic links"):
        sd.save_npy(loop, expected())


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_links_and_permissions_stay(run: Run, dump: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.npy", tmp_path / "link.npy"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("convert", dump, SHAPE, link, "--force")[0] == 0
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(sd.load_npy(link), expected())


@pytest.mark.parametrize("compress", ["gzip", "zstd"])
def test_compressed_files(run: Run, dump: Path, compress: str) -> None:
    path = dump.with_suffix(".bin.x")
    if compress == "gzip":
        path.write_bytes(gzip.compress(dump.read_bytes()))
    else:
        path.write_bytes(zstd_compressed(dump.read_bytes()))
    assert run("show", path, SHAPE, "0, 1")[1] == "0.539062\n"
    assert run("convert", path, SHAPE, dump.parent / "y.npy")[0] == 0
    np.testing.assert_array_equal(sd.load_npy(dump.parent / "y.npy"), expected())


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors", "out.zarr"])
def test_convert_several_arrays(run: Run, dump: Path, container: Path, name: str) -> None:
    target = dump.parent / name
    code, out, err = run("convert", container, dump, SHAPE, f"{dump.parent}/w.npz:w", target)
    assert (code, err) == (0, "")
    assert "4 arrays" in out
    for key, values in {"layer/w": expected(), "b": np.arange(3), "dump": expected(), "w": expected()}.items():
        np.testing.assert_array_equal(sd.open(f"{target}:{key}").to_numpy().astype(np.float32), values)
    if name == "out.npz":
        with np.load(target) as library:
            np.testing.assert_array_equal(library["w"], expected().astype(np.float32))
    assert run("convert", dump, SHAPE, f"{target}:mine")[0] == 2
    assert run("convert", dump, SHAPE, f"{target}:mine", "--force")[0] == 0
    assert [found["name"] for found in json.loads(run("ls", target, "--json")[1])["arrays"]] == ["mine"]


def test_raw_bytes_of_a_layout_are_opened_again_by_name(run: Run, dump: Path) -> None:
    target = dump.parent / "x.safetensors"
    code, out, _ = run("convert", dump, SHAPE, target, "--to", "{0,1:T(8,128)(2,1)}")
    assert (code, "bf16[5,131]{0,1:T(8,128)(2,1)}" in out) == (0, True)
    array = sd.open(f"{target}:dump")
    assert array.layout == sd.parse("{0,1:T(8,128)(2,1)}")
    np.testing.assert_array_equal(array, expected())


@pytest.mark.parametrize(
    ("options", "dtype", "key"),
    [
        (("--dtype", "float32"), "float32", ...),
        (("--dtype", "torch.float32"), "float32", ...),
        (("--index", "1, ::-2"), "bfloat16", np.s_[1, ::-2]),
        (("--index", "[2, 0]", "--dtype", "f16"), "float16", [2, 0]),
        (("--index", "-1, 3", "--dtype", "bf16"), "bfloat16", (-1, 3)),
    ],
)
def test_convert_a_part_to_another_type(
    run: Run, dump: Path, options: tuple[str, ...], dtype: str, key: object
) -> None:
    for name in ("out.npy", "out.npz", "out.safetensors", "out.zarr", "out.bin"):
        target = dump.parent / name
        code, _, err = run("convert", dump, SHAPE, target, *options)
        assert (code, err) == (0, "")
        values = expected()[key].astype(dtype)
        if name == "out.bin":
            assert target.read_bytes() == values.tobytes()
        else:
            found = sd.open(target)
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)


def test_one_snapshot_without_a_name(run: Run, folder: Path) -> None:
    snapshot = folder / "module_0000.jit_f.snapshot.7.pb"
    code, _, err = run("show", snapshot)
    assert (code, "name one, as in" in err) == (2, True)
    assert run("convert", folder, folder.parent / "all.npz")[0] == 0
    assert sorted(np.load(folder.parent / "all.npz")) == ["jit_f/argument0", "jit_f/result0"]


def test_tokens_of_a_snapshot_are_left_out(run: Run, tmp_path: Path) -> None:
    """As of a program that calls the host in order: its first result is one."""
    snapshot, target = tmp_path / "x.snapshot.pb", tmp_path / "all.npz"
    sd.write_snapshot(snapshot, [np.ones(3, np.float32)], [None, np.arange(2), (np.arange(2),)])
    code, _, err = run("convert", f"{snapshot}:result0", target)
    assert (code, err) == (2, f"strided: {snapshot}:result0 is a token, which holds nothing, and no array\n")
    code, _, err = run("convert", snapshot, target)
    assert (code, err) == (2, f"strided: {snapshot}:result2 is a tuple of values, and no array\n")
    sd.write_snapshot(snapshot, [np.ones(3, np.float32)], [None, np.arange(2)])
    assert run("convert", snapshot, target)[0] == 0
    assert sorted(np.load(target)) == ["argument0", "result1"]


def test_the_array_that_a_layout_does_not_fit_is_named(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "model.safetensors", tmp_path / "tiled.safetensors"
    sd.save_safetensors(source, {"layer/w": np.ones((3, 5), "f4"), "layer/b": np.ones(5, "f4")})
    code, _, err = run("convert", source, target, "--to", "{1,0:T(8,128)}")
    assert (code, target.exists()) == (2, False)
    assert "'layer/b': the array has 1 dimension, but minor_to_major has 2" in err
    with pytest.raises(sd.LayoutError, match=r"^'b': .*; a layout fits arrays of one rank"):
        sd.save_safetensors(target, {"w": np.ones((3, 5)), "b": np.ones(5)}, "{1,0:T(8,128)}")
    assert run("convert", f"{source}:layer/w", target, "--to", "{1,0:T(8,128)}")[0] == 0
