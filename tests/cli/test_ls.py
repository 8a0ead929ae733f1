"""`strided ls`: dump folders, their files, and files that hold arrays by name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands import Run


def test_ls(run: Run, folder: Path) -> None:
    code, out, err = run("ls", folder)
    assert (code, err) == (0, "")
    assert "1 program, 2 files" in out
    assert "argument0: f32[3,5]{0,1}" in out


def test_one_file_of_a_dump(run: Run, folder: Path) -> None:
    snapshot = folder / "module_0000.jit_f.snapshot.7.pb"
    code, out, err = run("ls", snapshot)
    assert (code, err) == (0, "")
    assert "argument0: f32[3,5]{0,1}" in out
    assert "jit_f" in run("ls", folder / "module_0000.jit_f.before_optimizations.txt")[1]
    code, out, err = run("show", f"{snapshot}:result0", "1, 1:3")
    assert (code, err) == (0, "")
    assert out.startswith("[6. 7.]")
    code, out, err = run("show", f"{snapshot}:result3")
    assert (code, out) == (2, "")
    assert err == f"strided: {snapshot}: no array is named 'result3'; did you mean result0?\n"
    code, out, err = run("ls", snapshot, "--kind", "allocations")
    assert (code, out) == (2, "")
    assert err.startswith("strided: ")


def test_ls_names_what_show_takes(run: Run, container: Path) -> None:
    code, out, err = run("ls", container)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()[-2:]) == ["  b: s64[3]{0}", "  layer/w: bf16[5,131]{1,0}"]
    assert "2 arrays" in out.replace("\n   ", "")
    found = {a["name"]: a["shape"] for a in json.loads(run("ls", container, "--json")[1])["arrays"]}
    assert found == {"layer/w": "bf16[5,131]{1,0}", "b": "s64[3]{0}"}
    for name in found:
        assert run("show", f"{container}:{name}", "...")[0] == 0
    assert run("show", f"{container}:b")[1].startswith("[0 1 2]")
    assert "w: f32[5,131]{1,0}" in run("ls", container.parent / "w.npz")[1]


def test_json_says_what_a_file_without_arrays_is_about(run: Run, folder: Path) -> None:
    module = folder / "module_0000.jit_f.before_optimizations.txt"
    assert json.loads(run("ls", module, "--json")[1]) == {
        "path": str(module),
        "arrays": [],
        "module": "jit_f",
        "entry": "e",
        "parameters": [{"name": "p", "shape": "f32[3,5]{0,1}"}],
        "results": [{"name": "n", "shape": "f32[3,5]{0,1}"}],
        "opcodes": {"parameter": 1, "negate": 1},
    }
    assignment = folder / "module_0000.jit_f.after_optimizations-buffer-assignment.txt"
    value = "f32[3,5]{1,0:T(4,128)}"
    assignment.write_text(
        "BufferAssignment:\nallocation 0: size 2048, parameter 0, shape |f32[3,5]| at ShapeIndex {}:\n"
        f" value: <7 p @0> (size=2048,offset=0): {value}\n",
        encoding="utf-8",
    )
    (found,) = json.loads(run("ls", assignment, "--json")[1])["allocations"]
    assert found.pop("values") == [{"name": "p", "offset": 0, "bytes": 2048, "shape": value}]
    assert found == {"index": 0, "bytes": 2048, "memory_space": 0, "parameter": 0}
    for name in (assignment, f"{assignment}:p"):
        code, out, err = run("show", name)
        assert (code, out) == (2, "")
        assert "says where values lie, and holds no arrays" in err
