"""What others wrote is shown with escapes: nothing that a terminal obeys comes out of a name, a file or an argument."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided import inspect
from strided.dumps.buffer_assignment.values import Allocation, Value
from strided.dumps.protobuf import wire
from strided.errors import DumpError, LayoutError, NotationError, StridedError, excerpt
from strided.escape import in_columns, visible
from strided.explorer.page import _as_json
from strided.layout.validation import FieldError
from tests.commands import run_command
from tests.hlo_samples import proto_of

#: What a terminal, a page or a reader may stumble over: escape, bell, C1, bidi, line end, zero width, lone surrogate.
HOSTILE = "a\x1b[31mb\x07\x9bc\u202ed\u2066e\nf\u200bg\r\x7f\udcffh"
SHOWN = r"a\x1b[31mb\x07\x9bc\u202ed\u2066e\nf\u200bg\r\x7f\udcffh"
#: The same for texts whose lines end at a line end.
ONE_LINE = HOSTILE.replace("\n", "").replace("\r", "").replace("\udcff", "")


def is_fit(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@given(st.text() | st.text(st.sampled_from("a\x1b\u202e\u200b\n\t\u0301\u4e00\u05d0 ")))
def test_nothing_but_what_prints_is_left(text):
    assert visible(text).isprintable()
    assert is_fit(visible(text, keep="\n"))
    assert in_columns(text).isprintable()
    assert len(visible(text, 10).encode("unicode_escape")) <= 10 * 12
    if text.isprintable():
        assert visible(text) == text


def test_how_it_is_shown():
    assert visible(HOSTILE) == SHOWN
    assert visible("été \u4e2d\u6587 e\u0301") == "été \u4e2d\u6587 e\u0301"
    assert in_columns("é\u4e2de\u0301\u05d0") == r"é\u4e2de\u0301\u05d0"
    assert visible("x" * 100, 20) == "x" * 13 + " ... " + "x" * 6


@pytest.mark.parametrize(
    "before", ["", "plain", HOSTILE, "\U0001f600" * 3, "e\u0301" * 4, "\u05d0\u05d1", "\t", "x" * 500]
)
def test_the_caret_stands_under_the_right_place(before):
    """Also where the text holds what takes no column, or two, or turns the direction."""
    text = before + "?rest"
    message = "wrong" + excerpt(text, text.index("?"))
    assert is_fit(message)
    line, caret = message.split("\n")[-2:]
    assert line[caret.index("^")] == "?"


def test_errors_and_warnings_are_fit_to_be_shown():
    for error in (
        StridedError(HOSTILE),
        LayoutError(HOSTILE),
        DumpError(HOSTILE, path=HOSTILE, line=1),
        NotationError(HOSTILE, text=HOSTILE, position=3),
        FieldError("tiles", HOSTILE),
        sd.DumpWarning(HOSTILE),
    ):
        assert is_fit(str(error)), type(error)
        assert r"\x1b[31m" in str(error)
        assert "\x1b" in str(error.args[0]), "the error itself keeps what it was given"


def test_long_messages_show_the_start_and_the_end():
    message = str(DumpError("begins" + "x" * 10**6 + "ends"))
    assert len(message) < 2100
    assert message.startswith("begins")
    assert message.endswith("ends")
    tuple_of_many = sd.parse("(" + "f32[]," * 10_000 + "f32[])")
    with pytest.raises(sd.UnsupportedError, match="is a tuple: every element has a buffer of its own") as caught:
        sd.LayoutArray(b"", tuple_of_many)
    assert len(str(caught.value)) < 2100


def test_errors_survive_pickling_as_they_are():
    error = pickle.loads(pickle.dumps(FieldError("tiles", HOSTILE)))
    assert error.args == (HOSTILE,)


# ---- modules ----


def hostile_text() -> str:
    name = "n" + "".join(c for c in ONE_LINE if c.isalnum() or ord(c) > 0x7E or ord(c) < 0x20)
    return (
        f"HloModule m{name}\n\nENTRY e{name} {{\n  p{name} = f32[2]{{0}} parameter(0)\n"
        f'  ROOT r = f32[2]{{0}} add(p{name}, p{name}), metadata={{op_name="{ONE_LINE}" source_file="{ONE_LINE}"}}\n'
        f"  no {ONE_LINE} statement\n}}\n"
    )


def hostile_proto() -> bytes:
    # A later occurrence of the module's name holds; names of as many bytes leave the lengths as they are.
    name = wire.bytes_field(1, HOSTILE.encode("utf-8", "surrogatepass"))
    return proto_of("every_opcode").replace(b"add", b"a\x1bd") + name


@pytest.mark.parametrize("source", [hostile_text(), hostile_proto()], ids=["text", "proto"])
def test_modules(source):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = sd.read_hlo(source)
    assert "\x1b" in module.name
    assert "\x1b" in module.to_text(), "the text is data and stays"
    shown = [str(module), repr(module), *map(str, caught and [one.message for one in caught])]
    shown += [f(one) for one in (*module.computations, *module.instructions) for f in (str, repr)]
    shown += [str(one) for one in module.unread]
    shown += [str(frame) for one in module.instructions for frame in one.stack]
    assert any(r"\x1b" in text for text in shown)
    assert all(is_fit(text) for text in shown)
    for ask in (module.instruction, module.computation):
        with pytest.raises(DumpError, match=r"holds no (instruction|computation)") as refused:
            ask(HOSTILE)
        assert is_fit(str(refused.value))


def test_tabs_and_line_ends_of_a_text_stay():
    module = sd.read_hlo("HloModule m\nENTRY e {\n  ROOT a = f32[2]{0}\n\tparameter(0)\n}\n")
    assert str(module.entry.root) == "ROOT a = f32[2]{0}\n\tparameter(0)"


def test_allocations():
    value = Value(1, HOSTILE, (0,), 0, 4, shape_text=HOSTILE)
    allocation = Allocation(0, 4, (value,), parameter_number=1, parameter_shape=HOSTILE, others=(HOSTILE,))
    for text in (str(value), value.problem, allocation.describe()):
        assert visible(text) == text
        assert r"\x1b" in text
    assert is_fit(str(allocation))


def test_memory_reports():
    name = "a\x1b7b\x07\x9bc\u202ed\u200bg\x7f\udcffh<i>"
    report = sd.memory_report(
        f"HloModule {name}, is_scheduled=true\n\nENTRY e {{\n  p = f32[3000,5]{{1,0:T(8,128)}} parameter(0)\n"
        f'  ROOT q = f32[3000,5]{{1,0:T(8,128)}} copy(p), metadata={{op_name="{name}" source_file="{name}"}}\n}}\n'
    )
    assert report.module == name
    assert is_fit(str(report))
    for drawn in (report.svg(), report._repr_html_()):
        assert visible(drawn, keep="\n") == drawn
        assert r"a\x1b7b" in drawn
    ElementTree.fromstring(report.svg())


def test_shardings():
    sharding = sd.Sharding.parse(f"{{mesh['a\x1b'=2,'{ONE_LINE}'=4], replicated}}")
    assert is_fit(str(sharding))
    assert is_fit(repr(sharding))
    with pytest.raises(NotationError, match="the mesh has no axis") as refused:
        sd.Sharding.parse(f"{{mesh['a'=2], [{{'{HOSTILE}'}}]}}")
    assert is_fit(str(refused.value))


# ---- folders and the command line ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    name = HOSTILE.replace("/", "")
    (tmp_path / f"module_0001.{name}.before_optimizations.txt").write_text(
        hostile_text().replace("\x07", ""), encoding="utf-8"
    )
    (tmp_path / f"module_0001.{name}.snapshot.3.pb").write_bytes(b"broken")
    (tmp_path / f"note{name}").write_text(hostile_text().replace("\x07", ""), encoding="utf-8")
    (tmp_path / f"broken{name}.gz").write_bytes(b"\x1f\x8bbroken")
    return tmp_path


def test_folders(folder):
    dump = sd.open_dump(folder)
    shown = [str(dump), repr(dump), *map(str, dump.programs), *map(repr, dump.programs), *map(str, dump.others)]
    shown += [str(file) for program in dump.programs for file in program.files]
    assert all(is_fit(text) for text in shown)
    assert SHOWN in str(dump)
    for ask in (lambda: dump["no" + HOSTILE], lambda: dump.program("no" + HOSTILE)):
        with pytest.raises((KeyError, DumpError), match=r"no (array|program) is named") as refused:
            ask()
        assert is_fit(str(refused.value))


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def command(*arguments: object) -> str:
        """All that a command prints, on both streams."""
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            _, *printed = run_command(capsys, *arguments)
        return "".join(printed)

    return command


def test_commands(run, folder):
    texts = [run("ls", folder)]
    for path in folder.iterdir():
        texts += [run("ls", path), run("hlo", path), run("show", path, HOSTILE), run("show", f"{path}:{HOSTILE}")]
    texts += [run("hlo", folder / HOSTILE), run("show", f"{folder}:{HOSTILE}"), run("info", HOSTILE), run(HOSTILE)]
    texts += [
        run("info", "f32[2]", "--at", HOSTILE),
        run("info", "f32[" + HOSTILE),
        run("show", folder / "x", "-9" + HOSTILE),
    ]
    texts += [run("convert", folder / HOSTILE, "f32[2]", folder / "out.npy"), run("ls", folder, "--kind", HOSTILE)]
    assert [text for text in texts if not is_fit(text)] == []
    assert sum(SHOWN in text or r"\x1b" in text for text in texts) > 10


def test_a_line_end_in_a_name_begins_no_line(run, tmp_path):
    folder = tmp_path / "a\nb"
    folder.mkdir()
    for number in range(2):
        module = f"HloModule m{number}\n\nENTRY e {{\n  ROOT p = f32[3]{{0}} parameter(0)\n}}\n"
        (folder / f"module_000{number}.m\n{number}.before_optimizations.txt").write_text(module, encoding="utf-8")
    np.savez(folder / "x.npz", x=np.arange(3))
    listed = run("hlo", folder).splitlines()
    assert [line.endswith(rf"a\nb:m\n{number}") for number, line in enumerate(listed)] == [True, True]
    *head, array = run("ls", folder / "x.npz").splitlines()
    assert (r"a\nb/x.npz: 1 array" in " ".join(map(str.strip, head)), array) == (True, "  x: s64[3]{0}")


def test_the_caret_on_the_command_line(run):
    for before in ("", HOSTILE, "\U0001f600" * 40, "x" * 300):
        shown, caret = run("info", f"(f32[2], /*{before}*/ ?f32[2])").rstrip("\n").split("\n")
        assert len(shown) <= 80
        assert shown[caret.index("^")] == "?"


def test_pages(tmp_path):
    path = tmp_path / f"<i>{HOSTILE}".replace("\n", "")
    path.write_bytes(bytes(8))
    page = sd.open(path, "f32[2]")._repr_html_()
    assert is_fit(page)
    assert "<i>" not in page
    assert r"\x1b" in page
    assert is_fit(inspect.svg("f32[2,3]"))


def test_npy_files_are_named_fit(tmp_path):
    path = tmp_path / HOSTILE
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"\\x1b") as refused:
        sd.load_npy(path)
    assert is_fit(str(refused.value))
    np.savez(path.with_suffix(".npz"), a=np.zeros(2))
    with pytest.raises(ValueError, match="archive") as refused:
        sd.load_npy(path.with_suffix(".npz"))
    assert is_fit(str(refused.value))


def test_pages_escape_characters_beyond_16_bits_too():
    """JSON writes them as two halves, of which neither tells whether the whole prints."""
    data = {"a\u202e": "\U000e0041 \U0001d173 \ud800 \U0001f600 \u00e9 \\ud83d \\"}
    read = json.loads(_as_json(data))
    assert read == {r"a\u202e": r"\U000e0041 \U0001d173 \ud800 " + "\U0001f600 \u00e9 \\ud83d \\"}
