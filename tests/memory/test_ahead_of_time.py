"""Programs compiled by the TPU compiler, without a TPU. Slow, and only where jax and libtpu are installed."""

from __future__ import annotations

import pytest

import strided as sd
from strided.memory import ahead_of_time
from strided.memory.ahead_of_time import compile_hlo

compiler = pytest.mark.skipif(not ahead_of_time.compiler_is_installed(), reason="jax and libtpu are not installed")

PROGRAM = """HloModule f, frontend_attributes={arg_layout_modes="{0,1:T(8,128)}",out_layout_modes="default"}

ENTRY main {
  x = f32[300,200]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT y = f32[300,200]{1,0} negate(x)
}
"""


@compiler
@pytest.mark.slow
def test_text_is_compiled_in_the_layouts_and_for_the_devices_that_it_names():
    done = compile_hlo(PROGRAM, "v5e", timeout=60)
    (shape,) = sd.read_hlo(done.text).entry_layout.parameters
    assert str(shape) == "f32[150,200]{0,1:T(8,128)}"
    assert done.memory["argument_size_in_bytes"] == shape.byte_size


@compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "generation", "said"),
    [
        ("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] frobnicate(x) }", "v5e", "does not take this program"),
        ("ENTRY e { ROOT x = s2[5] parameter(0) }", "v5e", "crashed"),
        ("ENTRY e { ROOT x = f32[5] parameter(0) }", "v99", "does not take this program"),
    ],
)
def test_what_the_compiler_refuses_is_an_error(text, generation, said):
    with pytest.raises(sd.UnsupportedError, match=said):
        compile_hlo(text, generation, timeout=60)


@compiler
def test_the_compiler_is_stopped_in_time():
    with pytest.raises(sd.UnsupportedError, match="stopped after"):
        compile_hlo(PROGRAM, timeout=0.01)


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ahead_of_time, "compiler_is_installed", lambda: False)
    with pytest.raises(sd.UnsupportedError, match="pip install"):
        compile_hlo(PROGRAM)
