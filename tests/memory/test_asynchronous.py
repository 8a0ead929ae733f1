"""Operations that are started, updated and done: what is in use meanwhile."""

from __future__ import annotations

import pytest

import strided as sd

ASYNCHRONOUS = """HloModule m, is_scheduled=true

%wrapped (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128]{1,0:T(8,128)} parameter(0)
  ROOT %c = f32[64,128]{1,0:T(8,128)} custom-call(%p), custom_call_target="f"
}

ENTRY %main (a: f32[64,128]) -> f32[64,128] {
  %a = f32[64,128]{1,0:T(8,128)} parameter(0)
  %s = ((f32[64,128]{1,0:T(8,128)}), f32[64,128]{1,0:T(8,128)}, s32[]) async-start(%a), calls=%wrapped
  %u = ((f32[64,128]{1,0:T(8,128)}), f32[64,128]{1,0:T(8,128)}, s32[]) async-update(%s)
  ROOT %d = f32[64,128]{1,0:T(8,128)} async-done(%u)
}
"""


@pytest.mark.parametrize("short", [False, True], ids=["wrapped", "short"])
def test_the_update_of_an_asynchronous_operation_hands_its_operand_on(short: bool) -> None:
    text = ASYNCHRONOUS
    if short:
        start = text.index("%wrapped"), text.index("ENTRY")
        text = (text[: start[0]] + text[start[1] :]).replace("async-", "custom-call-")
        text = text.replace("calls=%wrapped", 'custom_call_target="f"')
    lines = text.splitlines(keepends=True)
    without = "".join(line for line in lines if "-update" not in line).replace("%u)", "%s)")
    assert without != text
    assert sd.memory_report(text).peak_bytes == sd.memory_report(without).peak_bytes
    assert sd.memory_report(text).total_bytes == sd.memory_report(without).total_bytes


@pytest.mark.parametrize("short", [False, True], ids=["wrapped", "short"])
@pytest.mark.parametrize("updated", [False, True], ids=["once", "updated"])
def test_a_copy_that_a_computation_wraps_takes_what_another_operation_does(short: bool, updated: bool) -> None:
    text = ASYNCHRONOUS.replace('custom-call(%p), custom_call_target="f"', "negate(%p)")
    if not updated:
        text = "".join(line for line in text.splitlines(keepends=True) if "-update" not in line).replace("%u)", "%s)")
    copied = text.replace("negate(", "copy(")
    if short:
        copied = copied[: copied.index("%wrapped")] + copied[copied.index("ENTRY") :]
        copied = copied.replace("async-", "copy-").replace(", calls=%wrapped", "")
    own, other = sd.memory_report(copied), sd.memory_report(text)
    assert (own.peak_bytes, own.usage[-1]) == (other.peak_bytes, other.usage[-1])
    assert own.peak_bytes == 2 * 64 * 128 * 4 + 4


def test_what_a_wrapped_operation_receives_is_the_second_part_of_its_start() -> None:
    received = "(f32[64,128]{1,0:T(8,128)}, u32[], token[])"
    text = f"""HloModule m, is_scheduled=true

%wrapped (t: token[]) -> {received.replace("{1,0:T(8,128)}", "")} {{
  %t = token[] parameter(0)
  ROOT %r = {received} recv(%t), channel_id=1
}}

ENTRY %main (a: token[]) -> f32[64,128] {{
  %a = token[] parameter(0)
  %s = ((token[]), {received}, u32[]) async-start(%a), calls=%wrapped
  %d = {received} async-done(%s)
  ROOT %g = f32[64,128]{{1,0:T(8,128)}} get-tuple-element(%d), index=0
}}
"""
    assert sd.memory_report(text).peak_bytes == 64 * 128 * 4 + 8


PASSED_ON = """HloModule m, is_scheduled=true

ENTRY %main (a: f32[1024]) -> f32[1024] {
  %a = f32[1024]{0} parameter(0)
  %t = token[] after-all()
  %s = (f32[1024]{0}, u32[], token[]) send(%a, %t), channel_id=1
  %sent = token[] send-done(%s), channel_id=1
  %r = (f32[1024]{0}, u32[], token[]) recv(%t), channel_id=2
  %d = (f32[1024]{0}, token[]) recv-done(%r), channel_id=2
  ROOT %g = f32[1024]{0} get-tuple-element(%d), index=0
}
"""


def test_what_is_sent_and_received_is_one_value_each() -> None:
    report = sd.memory_report(PASSED_ON)
    assert [b.bytes for b in report.buffers if b.bytes > 8] == [4096, 4096]
    assert report.peak_bytes <= 2 * 4096 + 8


STARTED = """HloModule m, is_scheduled=true

%body (x: f32[1024]) -> f32[1024] {
  %x = f32[1024]{0} parameter(0)
  %big = f32[9216]{0} custom-call(%x), custom_call_target="grow"
  ROOT %o = f32[1024]{0} custom-call(%big), custom_call_target="shrink"
}

%loop (s: (f32[1024])) -> (f32[1024]) {
  %s = (f32[1024]{0}) parameter(0)
  %v = f32[1024]{0} get-tuple-element(%s), index=0
  %big.1 = f32[9216]{0} custom-call(%v), custom_call_target="grow"
  %o.1 = f32[1024]{0} custom-call(%big.1), custom_call_target="shrink"
  ROOT %n = (f32[1024]{0}) tuple(%o.1)
}

%test (c: (f32[1024])) -> pred[] {
  %c = (f32[1024]{0}) parameter(0)
  ROOT %go = pred[] custom-call(%c), custom_call_target="test"
}

%wrapped (y: f32[1024]) -> f32[1024] {
  %y = f32[1024]{0} parameter(0)
  ROOT %in = f32[1024]{0} call(%y), to_apply=%body
}

ENTRY %main (p: f32[1024], w: pred[]) -> f32[1024] {
  %p = f32[1024]{0} parameter(0)
  %w = pred[] parameter(1)
  %start
  %more = f32[9216]{0} custom-call(%p), custom_call_target="grow"
  %less = f32[1024]{0} custom-call(%more), custom_call_target="shrink"
  %done
  ROOT %r = f32[1024]{0} add(%d, %less)
}
"""

OF_ONE = "((f32[1024]{0}), f32[1024]{0}, s32[])"

STARTS = {
    "async": (f"%a = {OF_ONE} async-start(%p), calls=%body", "async"),
    "wrapped call": (f"%a = {OF_ONE} async-start(%p), calls=%wrapped", "async"),
    "call": (f"%a = {OF_ONE} call-start(%p), to_apply=%body", "call"),
    "conditional": (
        "%a = ((pred[], f32[1024]{0}, f32[1024]{0}), f32[1024]{0}, s32[]) conditional-start(%w, %p, %p), "
        "true_computation=%body, false_computation=%body",
        "conditional",
    ),
    "updated": (f"%b = {OF_ONE} call-start(%p), to_apply=%body\n  %a = {OF_ONE} call-update(%b)", "call"),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_a_started_computation_makes_is_in_use_until_it_is_done(name: str) -> None:
    start, operation = STARTS[name]
    done = f"%d = f32[1024]{{0}} {operation}-done(%a)"
    report = sd.memory_report(STARTED.replace("%start", start).replace("%done", done))
    within, beside, small = 9216 * 4, 9216 * 4, 4096
    branches = 2 if name == "conditional" else 1
    # An argument, the result of the computation, and that of what runs beside it; a context, and an argument of a byte.
    assert report.peak_bytes == branches * within + beside + 3 * small + 4 + 1
    ends = [report.schedule[b.live.stop] for b in report.buffers if b.name.startswith("big") and b.live is not None]
    assert ends == ["d"] * branches


def test_a_loop_that_is_started_is_one_with_its_state() -> None:
    start = """%t = (f32[1024]{0}) tuple(%p)
  %a = (((f32[1024]{0})), (f32[1024]{0}), s32[]) while-start(%t), condition=%test, body=%loop"""
    done = """%e = (f32[1024]{0}) while-done(%a)
  %d = f32[1024]{0} get-tuple-element(%e), index=0"""
    report = sd.memory_report(STARTED.replace("%start", start).replace("%done", done))
    sizes = sorted(b.bytes for b in report.buffers if b.bytes > 4)
    assert sizes == [4096, 4096, 4096, 36864, 36864]  # p with the state, less, r, and what grows inside and beside
    assert report.peak_bytes == 2 * 36864 + 2 * 4096 + 4 + 1 + 1


def test_an_update_in_place_that_is_started_takes_no_more_memory() -> None:
    array = "f32[64,128]{1,0:T(8,128)}"
    text = f"""HloModule m, is_scheduled=true

%body (p: f32[64,128]) -> f32[64,128] {{
  %p = {array} parameter(0)
  %row = f32[1,128]{{1,0:T(1,128)}} constant({{...}})
  %zero = s32[]{{:T(128)}} constant(0)
  ROOT %u = {array} dynamic-update-slice(%p, %row, %zero, %zero)
}}

ENTRY %main (x: f32[64,128]) -> f32[64,128] {{
  %x = {array} parameter(0)
  %held = {array} copy(%x)
  %s = (({array}), {array}, u32[]{{:S(2)}}) fusion-start(%held), kind=kLoop, calls=%body
  ROOT %d = {array} fusion-done(%s)
}}
"""
    assert [b.name for b in sd.memory_report(text).buffers] == ["held", "x"]


def test_an_update_may_add_the_operands_of_a_computation() -> None:
    text = """HloModule m, is_scheduled=true

%gather (table: f32[4096], i: s32[64]) -> f32[64] {
  %table = f32[4096]{0} parameter(0)
  %i = s32[64]{0} parameter(1)
  ROOT %g = f32[64]{0} custom-call(%table, %i), custom_call_target="gather"
}

ENTRY %main (t: f32[4096], n: s32[64]) -> f32[64] {
  %t = f32[4096]{0} parameter(0)
  %n = s32[64]{0} parameter(1)
  %s = ((), (), s32[]) async-start(), calls=%gather
  %u = ((f32[4096]{0}), (), s32[]) async-update(%s, %t)
  %v = ((f32[4096]{0}, s32[64]{0}), f32[64]{0}, s32[]) async-update(%u, %n)
  ROOT %d = f32[64]{0} async-done(%v)
}
"""
    report = sd.memory_report(text)
    assert {b.bytes for b in report.buffers if b.name != "s{2}"} == {16384, 256}
    assert report.peak_bytes <= 16384 + 2 * 256 + 3 * 4


SUM = """%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
"""

F = "f32[1024]{0}"


@pytest.mark.parametrize(
    ("shape", "start", "made"),
    [
        (f"({F}, {F})", "all-reduce-start(%a, %b), to_apply=%sum", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "all-reduce-start(%a, %b), to_apply=%sum", 2),
        (f"(({F}, {F}), ({F}, {F}))", "all-gather-start(%a, %b), dimensions={0}", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "collective-permute-start(%a, %b)", 2),
        (f"(({F}, {F}), ({F}, {F}), u32[])", "all-to-all-start(%a, %b)", 2),
    ],
    ids=["all-reduce", "wrapped", "all-gather", "permute", "all-to-all"],
)
def test_each_start_names_its_operands_again_where_xla_does(shape: str, start: str, made: int) -> None:
    operation = start.partition("-start")[0]
    text = f"""HloModule m, is_scheduled=true

{SUM}
ENTRY %main (p: f32[1024]) -> f32[1024] {{
  %p = {F} parameter(0)
  %a = {F} sine(%p)
  %b = {F} cosine(%p)
  %s.1 = {shape} {start}
  %d = ({F}, {F}) {operation}-done(%s.1)
  %c = {F} custom-call(%d, %a, %b), custom_call_target="take"
  ROOT %r = {F} custom-call(%c), custom_call_target="end"
}}
"""
    report = sd.memory_report(text)
    values = [b for b in report.buffers if b.bytes == 4096]
    assert len(values) == 3 + made + 2
    assert report.usage[report.schedule.index("c")] == (3 + made + 1) * 4096
