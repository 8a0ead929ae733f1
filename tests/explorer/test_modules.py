"""The data of a module for a page, without a browser."""

from __future__ import annotations

import pytest

import strided as sd
from strided.explorer.modules import module_data


@pytest.mark.parametrize("name", ["3", '"jit(f)/sin"'])
def test_an_op_name_may_be_a_number(name: str) -> None:
    """A text without quotes around it gives an integer, as for the other fields of metadata."""
    text = f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[2]{{0}} parameter(0), metadata={{op_name={name}}}\n}}\n"
    assert module_data(sd.read_hlo(text))
