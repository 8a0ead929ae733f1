"""`strided memory`, and `strided.testing.assert_memory`."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strided as sd
from strided import cli
from tests.commands import Run, run_command
from tests.memory.samples import HLO, MATMUL, MATMUL_ERROR, MEMORY, text_of


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `strided memory`: exit code, standard output and error."""
    monkeypatch.setenv("COLUMNS", "80")

    return partial(run_command, capsys, "memory")


def test_one_program_in_several_files_is_one_report(run: Run) -> None:
    code, out, _ = run(*MATMUL)
    assert code == 0
    assert out.count(" in hbm") == 1
    assert "argument b" in out


def test_several_programs_are_several_reports(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.hlo.txt"
    other.write_text(HLO, encoding="utf-8")
    code, out, _ = run(MATMUL[0], other, "--json")
    assert code == 0
    assert [one["module"] for one in json.loads(out)] == ["jit_f", "f"]


def test_an_error_beside_its_dump_is_one_report(run: Run, tmp_path: Path) -> None:
    folder, error = tmp_path / "dump", tmp_path / "error.txt"
    folder.mkdir()
    for path, ending in zip(MATMUL, (".txt", "-buffer-assignment.txt", "-memory-usage-report.txt"), strict=True):
        (folder / f"module_0001.jit_f.after_optimizations{ending}").write_text(text_of(path), encoding="utf-8")
    error.write_text(MATMUL_ERROR, encoding="utf-8")
    for files in ((error, folder), (folder, error)):
        assert json.loads(run(*files, "--json")[1])["capacity"] == 102400
    error.write_text(MATMUL_ERROR.replace("jit_f", "jit_g"), encoding="utf-8")
    assert [each["module"] for each in json.loads(run(error, folder, "--json")[1])] == ["jit_g", "jit_f"]


def test_text_and_json_begin_with_the_same_buffer(run: Run, tmp_path: Path) -> None:
    """On TPU every scalar has padding, and is not what takes the memory."""
    path = tmp_path / "f.hlo.txt"
    path.write_text(
        """HloModule f, is_scheduled=true

ENTRY %main (n: s32[], x: f32[4096,1024]) -> f32[4096,1024] {
  %n = s32[]{:T(128)} parameter(0)
  %x = f32[4096,1024]{1,0:T(8,128)} parameter(1)
  %gone = f32[1024,1024]{1,0:T(8,128)} custom-call(), custom_call_target="gone"
  %small = f32[8,128]{1,0:T(8,128)} custom-call(%gone), custom_call_target="small"
  ROOT %y = f32[4096,1024]{1,0:T(8,128)} custom-call(%n, %x, %small), custom_call_target="y"
}
""",
        encoding="utf-8",
    )
    assert [b["name"] for b in json.loads(run(path, "--json")[1])["buffers"]] == ["x", "y", "small", "n", "gone"]
    found = re.findall(r"^    (?:argument|result|temporary) (\w+)", run(path)[1], re.MULTILINE)
    assert found == ["x", "y", "small", "n", "gone"]
    assert [b["name"] for b in json.loads(run(path, "--json", "--top", "1")[1])["buffers"]] == ["x"]


def test_a_buffer_that_expands_too_much_fails(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f.hlo.txt"
    path.write_text(HLO, encoding="utf-8")
    assert run(path, "--max-expansion", "65")[0] == 0
    code, _, err = run(path, "--max-expansion", "1.5")
    assert code == 1
    assert [line.split(": ")[3] for line in err.splitlines()] == ["x", "y"]


def test_a_limit_of_what_no_buffer_is_listed_for_is_no_limit_that_holds(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "error.txt"
    path.write_text(
        "Ran out of memory in memory space hbm. Used 15.79G of 8.00G hbm. Exceeded hbm capacity by 7.79G.\n",
        encoding="utf-8",
    )
    assert run(path)[0] == 0
    code, out, err = run(path, "--max-expansion", "1.5")
    assert code == 2
    assert "no buffers are listed, so nothing tells how much any expands" in err
    assert " in hbm" in out
    with pytest.raises(sd.DumpError, match="no buffers are listed"):
        sd.testing.assert_memory(path, max_expansion=1.5)
    sd.testing.assert_memory(path, max_bytes=1 << 40)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-1"])
def test_a_limit_that_is_no_limit_is_refused(number: str, run: Run) -> None:
    code, out, err = run(*MATMUL, f"--max-expansion={number}")
    assert (code, out) == (2, "")
    assert "the largest expansion of a buffer is a number from 0, not " in err
    with pytest.raises(ValueError, match="the largest expansion of a buffer is a number from 0"):
        sd.memory_report(HLO).expanded(float(number))
    with pytest.raises(ValueError, match="the largest expansion of a buffer is a number from 0"):
        sd.testing.assert_memory(HLO, max_expansion=float(number))
    if number != "inf":
        with pytest.raises(ValueError, match="max_bytes must be a number of at least 0"):
            sd.testing.assert_memory(HLO, max_bytes=float(number))  # type: ignore[arg-type]


@pytest.mark.parametrize("space", ["nowhere", "-1", "1.5", ""])
@pytest.mark.parametrize("command", ["hlo", "memory"])
def test_a_space_that_nobody_knows_is_refused(
    command: str, space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.hlo.txt"
    path.write_text(HLO, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main([command, str(path), f"--space={space}"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "a memory space is a number from 0 or one of 'hbm', 'default', 'vmem'" in err


@pytest.mark.parametrize("space", [1.5, True, None, b"hbm"])
def test_a_space_of_another_type_is_refused(space: Any) -> None:
    with pytest.raises(TypeError, match="a memory space is a number or a name, as 'hbm', not "):
        sd.memory_report(HLO, space=space)


def test_hlo_takes_names_of_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.hlo.txt"
    path.write_text(
        "HloModule f\n\nENTRY e {\n  x = f32[3]{0:S(1)} parameter(0)\n  ROOT y = f32[3]{0} copy(x)\n}\n",
        encoding="utf-8",
    )
    for space, name in {"vmem": "x", "VMEM": "x", "1": "x", "hbm": "y", "0": "y"}.items():
        with pytest.raises(SystemExit):
            cli.main(["hlo", str(path), "--space", space, "--json"])
        assert [value["name"] for value in json.loads(capsys.readouterr().out)["values"]] == [name]


def test_hlo_lists_of_a_tuple_the_parts_in_a_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.hlo.txt"
    path.write_text(
        "HloModule f\n\nENTRY e {\n  x = f32[3]{0:S(5)} parameter(0)\n"
        "  s = (f32[3]{0}, f32[3]{0:S(5)}, u32[]{:S(2)}) copy-start(x)\n  ROOT d = f32[3]{0} copy-done(s)\n}\n",
        encoding="utf-8",
    )
    for space, names in {"host": ["s{1}", "x"], "hbm": ["d", "s{0}"], "2": ["s{2}"]}.items():
        with pytest.raises(SystemExit):
            cli.main(["hlo", str(path), "--space", space, "--json"])
        assert [value["name"] for value in json.loads(capsys.readouterr().out)["values"]] == names


def test_small_buffers_may_expand() -> None:
    report = sd.memory_report(MATMUL[1])
    assert min(b.expansion for b in report.buffers if b.bytes == 512) > 1.5
    assert all(b.bytes > 512 for b in report.expanded(1.5))
    assert report.expanded(1.5)


def test_other_spaces_and_pictures(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(MEMORY / "hbm_tpu7x_temps.report.txt.gz", "--space", "vmem", "--top", 1)
    assert code == 0
    assert "33.07MiB in vmem" in out
    assert run(*MATMUL, "--svg", tmp_path / "out.svg")[0] == 0
    assert (tmp_path / "out.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "--force overwrites it" in run(*MATMUL, "--svg", tmp_path / "out.svg")[2]
    assert run(*MATMUL, "--svg", "-")[1].startswith("<svg")
    two = tmp_path / "two.svg"
    code, out, err = run(MATMUL[2], MEMORY / "hbm_tpu7x_temps.report.txt.gz", "--svg", two)
    assert (code, out, two.exists()) == (2, "", False)
    assert "--svg draws one program, and these are 2" in err


def test_an_assertion_names_buffer_source_and_cure() -> None:
    sd.testing.assert_memory(MATMUL[:2], max_bytes=192_000, max_expansion=11)
    with pytest.raises(AssertionError, match=r"peak is at most 192,000 bytes \(187.5KiB\), not 191,999"):
        sd.testing.assert_memory(MATMUL[:2], max_bytes=191_999)
    with pytest.raises(AssertionError, match=r"the peak is \d"):  # which the compiler's own trace tells
        sd.testing.assert_memory(MEMORY / "traced.hlo.pb", max_bytes=1, space=1)
    with pytest.raises(AssertionError, match=r"1 buffer expands more than 10 times\n"):
        sd.testing.assert_memory(MATMUL[:2], max_expansion=10)
    with pytest.raises(AssertionError, match=r"2 buffers expand more than 10 times\n.*\n  layout: .*in_shardings"):
        sd.testing.assert_memory(sd.read_hlo(HLO), max_expansion=10)
    with pytest.raises(ValueError, match="nothing to assert"):
        sd.testing.assert_memory(HLO)


def test_messages_are_a_source_of_assertions() -> None:
    with pytest.raises(AssertionError, match=r"at most 268,435,456"):
        sd.testing.assert_memory(text_of(MEMORY / "vmem_pallas_v5e.txt"), max_bytes=1 << 20, space="vmem")
