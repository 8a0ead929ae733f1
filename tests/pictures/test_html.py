"""Values in notebooks: whole HTML of bounded size, foreign text as text, pictures that do not depend on one another."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.pictures.html import Section, card, preformatted, table
from tests import hlo_samples, paths

HOSTILE = "<script>alert('x')</script>&\x1b[31m\u202e"
_VOID = {"br", "meta"}


class Reader(HTMLParser):
    """Collects tags and text; an end tag must close the last one that is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.identifiers: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.identifiers += [value for name, value in attrs if name == "id"]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return paths.unpack_dump(tmp_path_factory.mktemp("dump"))


def test_values_of_every_kind(dump: Path) -> None:
    opened = sd.open_dump(dump)
    program = opened.program("jit_prog_while_loop")
    array = sd.LayoutArray.from_numpy(np.arange(5100.0).reshape(17, 300), "{1,0:T(8,128)(2,1)}", element_type="bf16")
    sharded = sd.assemble({0: bytes(18432)}, "{devices=[2,1]<=[2]}", "bf16[34,300]{1,0:T(8,128)(2,1)}")
    cases: list[tuple[Any, list[str]]] = [
        (sharded, ["bfloat16[34, 300]", "{devices=[2,1]<=[2]}", "1 shard", "0:17, 0:300", "missing", "memory, and"]),
        (array, ["LayoutArray", "bf16[17,300]{1,0:T(8,128)(2,1)}", "44.7%", "memory, and the index"]),
        (array[3:5], ["view of bf16[17,300]"]),
        (sd.LayoutArray(bytes(4), "f32[]"), ["f32[]"]),
        (sd.LayoutArray(b"", "f32[0,3]{0,1:T(8,128)}"), ["f32[0,3]"]),
        (array.xla_shape, ["Shape", "17 x 300", "8,232"]),
        (sd.parse("f32[?,3]"), ["unknown"]),
        (sd.parse("token[]"), ["token[]"]),
        (sd.parse("(f32[3,5], (s4[17]{0:T(1024)(128)(8,1)E(4)}, pred[]))"), ["3 arrays", "s4[17]", "1,0", "512"]),
        (sd.parse("b(f32[4])"), ["BufferShape", "f32[4]"]),
        (sd.parse_layout("{1,0:T(8,128)(2,1)S(1)}"), ["(8,128) (2,1)", "S(1)", "an array in it: u8[9,129]"]),
        (opened, ["jit_prog_int4_uint4#0", "argument0", "s4[5,7]{1,0}", "missing: a snapshot"]),
        (program.module, ["HloModule", "jit_prog_while_loop", "largest values", "f32[6,6]{1,0}"]),
        (program.snapshots[0], ["HloSnapshot", "2 arguments", "2 results"]),
        (program.allocations, ["BufferAssignment", "allocations"]),
    ]
    for value, words in cases:
        shown = value._repr_html_()
        found = read(shown)
        for word in words:
            assert word in found.text, (type(value), word)
        assert found.identifiers == []  # a page may hold the same picture twice
        assert len(shown) < 40_000


def test_reports_fold_and_are_bounded() -> None:
    array = sd.LayoutArray.from_numpy(np.arange(5100.0).reshape(17, 300), "{1,0:T(8,128)(2,1)}", element_type="bf16")
    reports: list[tuple[Any, list[str]]] = [
        (sd.diff(array, np.zeros((17, 300))), ["Difference", "5,099 of 5,100", "byte of a", "map"]),
        (sd.inspect.padding(array), ["Padding", "8,232 of 18,432", "dimension 0, 17 to 23"]),
        (sd.inspect.identify(array.buffer, "bf16[17,300]"), ["Identification", "{1,0:T(8,128)(2,1)}", "continuity"]),
    ]
    for report, words in reports:
        shown = report._repr_html_()
        found = read(shown)
        for word in words:
            assert word in found.text, (type(report), word)
        assert "details" in found.tags
        assert found.identifiers == []
        assert len(shown) < 80_000


def test_many_rows_are_counted() -> None:
    shape = sd.TupleShape(tuple(sd.Shape("f32", (k,)) for k in range(3000)))
    shown = shape._repr_html_()
    assert "and 2,960 more" in shown
    assert len(shown) < 10_000
    lines = [f"  p{k} = f32[4] parameter({k})" for k in range(500)]
    module = sd.read_hlo(hlo_samples.module_text("\n".join([*lines, "  ROOT r = f32[4] negate(p0)"])).encode())
    shown = module._repr_html_()
    assert "more" in shown
    assert len(shown) < 20_000


def test_foreign_text_is_text() -> None:
    shown = card(HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)], [Section(HOSTILE, table([HOSTILE], [[HOSTILE]]))])
    found = read(shown + preformatted(HOSTILE))
    assert "script" not in found.tags
    assert found.text.count("<script>alert('x')</script>&\\x1b[31m\\u202e") == 8


def test_nothing_draws_a_value_that_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    from strided.runtime import notebook

    monkeypatch.setattr(notebook, "RENDERERS", {})
    assert sd.parse("f32[3]")._repr_html_() is None
