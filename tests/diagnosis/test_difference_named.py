"""`diff_arrays`, and `strided diff` of two files of arrays: which names both have, and which of these arrays differ."""

from __future__ import annotations

import copy
import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.diagnosis.difference import ArraysDifference, diff_arrays
from tests.commands import Run, run_command

OLD = {
    "layer0/w": np.random.default_rng(0).standard_normal((20, 300)).astype(np.float32),
    "layer0/b": np.arange(5, dtype=np.float16),
    "step": np.array(3, np.int32),
}


def changed(**values: Any) -> dict[str, Any]:
    return {name.replace("__", "/"): value for name, value in {**OLD, **values}.items()}


def tile_lost() -> np.ndarray[Any, Any]:
    w = OLD["layer0/w"].copy()
    w[8:16, 128:256] = 0
    return w


def test_equal_arrays_in_any_layout_and_order() -> None:
    new = {
        "step": sd.LayoutArray.from_numpy(OLD["step"]),
        "layer0/w": sd.LayoutArray.from_numpy(OLD["layer0/w"], "{0,1:T(8,128)}"),
        "layer0/b": OLD["layer0/b"].astype(np.float64),
    }
    found = diff_arrays(OLD, new)
    assert found.equal
    assert found.first is None
    assert [value.name for value in found.values] == list(OLD)
    assert str(found) == "a: a\nb: b\n0 of 3 arrays differ"
    assert repr(found) == "<ArraysDifference of a and b: 0 of 3 arrays differ>"


def test_differences_are_values() -> None:
    """They compare by what they say, hash, and survive copies and pickles."""
    found, again = (diff_arrays(OLD, changed(layer0__w=tile_lost())) for _ in range(2))
    for one, same, other in (
        (found, again, diff_arrays(OLD, OLD)),
        (found.first, again.first, found.values[1]),
        (found.values[0].difference, again.values[0].difference, found.values[1].difference),
    ):
        assert one == same == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))
        assert hash(one) == hash(same)
        assert one != other


def test_differences_of_nan_are_values() -> None:
    x = np.array([np.nan, 1, 2])
    found, again, other = (sd.diff(x, y) for y in (np.zeros(3), np.zeros(3), np.array([np.nan, 0, 0])))
    assert found == again == copy.deepcopy(found) == pickle.loads(pickle.dumps(found))
    assert hash(found) == hash(again)
    assert found.mismatches[0] == again.mismatches[0] != other.mismatches[0]


def test_what_differs_first_in_the_order_of_a_is_shown() -> None:
    names: list[str] = []
    found = diff_arrays(OLD, changed(layer0__w=tile_lost(), step=np.array(4)) | {"extra": 1}, progress=names.append)
    assert not found.equal
    assert names == list(OLD)
    assert [value.equal for value in found.values] == [False, True, False]
    assert found.only_in_a == ()
    assert found.only_in_b == ("extra",)
    assert found.first is found.values[0]
    assert found.first.difference is not None
    assert found.first.difference.count == 1024
    assert found.first.instruction == ""
    assert found.first.files == ()
    lines = str(found).splitlines()
    assert lines[2:7] == [
        "only in b: extra",
        "2 of 3 arrays differ",
        "  layer0/w: 1,024 of 6,000 elements differ",
        "  step: 1 of 1 element differs",
        "first to differ: layer0/w",
    ]
    assert "first to differ: layer0/w" in found._repr_html_()


def test_tolerances_and_limit_are_those_of_diff() -> None:
    new = changed(layer0__w=OLD["layer0/w"] + np.float32(1e-3))
    assert not diff_arrays(OLD, new).equal
    assert diff_arrays(OLD, new, atol=0.01).equal
    first = diff_arrays(OLD, new, limit=2).first
    assert first is not None
    assert first.difference is not None
    assert len(first.difference.mismatches) == 2
    nan = {"x": np.array([np.nan])}
    assert diff_arrays(nan, nan).equal
    assert not diff_arrays(nan, nan, equal_nan=False).equal


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        (np.zeros(3), np.zeros((3, 1), np.int8), "float64[3] in a, int8[3, 1] in b"),
        (np.zeros(3), sd.LayoutArray.from_numpy(np.zeros(2, "f4")), "float64[3] in a, f32[2]{0} in b"),
        (np.array(["a"]), np.array(["a"]), "<U1"),
        (np.zeros(2), None, "ndarray in a, NoneType in b"),
        ("adam", "sgd", "<U"),
        ([[1], [2, 3]], [[1], [2, 3]], "inhomogeneous"),
        (object(), object(), "object"),
    ],
)
def test_what_cannot_be_compared_is_named(x: Any, y: Any, problem: str) -> None:
    found = diff_arrays({"w": OLD["layer0/w"], "x": x}, {"w": OLD["layer0/w"], "x": y})
    assert not found.equal
    assert found.values[0].equal
    assert problem in found.values[1].problem
    assert found.first is found.values[1]
    assert f"  x: {found.values[1].problem}" in found.text(300)


def test_tuples_are_compared_part_by_part() -> None:
    found = diff_arrays({"x": (np.zeros(2), (np.ones(1), None))}, {"x": (np.zeros(2), (np.zeros(1), None))})
    assert [(value.name, value.equal) for value in found.values] == [("x[0]", True), ("x[1][0]", False)]
    found = diff_arrays({"x": (np.zeros(2),)}, {"x": (np.zeros(2), np.zeros(1))})
    assert [(value.name, value.problem) for value in found.values] == [("x[0]", ""), ("x[1]", "only in b")]


def test_numbers_and_lists_are_compared() -> None:
    assert diff_arrays({"step": 3, "beta": [0.9, 0.99]}, {"step": 3, "beta": [0.9, 0.99]}).equal
    found = diff_arrays({"step": 3, "beta": [0.9, 0.99]}, {"step": 4, "beta": [0.9, 0.999]})
    assert [(value.name, value.equal) for value in found.values] == [("step", False), ("beta", False)]


def test_mappings_in_mappings_are_compared_part_by_part() -> None:
    found = diff_arrays({"layer": {"w": np.zeros(2), "b": 1}}, {"layer": {"w": np.ones(2), "c": 1}})
    assert not found.equal
    assert [(value.name, value.problem) for value in found.values] == [
        ("layer/w", ""),
        ("layer/b", "only in a"),
        ("layer/c", "only in b"),
    ]
    assert diff_arrays({"layer": {"w": np.zeros(2)}}, {"layer": {"w": np.zeros(2)}}).equal


def test_what_a_library_cannot_make_an_array_of_is_named() -> None:
    class Tensor:
        shape = (2,)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("Got unsupported ScalarType BFloat16")

    found = diff_arrays({"x": Tensor(), "y": 1}, {"x": Tensor(), "y": 1})
    assert [value.equal for value in found.values] == [False, True]
    assert found.values[0].problem == "Got unsupported ScalarType BFloat16"


def test_nothing_in_common() -> None:
    found = diff_arrays({"x": 1}, {"y": 1})
    assert not found.equal
    assert str(found).endswith("only in a: x\nonly in b: y\nno name is in both")
    assert diff_arrays({}, {}).equal


def test_no_mapping() -> None:
    with pytest.raises(TypeError, match="b must be a mapping of names to arrays, not ndarray"):
        diff_arrays({}, np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rtol"):
        diff_arrays({}, {}, rtol=-1)
    with pytest.raises(ValueError, match="limit"):
        diff_arrays({}, {}, limit=-1)


def test_all_of_it_is_json() -> None:
    found = diff_arrays(OLD, changed(step=np.array(np.nan)) | {"extra": 1})
    assert isinstance(found, ArraysDifference)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read["first"] == "step"
    assert read["only_in_b"] == ["extra"]
    assert [value["equal"] for value in read["values"]] == [True, True, False]


# ---- files ----


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "300")
    return partial(run_command, capsys)


def written(folder: Path, name: str, arrays: dict[str, Any]) -> Path:
    path = folder / name
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        sd.save_safetensors(path, arrays, None)
    elif path.suffix == ".pb":
        sd.write_snapshot(path, list(arrays.values()), np.float32(0))
    else:
        from strided.io.convert_file import write_arrays

        write_arrays({name: np.asarray(array) for name, array in arrays.items()}, path, None, overwrite=True)
    return path


@pytest.mark.parametrize("first", ["a.npz", "a.safetensors", "a.zarr"])
@pytest.mark.parametrize("second", ["b.npz", "b.safetensors", "b.zarr"])
def test_files(run: Run, tmp_path: Path, first: str, second: str) -> None:
    a = written(tmp_path, first, OLD)
    assert run("diff", a, written(tmp_path, second, OLD))[0] == 0
    b = written(tmp_path, f"other{Path(second).suffix}", changed(layer0__w=tile_lost(), extra=np.zeros(3)))
    code, out, err = run("diff", a, b, "--top", "1")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[:2] == [f"a: {a}", f"b: {b}"]
    assert "only in b: extra" in lines
    assert "1 of 3 arrays differ" in lines
    assert "first to differ: layer0/w" in lines
    assert "1,024 of 6,000 elements differ, 17.1%" in lines
    code, out, _ = run("diff", a, b, "--json")
    assert code == 1
    assert json.loads(out)["first"] == "layer0/w"


def test_snapshots(run: Run, tmp_path: Path) -> None:
    a = written(tmp_path, "module_0000.f.snapshot.1.pb", OLD)
    b = written(tmp_path, "module_0000.f.snapshot.2.pb", changed(step=np.int32(5)))
    assert run("diff", a, a)[0] == 0
    code, out, _ = run("diff", a, b)
    assert code == 1
    assert "first to differ: argument2" in out


def test_types_that_numpy_cannot_say_and_types_that_xla_lacks(run: Run, tmp_path: Path) -> None:
    values = np.arange(6).astype(ml_dtypes.bfloat16)
    a = written(tmp_path, "a.safetensors", {"x": values, "y": values})
    b = written(tmp_path, "b.npz", {"x": values.astype(np.float32), "y": np.array(["text"] * 6)})
    code, out, _ = run("diff", a, b)
    assert code == 1
    assert "1 of 2 arrays differ" in out
    assert f"  y: {b}:y holds <U4, which XLA has no element type for" in out.splitlines()


def test_single_arrays_are_compared_whatever_their_names(run: Run, tmp_path: Path) -> None:
    a, b = written(tmp_path, "a.npz", {"x": np.arange(3)}), written(tmp_path, "b.safetensors", {"y": np.arange(3)})
    assert run("diff", a, b)[1].endswith("all 3 elements are equal\n")
    c = written(tmp_path, "c.npz", {"x": np.arange(3), "z": np.arange(2)})
    code, out, _ = run("diff", a, c)
    assert code == 1
    assert "only in b: z" in out
    assert run("diff", c, tmp_path / "missing.npz") == (2, "", f"strided: {tmp_path / 'missing.npz'}: No such file\n")
    np.save(tmp_path / "x.npy", np.arange(3))
    code, _, err = run("diff", tmp_path / "x.npy", c)
    assert code == 2
    assert "holds 2 arrays; name one" in err


def test_options_of_one_array(run: Run, tmp_path: Path) -> None:
    a = written(tmp_path, "a.npz", OLD)
    for option in (["--svg", tmp_path / "x.svg"], ["--offset", 4]):
        code, _, err = run("diff", a, a, *option)
        assert code == 2
        assert "draws one array: name it" in err or "--offset goes with" in err
