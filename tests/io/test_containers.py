"""Arrays by name in .npz and .safetensors files, and how they are opened without a shape."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.io.containers import open_container, split_name
from strided.io.convert_file import write_arrays
from strided.io.npy import npy_header
from strided.io.npz import read_npz
from strided.layout.element_types import element_type

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def files(folder: Path) -> None:
    np.save(folder / "x.npy", VALUES.T)  # in Fortran order
    untyped = {"b": np.arange(3).astype(ml_dtypes.bfloat16), "e": VALUES.astype(ml_dtypes.float8_e5m2fnuz)}
    np.savez(folder / "x.npz", a=VALUES, **untyped, c=np.array(["text"]), v=np.zeros(2, "V3"))
    np.savez_compressed(folder / "c.npz", a=VALUES)
    sd.save_safetensors(folder / "x.safetensors", {"a": VALUES, "a:b/c": VALUES[0]})
    sd.save_safetensors(folder / "one.safetensors", {"a": VALUES})
    (folder / "raw.bin").write_bytes(VALUES.tobytes())
    (folder / "x.gz").write_bytes(gzip.compress(VALUES.tobytes()))


@pytest.mark.parametrize("mapped", [True, False])
def test_open_without_a_shape(tmp_path: Path, mapped: bool) -> None:
    files(tmp_path)
    np.testing.assert_array_equal(sd.open(tmp_path / "x.npy", mapped=mapped), VALUES.T)
    assert sd.open(tmp_path / "x.npy", mapped=mapped).layout == sd.parse("{0,1}")
    for text in ("x.npz:a", "x.safetensors:a", "one.safetensors", "one.safetensors:a"):
        np.testing.assert_array_equal(sd.open(f"{tmp_path}/{text}", mapped=mapped), VALUES)
    np.testing.assert_array_equal(sd.open(f"{tmp_path}/x.safetensors:a:b/c", mapped=mapped), VALUES[0])


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("raw.bin", sd.UnsupportedError, "give the shape"),
        ("raw.bin:a", sd.UnsupportedError, "holds no arrays by name"),
        ("x.gz", sd.UnsupportedError, "is gzip data"),
        ("c.npz", sd.UnsupportedError, "compressed"),
        ("x.npz:c", sd.UnsupportedError, "no element type"),
        ("x.npz:b", sd.UnsupportedError, r"does not say of which type: give its shape, as in bf16\[3\]"),
        ("x.npz:e", sd.UnsupportedError, r"1-byte elements and does not say of which type: .* as in f8e4m3fn\[2, 3\]"),
        ("x.npz:v", sd.UnsupportedError, r"holds \|V3, which XLA has no element type for"),
        ("x.npz:d", sd.StridedError, "no array is named 'd'; there are a, b, e, c, v"),
        ("x.safetensors", sd.StridedError, "holds 2 arrays; name one, as in .*x.safetensors:a "),
        ("x.safetensors:a:b/d", sd.StridedError, "did you mean a:b/c"),
        ("none.safetensors", FileNotFoundError, "No such file"),
        (".", IsADirectoryError, "a folder, where a file is expected"),
    ],
)
def test_what_cannot_be_opened_without_a_shape(tmp_path: Path, name: str, error: type[Exception], words: str) -> None:
    files(tmp_path)
    with pytest.raises(error, match=words):
        sd.open(f"{tmp_path}/{name}")


def test_arguments_that_go_together(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(TypeError, match="path comes first"):
        sd.open("f32[2,3]", str(tmp_path / "raw.bin"))
    with pytest.raises(TypeError, match="offset"):
        sd.open(tmp_path / "raw.bin", offset=4)
    with pytest.raises(sd.UnsupportedError, match="cannot be mapped writable"):
        sd.open(f"{tmp_path}/x.npz:a", mode="r+")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"NUMPY", b"NUMPX"),
        lambda content: content.replace(b"(2, 3)", b"(2, 4)", 1).replace(b"<f4", b"<f9"),
        lambda content: content[:-22] + b"PK\x05\x06" + b"\xff" * 18,
    ],
    ids=["half", "magic", "header", "directory"],
)
def test_broken_archives_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    np.savez(tmp_path / "x.npz", a=VALUES)
    broken = damage((tmp_path / "x.npz").read_bytes())
    with pytest.raises(sd.DumpError, match=r"^x\.npz: a damaged or encrypted archive: "):
        read_npz(io.BytesIO(broken), "x.npz")


def test_two_members_of_one_name_are_refused() -> None:
    file = io.BytesIO()
    np.savez(file, a=VALUES)
    with zipfile.ZipFile(file) as archive:
        member = archive.read("a.npy")
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("b.npy", member)
    file = io.BytesIO(file.getvalue().replace(b"b.npy", b"a.npy"))
    with pytest.raises(sd.DumpError, match="two arrays are called 'a'"):
        read_npz(file)


def test_compressed_members_are_read_no_further_than_their_header_says(tmp_path: Path) -> None:
    member = io.BytesIO()
    np.save(member, VALUES)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", member.getvalue() + bytes(1 << 20))
    with (tmp_path / "x.npz").open("rb") as file:
        container = open_container(file, "x.npz")
        assert container is not None
        with container, pytest.raises(sd.BufferSizeError, match="was not read"):
            container["a"]


def test_compressed_members_are_unpacked_into_one_file(tmp_path: Path) -> None:
    arrays = {f"a{k}": np.arange(k, k + 3) for k in range(4)}
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    with (tmp_path / "x.npz").open("rb") as file:
        container = open_container(file, "x.npz")
        assert container is not None
        with container:
            opened = {name: container[name] for name in arrays}
            for name, values in arrays.items():
                np.testing.assert_array_equal(opened[name].to_numpy(), values)


def test_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    Path("a:b").touch()
    assert [split_name(text) for text in ("a", "a:b", "a:b:c:d", "a:c", "a:")] == [
        ("a", None), ("a:b", None), ("a:b", "c:d"), ("a", "c"), ("a", "")
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError, match="b:a"):
        split_name("b:a")


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_names_that_are_no_text_are_refused(ending: str, tmp_path: Path) -> None:
    with pytest.raises(sd.UnsupportedError, match=r"'caf.udce9' is no text, as names in a"):
        write_arrays({"caf\udce9": np.zeros(3)}, tmp_path / f"x.{ending}", None, overwrite=False)
    assert not list(tmp_path.iterdir())


def test_npz_members_may_have_types_that_the_file_does_not_name(tmp_path: Path) -> None:
    files(tmp_path)
    with (tmp_path / "x.npz").open("rb") as file:
        container = open_container(file, "x.npz")
        assert container is not None
        with container:
            array = container.open("b", sd.parse_shape("bf16[3]"))
            assert array.to_numpy().astype(int).tolist() == [0, 1, 2]
            assert str(container.shape("a")) == "f32[2,3]{1,0}"
            assert "does not say of which type" in str(container.shape("b"))


def test_a_type_of_another_size_is_answered_with_one_that_fits(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(sd.LayoutError, match=r"holds 1-byte elements, \(2, 3\), not bf16.*as in f8e4m3fn\[2, 3\]$"):
        sd.open(tmp_path / "x.npz:e", "bf16[2,3]")


@pytest.mark.parametrize("mapped", [True, False])
def test_a_shape_says_the_type_that_an_archive_lacks(tmp_path: Path, mapped: bool) -> None:
    files(tmp_path)
    array = sd.open(f"{tmp_path}/x.npz:b", "bf16[3]", mapped=mapped)
    assert (str(array.xla_shape), array.tolist()) == ("bf16[3]{0}", [0, 1, 2])
    assert sd.open(f"{tmp_path}/x.npz:a", "f32[2,3]", mapped=mapped).tolist() == VALUES.tolist()
    assert sd.open(f"{tmp_path}/x.safetensors:a", "f32[2,3]{1,0}", mapped=mapped).tolist() == VALUES.tolist()


def test_a_name_with_a_shape_that_it_does_not_have(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(sd.LayoutError, match=r"x.npz:a holds f32\[2,3\]\{1,0\}, not f32\[3,2\]"):
        sd.open(tmp_path / "x.npz:a", "f32[3,2]")
    with pytest.raises(TypeError, match=r"x.npz:b says where it lies"):
        sd.open(tmp_path / "x.npz:b", "bf16[3]", offset=2)
    with pytest.raises(sd.UnsupportedError, match="holds no arrays by name"):
        sd.open(tmp_path / "raw.bin:b", "bf16[3]")
    with pytest.raises(FileNotFoundError, match=r"none\.bin:b"):
        sd.open(tmp_path / "none.bin:b", "bf16[3]")
    write_arrays({"a": VALUES}, tmp_path / "x.zarr", None, overwrite=False, grouped=True)
    for name in ("x.zarr:a", "x.zarr"):
        with pytest.raises(sd.UnsupportedError, match=r"x\.zarr is a folder, whose arrays say their shapes"):
            sd.open(tmp_path / name, "f32[2,3]")
    (tmp_path / "x.npz:b").write_bytes(bytes(6))  # the name of a file as a whole comes first
    assert sd.open(tmp_path / "x.npz:b", "bf16[3]").tolist() == [0, 0, 0]


def test_a_member_without_a_name_is_called_as_its_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{"": VALUES})
    with open(tmp_path / "x.npz", "rb") as file:
        assert list(read_npz(file)) == [".npy"]
    for name in ("x.npz", "x.npz:.npy"):
        np.testing.assert_array_equal(sd.open(tmp_path / name), VALUES)


def test_names_of_members_are_shown_with_escapes(tmp_path: Path) -> None:
    hostile, shown = "a\x1b[31m\nb\u202e", r"a\x1b[31m\nb\u202e"
    np.savez(tmp_path / "x.npz", **{hostile: VALUES, "c": VALUES})
    for name in ("", ":" + hostile[:-2], ":zzz"):
        with pytest.raises(sd.StridedError, match=r"x\.npz") as found:
            sd.open(f"{tmp_path}/x.npz{name}")
        assert str(found.value).isprintable()
        assert shown in str(found.value)


def test_names_that_are_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sd.UnsupportedError, match="1 is no text"):
        sd.save_safetensors(tmp_path / "x.safetensors", {1: VALUES})  # type: ignore[dict-item]
    assert not list(tmp_path.iterdir())


def test_a_name_that_an_archive_would_cut_is_refused(tmp_path: Path) -> None:
    """Two such names may be one when they are cut: then nothing of the archive can be read."""
    with pytest.raises(sd.UnsupportedError, match=r"no array in a \.npz file can be called 'a\\x00b'"):
        write_arrays({"a\0b": VALUES, "a\0c": VALUES}, tmp_path / "x.npz", None, overwrite=False)
    assert not list(tmp_path.iterdir())


def test_a_member_with_a_damaged_header_leaves_the_others_readable(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3, dtype=np.int32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b.npy", npy_header(element_type("f32"), (1,)).replace(b"<f4", b"<W4") + bytes(4))
    assert sd.open(f"{path}:a").tolist() == [0, 1, 2]
    with pytest.raises(sd.DumpError, match=r"x\.npz:b: a damaged \.npy header"):
        sd.open(f"{path}:b")
    with path.open("rb") as file, open_container(file, str(path)) as container:
        assert container.shape("a") == sd.parse_shape("s32[3]{0}")
        assert str(container.shape("b")).startswith("unreadable: ")
        depths = []
        for _ in range(2):
            with pytest.raises(sd.DumpError, match="damaged") as caught:
                container["b"]
            depths.append(len(caught.traceback))
        assert depths[0] == depths[1]


def test_a_member_that_ends_before_its_values_do(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy_header(element_type("u8"), (200,)) + bytes(10))
        archive.writestr("b.npy", npy_header(element_type("u8"), (40,)) + b"SECRET__" * 5)
    with pytest.raises(sd.DumpError, match=r"x.npz:a: a damaged .npy file: an array of shape \(200,\) in 10 bytes"):
        sd.open(f"{path}:a")
    assert sd.open(f"{path}:b").tobytes() == b"SECRET__" * 5
    with path.open("rb") as file, open_container(file, str(path)) as container:
        assert "damaged" in str(container.shape("a"))
        assert container.shape("b") == sd.parse_shape("u8[40]{0}")
