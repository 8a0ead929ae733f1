"""`strided hlo`, and how all commands that read programs are told which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Run


def test_hlo(run: Run, folder: Path) -> None:
    file = folder / "module_0000.jit_f.before_optimizations.txt"
    code, out, err = run("hlo", file, "--opcode", "neg*")
    assert (code, err) == (0, "")
    assert "1 of 1 values" in out
    assert json.loads(run("hlo", file, "--json")[1])["values"][0] == {
        "name": "n", "opcode": "negate", "shape": "f32[3,5]{0,1}", "bytes": 60, "unpadded_bytes": 60
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Ran out of memory in memory space hbm. Used 18.81G of 15.48G hbm. Exceeded hbm capacity by 3.33G.\n",
        "BufferAssignment:\nallocation 0: size 12, thread-local:\n value: <0 a @0> (size=12,offset=0): f32[3]{0}\n",
    ],
    ids=["an error", "a buffer assignment"],
)
def test_what_is_about_memory_is_for_another_command(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "said.txt"
    path.write_text(text, encoding="utf-8")
    for command in ("hlo", "copies"):
        assert run(command, path) == (
            2, "", f"strided: {path} is about memory, and holds no HLO: 'strided memory' reads it\n"
        )  # fmt: skip
    path.write_text("nothing\n", encoding="utf-8")
    assert "no HLO computation in this text" in run("hlo", path)[2]


_FUSED = """HloModule jit_g

inside {
  q = f32[3,5]{1,0} parameter(0)
  ROOT m = f32[3,5]{1,0} negate(q)
}

ENTRY e {
  p = f32[3,5]{1,0} parameter(0)
  ROOT f = f32[3,5]{1,0} fusion(p), kind=kLoop, calls=inside
}
"""


def test_hlo_takes_folders_and_leaves_out_the_insides_of_fusions(run: Run, folder: Path) -> None:
    assert "jit_f: 1 computation," in run("hlo", folder)[1]
    (folder / "module_0001.jit_g.after_optimizations.txt").write_text(_FUSED, encoding="utf-8")
    assert run("hlo", folder)[1].splitlines() == [f"{folder}:jit_f", f"{folder}:jit_g"]
    assert json.loads(run("hlo", folder, "--json")[1]) == {"programs": [f"{folder}:jit_f", f"{folder}:jit_g"]}
    listed = [value["name"] for value in json.loads(run("hlo", f"{folder}:jit_g", "--json")[1])["values"]]
    assert sorted(listed) == ["f", "p"]
    listed = [value["name"] for value in json.loads(run("hlo", f"{folder}:jit_g", "--json", "--fused")[1])["values"]]
    assert sorted(listed) == ["f", "m", "p", "q"]
    assert "did you mean jit_f" in run("hlo", f"{folder}:jif_f")[2]
    found = json.loads(run("ls", folder, "--json")[1])
    assert [a["name"] for a in found["arrays"]] == ["jit_f/argument0", "jit_f/result0"]
    assert [p["name"] for p in found["programs"]] == ["jit_f#0", "jit_g#1"]


def test_a_program_of_a_folder_has_one_name(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "module_0001.jit_g.after_optimizations.txt").write_text(_FUSED, encoding="utf-8")
    page = tmp_path / "page.html"
    for label in ("jit_g", "jit_g#1"):
        name = f"{folder}:{label}"
        assert run("memory", name)[1].startswith("jit_g: ")
        assert run("copies", name)[1].startswith("jit_g: ")
        assert run("hlo", name)[1].startswith("jit_g: ")
        assert run("explore", name, "-o", page, "--force")[0] == 0
        assert "<h1>jit_g#1</h1>" in page.read_text(encoding="utf-8")
    for command in ("memory", "copies", "hlo"):
        assert run(command, f"{folder}:jif_g") == (
            2, "", f"strided: {folder}: no program is named 'jif_g'; did you mean jit_g?\n"
        )  # fmt: skip
    assert run("explore", f"{folder}:argument0", "-o", page, "--force")[0] == 0
    assert "<h1>f32[3,5]{0,1}</h1>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["hlo", "memory", "copies", "explore"])
def test_one_of_several_modules_is_read(run: Run, tmp_path: Path, command: str) -> None:
    path, more = tmp_path / "two.txt", ["-o", "-"] if command == "explore" else []
    path.write_text(
        "".join(f"HloModule {n}\n\nENTRY e {{\n  ROOT p = f32[9] parameter(0)\n}}\n\n" for n in ("one", "two")),
        encoding="utf-8",
    )
    assert run(command, path, *more)[0] == 2
    for number, name in enumerate(("one", "two")):
        code, out, err = run(command, path, "--module", number, *more)
        assert (code, err) == (0, "")
        assert name in out
        assert ("two", "one")[number] + ":" not in out


def test_a_long_result_is_cut(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "step.txt"
    shapes = ", ".join(f"f32[{k}]{{0}}" for k in range(1, 400))
    file.write_text(f"HloModule step\n\nENTRY e {{\n  ROOT p = ({shapes}) parameter(0)\n}}\n", encoding="utf-8")
    for command in ("hlo", "ls"):
        out = run(command, file)[1]
        assert "(f32[1]{0}, f32[2]{0}, " in out
        assert "f32[399]{0})" in out
        assert max(map(len, out.splitlines())) <= 80
    assert json.loads(run("hlo", file, "--json")[1])["result"].count("f32") == 399
