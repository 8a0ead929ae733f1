"""`strided show`: values, parts of them, their forms, summaries and histograms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.demo import SHAPE, expected
from strided.io.convert_file import write_arrays
from tests.commands import Run


def test_show(run: Run, dump: Path) -> None:
    code, out, err = run("show", dump, SHAPE)
    assert (code, err) == (0, "")
    assert out.startswith("[[1 0.539062 -0.416016")
    assert "shape (5, 131), bfloat16" in out
    assert "min -1  max 1  mean 0.029537  NaN 0  Inf 0" in out


@pytest.mark.parametrize(
    ("index", "first"),
    [
        ("3, 129", "-0.28125"),
        ("-1, :3", "[1 1 1]"),
        ("[0, 2], 1", "[0.539062 0.988281]"),
        ("[0, 2], [1]", "[0.539062 0.988281]"),
        ("0, [2, 1]", "[-0.416016 0.539062]"),
        ("[]", "[]"),
        ("..., None, 0", "[[1]"),
        ("0:0", "[]"),
    ],
)
def test_show_a_part(run: Run, dump: Path, index: str, first: str) -> None:
    code, out, err = run("show", dump, SHAPE, index)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == first


def test_a_list_as_an_index_selects_rows(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(12, dtype=np.int32).reshape(3, 4))
    assert run("show", path, "[1, 2]")[1].startswith("[[ 4  5  6  7]\n [ 8  9 10 11]]\n\nshape (2, 4), int32\n")
    assert run("show", path, "1, 2")[1] == "6\n"
    assert run("show", path, "[1, :2]")[1].startswith("[4 5]\n")


def test_of_a_huge_array_only_what_is_shown_is_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    write_arrays({"x": np.zeros(3, np.float32)}, path, None, overwrite=False)
    found = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    (path / "zarr.json").write_text(json.dumps(found | {"shape": [10**15]}), encoding="utf-8")
    code, out, err = run("show", path)
    assert (code, err) == (0, "")
    assert out.startswith("[0. 0. 0. ... 0. 0. 0.]\n")
    assert out.endswith("\n--stats reads all 1,000,000,000,000,000 values for minimum, maximum and mean\n")


def test_show_counts_what_is_not_finite(run: Run, tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf, -np.inf], [1, 2, np.nan]], np.float32)
    path = tmp_path / "x.bin"
    sd.LayoutArray.from_numpy(values, "{0,1:T(2,2)}").buffer.tofile(path)
    assert "min 1  max 2  mean 1.5  NaN 2  Inf 2" in run("show", path, "f32[2,3]{0,1:T(2,2)}")[1]


def test_show_behind_an_offset_and_with_the_old_bit_order(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"head" + bytes([0x12, 0x34]))
    assert run("show", path, "u4[4]{0:E(4)}", "--offset", 4)[1].startswith("[2 1 4 3]")
    assert run("show", path, "u4[4]{0:E(4)}", "--offset", 4, "--bitorder", "big")[1].startswith("[1 2 3 4]")


def test_show_an_array_of_a_dump(run: Run, folder: Path) -> None:
    code, out, err = run("show", f"{folder}:argument0", "1, 1:3")
    assert (code, err) == (0, "")
    assert out.startswith("[6. 7.]")
    code, out, err = run("show", f"{folder}:argument7")
    assert (code, out) == (2, "")
    assert "no array is named 'argument7'" in err


@pytest.mark.parametrize("name", ["w.npz", "w.npz:w", "c.npz:w", "w.safetensors:layer/w"])
def test_show_an_array_by_name(run: Run, container: Path, name: str) -> None:
    code, out, err = run("show", container.parent / name, "0, 1")
    assert (code, out, err) == (0, "0.539062\n" if "safe" in name else "0.5390625\n", "")


def test_a_program_holds_no_arrays(run: Run, folder: Path) -> None:
    code, out, err = run("show", folder / "module_0000.jit_f.before_optimizations.txt")
    assert (code, out, "'strided hlo' lists its values" in err) == (2, "", True)


def test_values_that_are_no_numbers_are_shown(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(["a", "b"]))
    code, out, err = run("show", tmp_path / "x.npy")
    assert (code, out, err) == (0, "['a' 'b']\n\nshape (2,), str32\n", "")
    assert json.loads(run("show", tmp_path / "x.npy", "--json")[1])["values"] == ["a", "b"]
    assert run("show", tmp_path / "x.npy", "--csv")[1] == "a\nb\n"
    assert run("show", tmp_path / "x.npy", "--stats")[0] == 2


def test_forms_of_values(run: Run, dump: Path) -> None:
    assert run("show", dump, SHAPE, "0, :3", "--hex")[1] == "[3f80 3f0a bed5]\n"
    assert run("show", dump, SHAPE, "0, 0", "--hex")[1] == "3f80\n"
    rows = run("show", dump, SHAPE, "--csv")[1].splitlines()
    np.testing.assert_array_equal([[float(x) for x in row.split(",")] for row in rows], expected().astype(float))
    found = json.loads(run("show", dump, SHAPE, "--json")[1])
    assert (found["shape"], found["dtype"]) == ([5, 131], "bfloat16")
    np.testing.assert_array_equal(found["values"], expected().astype(float))
    assert run("show", dump, SHAPE, "--stats")[1] == "min -1  max 1  mean 0.029537  NaN 0  Inf 0\n"
    assert json.loads(run("show", dump, SHAPE, "--stats", "--json")[1])["max"] == 1
    for options in (("--csv", "--hex"), ("--csv", "--json"), ("--histogram", "--stats"), ("--stats", "--csv")):
        code, out, err = run("show", dump, SHAPE, *options)
        assert (code, out, "give one" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array([1, "NaT"], "m8[s]"), ["1 seconds", "NaT"]),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), ["2020-01-01", "NaT"]),
        (np.array([0.1, np.inf], np.longdouble), [0.1, "inf"]),
        (np.array([1 + 2j], np.clongdouble), [[1, 2]]),
    ],
    ids=str,
)
def test_values_that_json_lacks_are_texts(values: np.ndarray, shown: list[object], run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values)
    code, out, err = run("show", tmp_path / "x.npy", "--json")
    assert (code, err, json.loads(out)["values"]) == (0, "", shown)


def test_a_summary_of_long_doubles_is_json(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0.25, 2], np.longdouble))
    found = json.loads(run("show", tmp_path / "x.npy", "--stats", "--json")[1])
    assert (found["min"], found["max"], found["mean"]) == (0.25, 2, 1.125)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long double is no wider than double here")
def test_long_doubles_beyond_doubles_are_texts(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([np.longdouble("1e4000")]))
    assert json.loads(run("show", tmp_path / "x.npy", "--json")[1])["values"] == ["1e+4000"]
    assert json.loads(run("show", tmp_path / "x.npy", "--stats", "--json")[1])["max"] == "1e+4000"


def test_a_histogram_counts_every_finite_value(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[np.nan, np.inf, 0.5], [1, 2, 2]], np.float32))
    code, out, _ = run("show", tmp_path / "x.npy", "--histogram")
    counts = [int(line.split()[2]) for line in out.splitlines()[1:17]]
    assert (code, sum(counts), counts[0], counts[-1]) == (0, 4, 1, 2)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("values", "bins"),
    [
        (np.array([2**64 - 1, 2**64 - 3, 2**64 - 3], np.uint64), {2**64 - 3: 2, 2**64 - 2: 0, 2**64 - 1: 1}),
        (np.array([-(2**63), 2**63 - 1]), {-(2.0**63): 1}),
        (np.array([-1.7e308, 1.7e308]), {-1.7e308: 1}),
        (np.array([0.5, 0.5], np.float16), {0.5: 2}),
        (np.array([True, False, True]), {0: 1, 1: 2}),
        (np.array([0, 2, 255], np.uint8).view(np.bool_), {0: 1, 1: 2}),
        (np.array([-1, 1, 1]).astype(ml_dtypes.int4), {-1: 1, 0: 0, 1: 2}),
    ],
    ids=range(7),
)
def test_histograms_of_extremes(values: np.ndarray, bins: dict[float, int], run: Run, tmp_path: Path) -> None:
    sd.save_npy(tmp_path / "x.npy", values)
    code, out, err = run("show", tmp_path / "x.npy", "--histogram")
    rows = [line.split() for line in out.splitlines()[1:] if line and not line.startswith("min")]
    assert (code, err) == (0, "")
    assert sum(int(row[2]) for row in rows) == values.size
    bars = json.loads(run("show", tmp_path / "x.npy", "--histogram", "--json")[1])["histogram"]
    assert [bar["count"] for bar in bars] == [int(row[2]) for row in rows]
    assert [bar["from"] for bar in bars] == pytest.approx([float(row[0]) for row in rows], rel=1e-5)
    for value, row in zip(bins, rows, strict=False):
        assert (float(row[0]), int(row[2])) == (pytest.approx(value), bins[value])


def test_a_histogram_in_json_has_the_summary_too(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values := np.array([[np.nan, np.inf, 0.5], [1, 2, 2]], np.float32))
    code, out, err = run("show", tmp_path / "x.npy", "--histogram", "--json")
    found = json.loads(out)
    bars = found.pop("histogram")
    assert (code, err, found) == (0, "", json.loads(run("show", tmp_path / "x.npy", "--stats", "--json")[1]))
    counts, edges = np.histogram(values[np.isfinite(values)], 16)
    np.testing.assert_array_equal([bar["count"] for bar in bars], counts)
    np.testing.assert_array_equal([bars[0]["from"], *(bar["to"] for bar in bars)], edges)


def test_a_histogram_of_long_doubles_is_json(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0.25, 2.25], np.longdouble))
    bars = json.loads(run("show", tmp_path / "x.npy", "--histogram", "--json")[1])["histogram"]
    assert (len(bars), bars[0]) == (16, {"from": 0.25, "to": 0.375, "count": 1})


@pytest.mark.parametrize(("values", "said"), [([], "no elements"), ([np.nan, np.inf], "no finite value")])
def test_a_histogram_of_nothing_says_so(values: list[float], said: str, run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(values, np.float32))
    code, out, err = run("show", tmp_path / "x.npy", "--histogram")
    assert (code, err) == (0, "")
    assert out.startswith(f"{said}: there is nothing to draw\n\n")
    assert json.loads(run("show", tmp_path / "x.npy", "--histogram", "--json")[1])["histogram"] == []


def test_excess_bytes_are_taken_on_demand(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(np.arange(9000, dtype=np.int32).tobytes())
    code, _, err = run("show", path, "s32[3]")
    assert (
        code,
        "too many for padding" in err,
        "give --offset if the array lies inside a larger buffer, or --allow-excess" in err,
    ) == (2, True, True)
    assert run("show", path, "s32[3]", "--allow-excess")[1].startswith("[0 1 2]")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert run("show", path, "s32[3]", "--allow-excess")[1].startswith("[0 1 2]")
    assert run("convert", path, "s32[3]", tmp_path / "y.bin", "--allow-excess")[0] == 0
