"""Computations that others call: what each call takes, and calls without end."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

import strided as sd
from strided.memory.liveness import Liveness
from tests.steps import check_linear

CALLED = """HloModule m, is_scheduled=true

%f (p: f32[1024]) -> f32[1024] {{
  %p = f32[1024]{{0}} parameter(0)
  {body}
}}

ENTRY %main (a: f32[1024], b: f32[1024], w: pred[]) -> f32[1024] {{
  %a = f32[1024]{{0}} parameter(0)
  %b = f32[1024]{{0}} parameter(1)
  %w = pred[] parameter(2)
  {calls}
}}
"""

SORT, NOTHING = "ROOT %q = f32[1024]{0} sort(%p), dimensions={0}", "ROOT %q = f32[1024]{0} bitcast(%p)"

LARGE = """%t = f32[10240]{0} custom-call(%p), custom_call_target="x"
  ROOT %q = f32[1024]{0} custom-call(%t), custom_call_target="y\""""

TWICE = """%c = f32[1024]{0} call(%a), to_apply=%f
  %d = f32[1024]{0} call(%b), to_apply=%f
  ROOT %g = (f32[1024]{0}, f32[1024]{0}) tuple(%c, %d)"""

BESIDE = """%c = f32[1024]{0} call(%a), to_apply=%f
  %big = f32[10240]{0} custom-call(%a), custom_call_target="x"
  %d = f32[1024]{0} call(%b), to_apply=%f
  ROOT %g = f32[1024]{0} custom-call(%c, %d, %big), custom_call_target="z\""""

EITHER = "ROOT %g = f32[1024]{0} conditional(%w, %a, %b), true_computation=%f, false_computation=%f"


@pytest.mark.parametrize(
    ("body", "calls", "peak"),
    [
        (SORT, TWICE, 4 * 4096 + 1),
        (NOTHING, TWICE, 2 * 4096 + 1),
        (SORT, EITHER, 3 * 4096 + 1),
        # Two arguments, the first result, what lies beside the second call, and what that takes meanwhile.
        (LARGE, BESIDE, 3 * 4096 + 2 * 40960 + 4096 + 1),
    ],
    ids=["twice", "nothing twice", "either", "beside"],
)
def test_a_computation_counts_anew_each_time_it_is_called(body: str, calls: str, peak: int) -> None:
    text = CALLED.format(body=body, calls=calls)
    assert sd.memory_report(text).peak_bytes == peak
    # As with a copy for each call, which the compiler makes.
    first, rest = text.split("ENTRY")
    head, one = first.split("\n\n", 1)
    other = one
    for name in "fpqt":
        other = re.sub(rf"%{name}\b", f"%{name}.1", other)
    place = rest.rindex("%f")
    copied = f"{head}\n\n{one}{other}ENTRY{rest[:place]}%f.1{rest[place + 2 :]}"
    assert sd.memory_report(copied).peak_bytes == peak


@pytest.mark.parametrize("depth", [17, 40])
@pytest.mark.slow
def test_calls_without_end_are_refused(depth: int) -> None:
    """A module of two kilobytes may call for 400,000 instructions, or for any number."""
    computation = "%f{n} (p: f32[8]) -> f32[8] {{\n  %p{n} = f32[8]{{0}} parameter(0)\n{calls}}}\n\n"
    call = "  {root}%{name}{n} = f32[8]{{0}} call(%{of}{n}), to_apply=%f{next}\n"
    text = "HloModule m, is_scheduled=true\n\n"
    text += computation.format(n=0, calls="  ROOT %c0 = f32[8]{0} negate(%p0)\n")
    for n in range(1, depth):
        two = call.format(root="", name="b", n=n, of="p", next=n - 1)
        two += call.format(root="ROOT ", name="c", n=n, of="b", next=n - 1)
        text += computation.format(n=n, calls=two)
    entry = "ENTRY %e (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n"
    text += entry + f"  ROOT %r = f32[8]{{0}} call(%a), to_apply=%f{depth - 1}\n}}\n"
    with pytest.raises(sd.UnsupportedError, match="calls again and again"):
        sd.memory_report(text)
    # What calls itself is called once.
    itself = "HloModule m, is_scheduled=true\n\n" + computation.format(
        n=0, calls=call.format(root="ROOT ", name="c", n=0, of="p", next=0)
    )
    itself += entry + "  ROOT %r = f32[8]{0} call(%a), to_apply=%f0\n}\n"
    assert sd.memory_report(itself).peak_bytes >= 32


def test_what_a_call_without_operands_gives_is_one_value() -> None:
    text = """HloModule m, is_scheduled=true

%f () -> f32[1024] {
  ROOT %c = f32[1024]{0} custom-call(), custom_call_target="make"
}

ENTRY %main () -> f32[1024] {
  ROOT %r = f32[1024]{0} call(), to_apply=%f
}
"""
    assert [b.bytes for b in sd.memory_report(text).buffers] == [4096]


def parts_taken_one_by_one(count: int) -> str:
    """A module that takes apart a tuple of many arrays."""
    array = "f32[8]{0}"
    entry = "ENTRY %main (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n"
    made = f'  %t = ({", ".join([array] * count)}) custom-call(%a), custom_call_target="f"\n'
    taken = (f"  %g{n} = {array} get-tuple-element(%t), index={n}\n" for n in range(count))
    return f"HloModule m, is_scheduled=true\n\n{entry}{made}{''.join(taken)}  ROOT %r = {array} negate(%g0)\n}}\n"


def test_all_parts_of_a_tuple_are_followed_in_work_that_grows_as_they_do() -> None:
    def follow(count: int) -> Callable[[], object]:
        module = sd.read_hlo(parts_taken_one_by_one(count))
        assert module.instruction("t").users
        return partial(Liveness, module)

    follow(1)()
    check_linear(follow, 40)
