"""Reports from buffer assignments: names, live ranges, and what is held in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import strided as sd
from tests.memory.samples import MATMUL, MEMORY


def test_a_module_names_what_an_assignment_does_not() -> None:
    report = sd.memory_report(MATMUL[:2])
    by_name = {b.name: b for b in report.buffers}
    assert by_name["b.0"].kind == "argument"
    assert by_name["b.0"].source.argument == "b"
    assert str(by_name["custom-call.4"].source) == "jit(f)/dot_general at progs.py:226"
    assert all(b.live is not None for b in report.buffers)


def test_the_compilers_own_trace_tells_live_ranges() -> None:
    assignment = sd.memory_report(MEMORY / "traced.hlo.pb", space=1)
    assert assignment.schedule == ("copy-start",)
    assert "heap simulator" in " ".join(assignment.notes)
    assert not assignment.bounds
    main = sd.memory_report(MEMORY / "traced.hlo.pb")
    assert (main.total_bytes, "order of the instructions" in " ".join(main.notes)) == (147_552, True)


def test_a_donated_argument_keeps_its_name() -> None:
    text = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[8,2]| at ShapeIndex {}, maybe-live-out:
 value: <3 x.1 @0> (size=4096,offset=0): f32[8,2]{1,0:T(8,128)}
 value: <4 add @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
"""
    [buffer] = sd.memory_report(text).buffers
    assert (buffer.name, buffer.source.argument, str(buffer.shape)) == ("x.1", "x", "f32[8,128]{1,0:T(8,128)}")


def test_padding_at_the_peak_is_that_of_the_value_held_then() -> None:
    wide, thin = "f32[8,128]{1,0:T(8,128)}", "f32[16,1]{1,0:T(8,128)}"
    module = f"""HloModule m, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {{
  %x = {wide} parameter(0)
  %early = {thin} custom-call(%x), custom_call_target="a"
  %after = {wide} custom-call(%early), custom_call_target="b"
  %late = f32[8,127]{{1,0:T(8,128)}} custom-call(%after), custom_call_target="c"
  %other = f32[16,128]{{1,0:T(8,128)}} custom-call(%after, %late), custom_call_target="d"
  ROOT %y = {wide} custom-call(%after, %late, %other), custom_call_target="e"
}}
"""
    assignment = f"""BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[8,128]| at ShapeIndex {{}}:
 value: <1 x @0> (size=4096,offset=0): {wide}
allocation 1: size 4096, output shape is |f32[8,128]|, maybe-live-out:
 value: <2 y @0> (size=4096,offset=0): {wide}
allocation 2: size 20480, preallocated-temp:
 value: <3 early @0> (size=8192,offset=0): {thin}
 value: <4 after @0> (size=4096,offset=8192): {wide}
 value: <5 late @0> (size=4096,offset=0): f32[8,127]{{1,0:T(8,128)}}
 value: <6 other @0> (size=8192,offset=12288): f32[16,128]{{1,0:T(8,128)}}
"""
    report = sd.memory_report([module, assignment])
    [slot] = [b for b in report.buffers if b.name == "late"]  # not `early`, which has the slot before
    assert (report.peak_at, slot.bytes, slot.unpadded_bytes) == ("other", 4096, 8 * 127 * 4)
    assert slot.wasted_bytes == report.padding_bytes == 8 * 4
    assert str(report).count("\u2591") <= 2  # the bar is nearly all data
    assert sum(b.bytes for b in report.buffers if b.is_at_peak) == report.peak_bytes
    assert [report.schedule[place] for place in slot.live or ()] == ["late", "y"]
    # What `early` could do without saves nothing while `late` is there.
    assert all(cure.before == slot.shape and cure.saved_bytes < slot.bytes for cure in slot.cures)


def test_a_buffer_that_is_not_in_use_at_the_peak_is_its_largest_value() -> None:
    small, large = "f32[8,128]{1,0:T(8,128)}", "f32[64,128]{1,0:T(8,128)}"
    module = f"""HloModule m, is_scheduled=true

ENTRY %main (x: f32[8,128]) -> f32[8,128] {{
  %x = {small} parameter(0)
  %a = {small} negate(%x)
  %b = f32[16,128]{{1,0:T(8,128)}} custom-call(%a), custom_call_target="b"
  %c = {small} custom-call(%b), custom_call_target="c"
  %d = {large} custom-call(%c), custom_call_target="d"
  ROOT %y = {small} custom-call(%d), custom_call_target="y"
}}
"""
    assignment = f"""BufferAssignment:
allocation 0: size 45056, preallocated-temp:
 value: <1 a @0> (size=4096,offset=0): {small}
 value: <2 b @0> (size=8192,offset=4096): f32[16,128]{{1,0:T(8,128)}}
 value: <3 c @0> (size=4096,offset=0): {small}
 value: <4 d @0> (size=32768,offset=12288): {large}
"""
    by_name = {b.name: b for b in sd.memory_report([module, assignment]).buffers}
    assert by_name.keys() == {"b", "c", "d"}
    assert (by_name["b"].is_at_peak, by_name["c"].is_at_peak) == (False, True)
    assert by_name["c"].live == (3, 4)  # not from `a` on, which is gone before


THREAD_LOCAL = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}:
 value: <1 p @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
allocation 1: size 8192, thread-local:
 value: <2 x @0> (size=8192,offset=0): f32[16,1]{1,0:T(8,128)}
allocation 2: size 4096, maybe-live-out:
 value: <3 r @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
"""


@pytest.mark.parametrize("is_timed", [False, True], ids=["alone", "with the module"])
def test_what_is_thread_local_is_in_the_total_but_not_held(is_timed: bool) -> None:
    module = """HloModule m, is_scheduled=true

ENTRY %main (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %r = f32[8,128]{1,0:T(8,128)} negate(%p)
}
"""
    report = sd.memory_report([THREAD_LOCAL, module] if is_timed else THREAD_LOCAL)
    assert (report.total_bytes, report.peak_bytes, report.padding_bytes) == (16384, 8192, 0)
    assert {b.name: (b.is_at_peak, b.wasted_bytes) for b in report.buffers} == {
        "p": (True, 0),
        "x": (False, 0),
        "r": (True, 0),
    }
    assert any(note.startswith("8,192 bytes of the total are thread-local") for note in report.notes)


@pytest.mark.jax
def test_a_program_that_jax_compiled_is_counted_by_the_assignment_that_xla_made() -> None:
    jax = pytest.importorskip("jax")

    def program(x: Any, y: Any) -> Any:
        return jax.numpy.tanh(x @ y) @ y.T, jax.numpy.sort(x)

    compiled = jax.jit(program).lower(np.ones((512, 300), np.float32), np.ones((300, 700), np.float32)).compile()
    report = sd.memory_report(compiled)
    assert report.total_bytes == sum(one.size for one in sd.read_allocations(compiled))
    # The text alone does not say that the second of two temporaries takes the place of the first.
    assert sd.memory_report(compiled.as_text()).peak_bytes > report.total_bytes
    assert {one.name for one in report.buffers} >= {"x.1", "y.1"}


TUPLE = """BufferAssignment:
allocation 0: size {0}, output shape is |(f32[3], f32[5])|, maybe-live-out:
 value: <1 t{{}} @0> (size={0},offset=0): (f32[3]{{0{1}}}, f32[5]{{0{1}}})
"""


@pytest.mark.parametrize(
    ("size", "tiles", "padding"), [(16, "", 0), (32, "", 24), (16, ":T(128)", 8), (32, ":T(128)", 24)]
)
def test_pointers_of_other_devices_are_no_padding(size: int, tiles: str, padding: int) -> None:
    (buffer,) = sd.memory_report(TUPLE.format(size, tiles)).buffers
    assert buffer.padding_bytes == padding
