"""`strided info`: layouts in words, as JSON and as pictures, elements and bytes, plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strided import cli
from tests.commands import TEXT, Run


def test_info_in_words(run: Run) -> None:
    code, out, err = run("info", "bf16[17,300]{1,0:T(8,128)(2,1)}")
    assert (code, err) == (0, "")
    for words in (
        "18,432 bytes",
        "10,200 of values",
        "44.7%",
        "3 x 3 of them",
        "24 x 384",
        "HBM (S(0))",
        " 1024 1026 ",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_info_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = run("info", "bf16[17,300]{1,0:T(8,128)(2,1)}")
    assert code == 0
    assert max(map(len, out.splitlines())) <= max(columns, 31)  # the shape's text itself is not cut


def test_info_as_json(run: Run) -> None:
    code, out, _ = run("info", "--json", "(bf16[17,300]{1,0:T(8,128)(2,1)}, f32[?], token[])")
    found = json.loads(out)
    assert (code, found["byte_size"]) == (0, None)  # one of them is not known
    first, unknown, token = found["elements"]
    assert (first["padding_bytes"], first["tiles"], first["strides"]) == (8232, [[8, 128], [2, 1]], None)
    assert (unknown["byte_size"], token["byte_size"]) == (None, 0)


def test_info_explains_an_element_and_a_byte(run: Run) -> None:
    assert "offset 17, bytes 68 to 71" in run("info", TEXT, "--at", "2,3")[1]
    assert run("info", TEXT, "--at", "[2, 3]") == run("info", TEXT, "--at", "2,3")
    assert "element [2, 3]" in run("info", TEXT, "--byte", "70")[1]
    assert "padding of dimension 1, which ends at 5" in run("info", TEXT, "--byte", "36")[1]


def test_all_elements_of_a_byte_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["info", "s4[3,5]{1,0:E(4)}", "--byte", "2"])
    out = capsys.readouterr().out
    assert [out.count(text) for text in ("[0, 4]", "[1, 0]", "bits 0 to 3", "bits 4 to 7")] == [1, 1, 1, 1]


def test_explanations_as_json(run: Run) -> None:
    found = json.loads(run("info", "bf16[17,300]{1,0:T(8,128)(2,1)}", "--at", "9,-100", "--json")[1])
    assert (found["shape"], found["index"]) == ("bf16[17,300]{1,0:T(8,128)(2,1)}", [9, 200])
    assert (found["offset"], found["byte"], found["bit"], found["bits"]) == (4241, 8482, 0, 16)
    assert found["offset"] == sum(part["value"] * part["stride"] for part in found["parts"])
    (padding,) = json.loads(run("info", TEXT, "--byte", "36", "--json")[1])
    assert (padding["index"], padding["padding_of"], padding["byte"]) == (None, 1, 36)
    packed = json.loads(run("info", "s4[3,5]{1,0:E(4)}", "--byte", "2", "--json")[1])
    assert [(slot["index"], slot["byte"], slot["bit"]) for slot in packed] == [([0, 4], 2, 0), ([1, 0], 2, 4)]
    for option in (("--plan", TEXT, "{0,1}"), (TEXT, "--svg", "x.svg")):
        assert "do not go together" in run("info", *option, "--json")[2]


def test_a_plan_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ("info", "--plan", "bf16[17,300]{1,0:T(8,128)(2,1)}", "{0,1}")
    monkeypatch.setenv("COLUMNS", "60")
    out = run(*plan)[1]
    assert max(map(len, out.splitlines())) <= 60
    monkeypatch.delenv("COLUMNS")
    assert run(*plan)[1].split() == out.split()


def test_negative_numbers_count_from_the_end(run: Run) -> None:
    assert run("info", TEXT, "--at", "-1,-2") == run("info", TEXT, "--at", "2,3")
    assert "out of bounds" in run("info", TEXT, "--at", "-4,0")[2]


def test_info_shows_a_plan(run: Run) -> None:
    code, out, _ = run("info", "--plan", "f32[512,512]{1,0:T(8,128)}", "{1,0}")
    assert code == 0
    assert "262,144 elements, 2,097,152 bytes moved" in out


def test_an_svg_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert run("info", TEXT, "--svg", path)[0] == 0
    assert path.read_text(encoding="utf-8").startswith("<svg ")
    assert "--force overwrites it" in run("info", TEXT, "--svg", path)[2]
    assert run("info", TEXT, "--svg", path, "--force")[0] == 0
    assert run("info", TEXT, "--svg", "-")[1].strip() == path.read_text(encoding="utf-8").strip()


def test_a_tuple_with_an_unknown_size_has_at_least_the_rest(run: Run) -> None:
    assert run("info", "(f32[?], f32[3])")[1].startswith("a tuple of 2: 2 arrays, at least 12 bytes\n")
    assert run("info", "(f32[2], f32[3])")[1].startswith("a tuple of 2: 2 arrays, 20 bytes\n")
