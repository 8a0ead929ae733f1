"""The data of a module for a page, without a browser."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

import strided as sd
from strided.explorer.modules import module_data


@pytest.mark.parametrize("name", ["3", '"jit(f)/sin"'])
def test_an_op_name_may_be_a_number(name: str) -> None:
    """A text without quotes around it gives an integer, as for the other fields of metadata."""
    text = f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[2]{{0}} parameter(0), metadata={{op_name={name}}}\n}}\n"
    assert module_data(sd.read_hlo(text))


def test_frames_that_the_tables_lack_are_told_apart_by_their_lines() -> None:
    said = 'metadata={source_file="%s.py" source_line=1 stack_frame_id=3}'
    lines = [f"a = f32[2]{{0}} parameter(0), {said % 'a'}", f"ROOT b = f32[2]{{0}} parameter(1), {said % 'b'}"]
    data = module_data(sd.read_hlo("HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"))
    origins = json.loads(gzip.decompress(base64.b64decode(data["gzip"])))["origins"]
    assert origins == ["\na.py:1", "\nb.py:1"]
