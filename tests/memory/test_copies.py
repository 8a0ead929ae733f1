"""Copies that only change a layout: which there are, what they cost, and who forces them."""

from __future__ import annotations

import json

import pytest

import strided as sd
from strided.memory.copies import LayoutCopies, LayoutCopy
from tests.hlo_samples import PAIRS, proto_of, text_of

ROW, COLUMN = "f32[128,256]{1,0:T(8,128)}", "f32[128,256]{0,1:T(8,128)}"
BYTES = 2 * 128 * 256 * 4


def copies_in(entry: str, *computations: str, header: str = "") -> LayoutCopies:
    """The copies of a module whose entry takes `x` by rows."""
    text = "\n".join(f"{c}\n" for c in computations) + f"ENTRY main {{ x = {ROW} parameter(0)\n{entry} }}"
    found = sd.layout_copies(sd.read_hlo(f"HloModule m{header}\n\n{text}\n"))
    assert isinstance(found, LayoutCopies)
    return found


def only(copies: LayoutCopies) -> LayoutCopy:
    (copy,) = copies
    return copy


def names(copies: LayoutCopies) -> list[str]:
    return sorted(copy.instruction.name for copy in copies)


# ---- which there are -------------------------------------------------------------------------------------------------


def test_a_copy_to_another_layout_is_found():
    copy = only(copies_in(f"c = {COLUMN} copy(x) ROOT r = {COLUMN} negate(c)"))
    assert (copy.instruction.name, copy.computation.name) == ("c", "main")
    assert (str(copy.before), str(copy.after)) == (ROW, COLUMN)
    assert (copy.bytes, copy.times, copy.times_known, copy.materialized, copy.fusion) == (BYTES, 1, True, True, None)


@pytest.mark.parametrize(
    "same", [ROW, ROW.replace("}", "S(1)}"), "f32[128,256]{1,0:T(8,128)S(5)}"], ids=["same", "vmem", "host"]
)
def test_a_change_of_memory_space_alone_is_none(same):
    assert not copies_in(f"ROOT c = {same} copy(x)")
    assert not copies_in(f"s = ({same}, {ROW}, u32[]) copy-start(x) ROOT d = {same} copy-done(s)")


def test_an_asynchronous_copy_is_found_once():
    copy = only(copies_in(f"s = ({COLUMN}, {ROW}, u32[]) copy-start(x) ROOT d = {COLUMN} copy-done(s)"))
    assert (copy.instruction.name, copy.bytes, copy.cause.kind) == ("s", BYTES, "parameter")


@pytest.mark.parametrize(
    ("layout", "moves"), [("{1,0:T(8,128)}", True), ("{0,1:T(8,128)}", False), ("{0,1:T(8,128)S(1)}", False)]
)
def test_a_transpose_is_one_if_elements_move(layout, moves):
    assert bool(copies_in(f"ROOT t = f32[256,128]{layout} transpose(x), dimensions={{1,0}}")) is moves


@pytest.mark.parametrize(
    ("result", "moves"),
    [
        ("f32[16,8,256]{2,1,0:T(8,128)}", False),
        ("f32[128,1,256]{2,0,1:T(8,128)}", False),
        ("f32[128,2,128]{2,1,0:T(2,128)}", True),
        ("f32[32,4,256]{2,1,0:T(4,128)}", True),
        ("f32[16,8,256]{2,0,1:T(8,128)}", True),
        ("f32[32768]{0:T(1024)}", True),
    ],
)
def test_a_reshape_is_one_if_elements_move(result, moves):
    found = copies_in(f"ROOT r = {result} reshape(x)")
    assert bool(found) is moves
    if moves:
        assert only(found).cause.instruction is only(found).instruction
        assert only(found).cure is None


PLAIN = f"plain {{ p = {ROW} parameter(0) c = {COLUMN} copy(p) ROOT b = f32[256,128]{{1,0:T(8,128)}} bitcast(c) }}"


def test_a_fusion_of_nothing_else_is_one():
    found = copies_in("ROOT f = f32[256,128]{1,0:T(8,128)} fusion(x), kind=kLoop, calls=plain", PLAIN)
    assert names(found) == ["c", "f"]
    fusion, inner = found
    assert (fusion.instruction.name, fusion.fusion, inner.fusion) == ("f", None, fusion.instruction)
    assert fusion.materialized
    assert inner.materialized
    assert found.passes == (fusion,)  # they are one pass through memory
    assert found.total_bytes == fusion.total_bytes == BYTES
    assert fusion.cause == inner.cause


def test_fusions_that_move_alike_come_in_the_order_of_the_module():
    many = [f"fusion.{n}" for n in range(20)]
    lines = [f"{name} = f32[256,128]{{1,0:T(8,128)}} fusion(x), kind=kLoop, calls=p{name}" for name in many]
    bodies = [PLAIN.replace("plain", f"p{name}") for name in many]
    found = copies_in("\n".join(lines), *bodies)
    assert [copy.instruction.name for copy in found if copy.fusion is None] == many


def test_a_copy_in_a_fusion_that_does_more_costs_no_pass_of_its_own():
    does_more = f"more {{ p = {ROW} parameter(0) c = {COLUMN} copy(p) ROOT n = {COLUMN} negate(c) }}"
    around = f"around {{ q = {ROW} parameter(0) ROOT g = {COLUMN} fusion(q), kind=kLoop, calls=more }}"
    found = copies_in(f"ROOT f = {COLUMN} fusion(x), kind=kLoop, calls=around", does_more, around)
    copy = only(found)
    assert (copy.instruction.name, copy.materialized, copy.share) == ("c", False, 0)
    assert copy.fusion is not None
    assert copy.fusion.name == "f"
    assert all(len(line) <= 40 for line in found.report(width=40).splitlines())
    assert copy.bytes == BYTES
    assert (found.passes, found.total_bytes) == ((), 0)
    assert copy.cause.name == "x"


def test_a_plain_fusion_inside_one_that_does_more_costs_none_either():
    around = (
        f"around {{ q = {ROW} parameter(0) g = f32[256,128]{{1,0:T(8,128)}} fusion(q), kind=kLoop, calls=plain "
        + ("ROOT n = f32[256,128]{1,0:T(8,128)} negate(g) }")
    )
    found = copies_in("ROOT f = f32[256,128]{1,0:T(8,128)} fusion(x), kind=kLoop, calls=around", PLAIN, around)
    assert names(found) == ["c"]
    assert not only(found).materialized


def test_bytes_count_padding_and_shares_are_of_all_bytes():
    text = f"""c = f32[3,5]{{0,1:T(8,128)}} copy(y)
        n = {ROW} negate(x)
        ROOT t = (f32[3,5]{{0,1:T(8,128)}}, {ROW}) tuple(c, n)"""
    found = copies_in(f"y = f32[3,5]{{1,0:T(4,128)}} parameter(1) {text}")
    copy = only(found)
    assert copy.bytes == 4 * 128 * 4 + 8 * 128 * 4
    assert found.program_bytes == copy.bytes + BYTES
    assert copy.share == copy.bytes / found.program_bytes


def test_a_cure_follows_dimensions_of_one_index_that_a_reshape_moves():
    text = """y = f32[128,1,256]{2,0,1:T(8,128)} reshape(one) c = f32[128,1,256]{0,2,1:T(8,128)} copy(y)
        ROOT r = f32[128,1,256]{0,2,1:T(8,128)} negate(c)"""
    copy = only(copies_in(f"one = f32[1,128,256]{{2,1,0:T(8,128)}} parameter(1) {text}"))
    assert copy.cure is not None
    assert str(copy.cure.shape) == "f32[1,128,256]{1,2,0:T(8,128)}"


# ---- how often -------------------------------------------------------------------------------------------------------

STATE = f"(s32[], {ROW}, s32[])"


def looped(
    condition: str,
    step: str,
    start: str = "0",
    more: str = "",
    before: str = "",
    calls: str = "condition=test, body=body",
) -> LayoutCopy:
    """The copy in the body of a loop whose counter is `i`."""
    body = f"""body {{ s = {STATE} parameter(0) i = s32[] get-tuple-element(s), index=0
        v = {ROW} get-tuple-element(s), index=1 k = s32[] get-tuple-element(s), index=2
        c = {COLUMN} copy(v) d = {COLUMN} negate(c) e = {ROW} copy(d) one = s32[] constant(1) two = s32[] constant(2)
        {step} ROOT r = {STATE} tuple(next, e, k) }}"""
    test = f"""test {{ s = {STATE} parameter(0) i = s32[] get-tuple-element(s), index=0
        k = s32[] get-tuple-element(s), index=2 n = s32[] constant(12) {condition} }}"""
    entry = f"""i = s32[] constant({start}) k = s32[] constant(7) {before} t = {STATE} tuple(i, x, k)
        w = {STATE} while(t), {calls}{more} ROOT g = {ROW} get-tuple-element(w), index=1"""
    return next(copy for copy in copies_in(entry, body, test) if copy.instruction.name == "c")


@pytest.mark.parametrize(
    ("condition", "step", "start", "times"),
    [
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] add(i, one)", "0", 12),
        ("ROOT r = pred[] compare(i, n), direction=LE", "next = s32[] add(i, one)", "0", 13),
        ("ROOT r = pred[] compare(n, i), direction=GT", "next = s32[] add(two, i)", "1", 6),
        ("ROOT r = pred[] compare(i, n), direction=NE", "next = s32[] add(i, two)", "0", 6),
        ("ROOT r = pred[] compare(i, n), direction=GT", "next = s32[] subtract(i, two)", "20", 4),
        ("ROOT r = pred[] compare(i, k), direction=LT", "next = s32[] add(i, one)", "2", 5),
        ("ROOT r = pred[] compare(i, n), direction=LT", "j = s32[] copy(i) next = s32[] add(j, one)", "0", 12),
        ("ROOT r = pred[] compare(i, n), direction=NE", "next = s32[] add(i, two)", "1", None),
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] subtract(i, one)", "0", None),
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] add(i, i)", "1", None),
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] add(k, one)", "0", None),
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] multiply(i, two)", "1", None),
        ("p = pred[] compare(i, n), direction=LT ROOT r = pred[] not(p)", "next = s32[] add(i, one)", "0", None),
    ],
)
def test_loops_that_count_are_counted(condition, step, start, times):
    copy = looped(condition, step, start)
    assert (copy.times, copy.times_known) == (times or 1, times is not None)
    assert copy.total_bytes == BYTES * (times or 1)


NEVER = ', backend_config={"known_trip_count":{"n":"0"}}'


@pytest.mark.parametrize(
    ("condition", "step", "start", "more"),
    [
        ("ROOT r = pred[] compare(i, n), direction=GT", "next = s32[] add(i, one)", "0", ""),
        ("ROOT r = pred[] compare(n, i), direction=GT", "next = s32[] add(i, one)", "12", ""),
        ("ROOT r = pred[] compare(i, n), direction=NE", "next = s32[] multiply(i, two)", "12", ""),
        ("ROOT r = pred[] compare(i, n), direction=LT", "next = s32[] multiply(i, two)", "13", ""),
        ("ROOT r = pred[] constant(true)", "next = s32[] add(i, i)", "0", NEVER),
    ],
)
def test_a_loop_that_never_runs_moves_nothing(condition, step, start, more):
    copy = looped(condition, step, start, more)
    assert (copy.times, copy.times_known, copy.total_bytes, copy.share) == (0, True, 0, 0)
    assert str(copy).startswith(f"c: 0 bytes, 0 times {BYTES:,}\n")


def test_a_body_may_be_named_before_its_condition():
    step, condition = "next = s32[] add(i, one)", "ROOT r = pred[] compare(i, n), direction=LT"
    assert looped(condition, step, calls="body=%body, condition=%test").times == 12


def test_a_loop_that_tests_another_number_than_its_counter_is_not_counted():
    body = f"""body {{ i = s32[] parameter(0) v = {ROW} broadcast(i), dimensions={{}} c = {COLUMN} copy(v)
        one = s32[] constant(1) ROOT next = s32[] add(i, one) }}"""
    test = """test {{ i = s32[] parameter(0) ten = s32[] constant(10) n = s32[] constant(20) j = s32[] add(i, ten)
        ROOT r = pred[] compare({}, n), direction=LT }}"""
    entry = "i = s32[] constant(0) ROOT w = s32[] while(i), condition=test, body=body"
    for tested, times in (("i", (20, True)), ("j", (1, False))):
        copy = only(copies_in(entry, body, test.format(tested)))
        assert (copy.times, copy.times_known) == times


def test_a_computation_that_nothing_calls_counts_once_and_as_unknown():
    unused = f"unused {{ p = {ROW} parameter(0) ROOT c = {COLUMN} copy(p) }}"
    copy = only(copies_in(f"ROOT r = {ROW} negate(x)", unused))
    assert (copy.times, copy.times_known) == (1, False)


def test_a_test_for_equality_passes_once():
    assert looped("ROOT r = pred[] compare(i, n), direction=EQ", "next = s32[] add(i, one)", "12").times == 1


def test_the_compilers_own_count_is_taken():
    copy = looped(
        "ROOT r = pred[] compare(i, n), direction=LT",
        "next = s32[] add(i, i)",
        more=', backend_config={"known_trip_count":{"n":"31"}}',
    )
    assert (copy.times, copy.times_known) == (31, True)


def test_loops_in_loops_multiply_and_calls_add():
    inner = f"inner {{ p = {ROW} parameter(0) c = {COLUMN} copy(p) ROOT d = {ROW} copy(c) }}"
    state = f"({ROW})"
    body = f"body {{ s = {state} parameter(0) v = {ROW} get-tuple-element(s), index=0 " + (
        f"a = {ROW} call(v), to_apply=inner b = {ROW} call(a), to_apply=inner ROOT r = {state} tuple(b) }}"
    )
    test = f"test {{ s = {state} parameter(0) ROOT r = pred[] constant(true) }}"
    loop = 'condition=test, body=body, backend_config={"known_trip_count":{"n":"5"}}'
    outer = f"outer {{ s = {state} parameter(0) ROOT w = {state} while(s), {loop} }}"
    again = f"again {{ s = {state} parameter(0) ROOT r = pred[] constant(true) }}"
    entry = f"t = {state} tuple(x) ROOT w = {state} while(t), condition=again, body=outer"
    found = copies_in(entry, inner, body, test, outer, again)
    assert {(copy.times, copy.times_known) for copy in found} == {(10, False)}
    known = 'condition=again, body=outer, backend_config={"known_trip_count":{"n":3}}'
    found = copies_in(f"t = {state} tuple(x) ROOT w = {state} while(t), {known}", inner, body, test, outer, again)
    assert {(copy.times, copy.times_known) for copy in found} == {(30, True)}


INSIDE = f"inside {{ p = {ROW} parameter(0) c = {COLUMN} copy(p) ROOT n = {COLUMN} negate(c) }}"


@pytest.mark.parametrize("what", ["fusion(x), kind=kLoop, calls=inside", "call(x), to_apply=inside"])
def test_what_is_started_costs_what_it_costs_at_once(what):
    operation, given = what.split("(", 1)
    at_once = copies_in(f"ROOT r = {COLUMN} {what}", INSIDE)
    started = copies_in(
        f"s = (({ROW}), {COLUMN}, u32[]) {operation}-start({given} ROOT r = {COLUMN} {operation}-done(s)", INSIDE
    )
    shown = [str(copies).replace("in s,", "in r,") for copies in (at_once, started)]
    assert shown[0] == shown[1]
    assert started.program_bytes == at_once.program_bytes
    assert "unknown" not in shown[1]


def test_a_fusion_that_is_started_and_does_nothing_else_is_one():
    moves = f"moves {{ p = {ROW} parameter(0) ROOT c = {COLUMN} copy(p) }}"
    found = copies_in(
        f"s = (({ROW}), {COLUMN}, u32[]) fusion-start(x), kind=kLoop, calls=moves ROOT r = {COLUMN} fusion-done(s)",
        moves,
    )
    whole = next(copy for copy in found if copy.instruction.name == "s")
    assert (str(whole.before), str(whole.after), whole.bytes, whole.share) == (ROW, COLUMN, BYTES, 1)


@pytest.mark.parametrize(
    "way",
    [
        f"v = {ROW} opt-barrier(x)",
        f"v = {ROW} domain(x)",
        f"k = token[] after-all() v = {ROW} add-dependency(x, k)",
        f"s = (({ROW}), {ROW}, u32[]) bitcast-start(x) v = {ROW} bitcast-done(s)",
    ],
)
def test_what_only_hands_a_value_on_moves_nothing(way):
    assert copies_in(f"{way} ROOT r = {ROW} negate(v)").program_bytes == BYTES


SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
#: Eight rows of `ROW`, their numbers, and what writes them there.
PART, NUMBERS = "f32[8,256]{1,0:T(8,128)}", "s32[8,1]{0,1:T(1,128)}"
SCATTER = "to_apply=sum, update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
PART_BYTES, NUMBERS_BYTES = 8 * 256 * 4, 512
GIVEN = f"i = {NUMBERS} parameter(1) u = {PART} parameter(2) k = s32[] parameter(3)"
#: A result as a computation makes it of its parameters `x`, `i`, `u` and `k`, and the bytes that this reads and writes.
UPDATED = {
    "scatter": (f"ROOT r = {ROW} scatter(x, i, u), {SCATTER}", 3 * PART_BYTES + NUMBERS_BYTES),
    "two scatters": (
        f"ROOT r = ({ROW}, {ROW}) scatter(x, x, i, u, u), {SCATTER}",
        6 * PART_BYTES + NUMBERS_BYTES,
    ),
    "update": (f"ROOT r = {ROW} dynamic-update-slice(x, u, k, k)", 2 * PART_BYTES),
}
FUSED = {
    "scatter": (UPDATED["scatter"][0], 3 * PART_BYTES + NUMBERS_BYTES + 4),
    "update": (UPDATED["update"][0], 2 * PART_BYTES + NUMBERS_BYTES + 4),
    "bitcast": (
        f"d = {ROW} dynamic-update-slice(x, u, k, k) ROOT b = f32[1,128,256]{{2,1,0:T(8,128)}} bitcast(d)",
        2 * PART_BYTES + NUMBERS_BYTES + 4,
    ),
    "one of two": (
        f"d = {ROW} dynamic-update-slice(x, u, k, k) n = {PART} negate(u) ROOT t = ({ROW}, {PART}) tuple(d, n)",
        3 * PART_BYTES + NUMBERS_BYTES + 4,
    ),
    "what is there is read": (
        f"s = {PART} dynamic-slice(x, k, k), dynamic_slice_sizes={{8,256}} a = {PART} add(s, u)\n"
        f"ROOT d = {ROW} dynamic-update-slice(x, a, k, k)",
        3 * PART_BYTES + NUMBERS_BYTES + 4,
    ),
    "of what is made there": (
        f"n = {ROW} negate(x) ROOT d = {ROW} dynamic-update-slice(n, u, k, k)",
        BYTES + PART_BYTES + NUMBERS_BYTES + 4,
    ),
}


@pytest.mark.parametrize(("update", "moved"), UPDATED.values(), ids=UPDATED)
def test_of_what_is_updated_in_place_that_part_counts(update, moved):
    assert copies_in(f"{GIVEN} {update}", SUM).program_bytes == moved


@pytest.mark.parametrize(("update", "moved"), FUSED.values(), ids=FUSED)
def test_of_what_a_fusion_updates_in_place_that_part_counts(update, moved):
    inside = f"inside {{ x = {ROW} parameter(0) {GIVEN}\n{update} }}"
    shape = next(i.shape for i in sd.read_hlo(f"HloModule m\n\n{inside}").instructions if i.is_root)
    entry = f"{GIVEN} ROOT f = {shape} fusion(x, i, u, k), kind=kLoop, calls=inside"
    assert copies_in(entry, SUM, inside).program_bytes == moved


@pytest.mark.parametrize("name", ["scatter", "update"])
def test_what_is_updated_in_place_may_be_in_a_fusion_inside_a_fusion(name):
    update, moved = FUSED[name]
    fusion = f"f = {ROW} fusion(x, i, u, k), kind=kCustom, calls="
    inside = f"inside {{ x = {ROW} parameter(0) {GIVEN}\n{update} }}"
    outside = f"outside {{ x = {ROW} parameter(0) {GIVEN}\nROOT {fusion}inside }}"
    assert copies_in(f"{GIVEN} ROOT {fusion}outside", SUM, inside, outside).program_bytes == moved


@pytest.mark.parametrize(
    ("start", "done", "part"),
    [
        (f"s = {ROW} all-reduce-start(x), to_apply=sum", f"ROOT r = {ROW} all-reduce-done(s)", 1),
        (
            f"s = ({ROW}, {ROW}) all-reduce-start(x, x), to_apply=sum",
            f"ROOT r = ({ROW}, {ROW}) all-reduce-done(s)",
            2,
        ),
        (f"s = ({ROW}, {ROW}) all-gather-start(x), dimensions={{0}}", f"ROOT r = {ROW} all-gather-done(s)", 1),
        (f"s = ({ROW}, {ROW}, u32[]) collective-permute-start(x)", f"ROOT r = {ROW} collective-permute-done(s)", 1),
        (f"s = (({ROW}), {ROW}, u32[]) negate-start(x)", f"ROOT r = {ROW} negate-done(s)", 1),
        (f"s = ({ROW}, {ROW}, u32[]) copy-start(x)", f"ROOT r = {ROW} copy-done(s)", 1),
        (f"s = (({ROW}), {ROW}, u32[]) copy-start(x) u = (({ROW}), {ROW}, u32[]) copy-update(s)",
         f"ROOT r = {ROW} copy-done(u)", 1),
    ],
    ids=["all-reduce", "two", "all-gather", "permute", "negate", "copy", "update"],
)  # fmt: skip
def test_what_is_started_reads_its_operands_and_writes_its_results_once(start, done, part):
    assert copies_in(f"{start} {done}", SUM).program_bytes == part * BYTES


# ---- why -------------------------------------------------------------------------------------------------------------

USE = f"c = {COLUMN} copy(v) ROOT r = {COLUMN} sort(c), dimensions={{0}}"
ID = f"id {{ p = {ROW} parameter(0) ROOT q = {ROW} bitcast(p) }}"
OTHER = f"other {{ p = {ROW} parameter(0) ROOT q = {ROW} bitcast(p) }}"


@pytest.mark.parametrize(
    "way",
    [
        f"v = {ROW} bitcast(x)",
        f"t = (s32[], {ROW}) tuple(i, x) v = {ROW} get-tuple-element(t), index=1",
        f"v = {ROW} fusion(x), kind=kLoop, calls=id",
        f"v = {ROW} call(x), to_apply=id",
        f"v = {ROW} conditional(b, x, x), true_computation=id, false_computation=other",
        f"v = {ROW} opt-barrier(x)",
        f"t = (s32[], {ROW}) tuple(i, x) o = (s32[], {ROW}) opt-barrier(t) v = {ROW} get-tuple-element(o), index=1",
        f'v = {ROW} domain(x), domain={{kind="sharding", entry={{replicated}}, exit={{replicated}}}}',
        f"k = token[] after-all() v = {ROW} add-dependency(x, k)",
        f"s = ({ROW}, {ROW}, u32[]) copy-start(x) v = {ROW} copy-done(s)",
        f"a = (({ROW}), {ROW}, u32[]) async-start(x), calls=id v = {ROW} async-done(a)",
        f"a = (({ROW}), {ROW}, u32[]) fusion-start(x), kind=kLoop, calls=id v = {ROW} fusion-done(a)",
        f"a = (({ROW}), {ROW}, u32[]) call-start(x), to_apply=id v = {ROW} call-done(a)",
        f"a = (({ROW}), {ROW}, u32[]) bitcast-start(x) u = (({ROW}), {ROW}, u32[]) bitcast-update(a) "
        f"v = {ROW} bitcast-done(u)",
        f"""a = ((pred[], {ROW}, {ROW}), {ROW}, u32[]) conditional-start(b, x, x), true_computation=id,
        false_computation=other v = {ROW} conditional-done(a)""",
        f"y = {ROW.replace('}', 'S(1)}')} copy(x) v = {ROW} copy(y)",
        f"h = bf16[128,256]{{1,0:T(8,128)(2,1)}} convert(x) v = {ROW} convert(h)",
        f"z = {ROW} broadcast(i), dimensions={{}} v = {ROW} dynamic-update-slice(x, z, i, i)",
    ],
)
def test_a_parameter_is_found_through_whatever_hands_it_on(way):
    cause = only(copies_in(f"i = s32[] constant(0) b = pred[] constant(true) {way} {USE}", ID, OTHER)).cause
    assert (cause.kind, cause.name, cause.number) == ("parameter", "x", 0)
    assert str(cause) == "x is passed as {1,0:T(8,128)}, but r takes {0,1:T(8,128)}"


LOOP = (
    f"body {{ s = ({ROW}) parameter(0) v = {ROW} get-tuple-element(s), index=0 ROOT r = ({ROW}) tuple(v) }}",
    f"test {{ s = ({ROW}) parameter(0) ROOT r = pred[] constant(true) }}",
)


def test_parameters_and_results_are_found_through_loops():
    into = (
        f"t = ({ROW}) tuple(x) w = ({ROW}) while(t), condition=test, body=body v = {ROW} get-tuple-element(w), index=0"
    )
    assert only(copies_in(f"{into} {USE}", *LOOP)).cause.name == "x"
    started = f"""t = ({ROW}) tuple(x) s = ((({ROW})), ({ROW}), u32[]) while-start(t), condition=test, body=body
        w = ({ROW}) while-done(s) v = {ROW} get-tuple-element(w), index=0"""
    assert only(copies_in(f"{started} {USE}", *LOOP)).cause.name == "x"
    out = f"""n = {COLUMN} sort(x), dimensions={{0}} c = {ROW} copy(n) t = ({ROW}) tuple(c)
        ROOT w = ({ROW}) while(t), condition=test, body=body"""
    cause = only(copies_in(out, *LOOP)).cause
    assert (cause.kind, cause.number) == ("result", 0)


def test_the_copy_in_a_body_that_a_result_forces_is_found_outside():
    body = f"body {{ s = ({ROW}) parameter(0) v = {ROW} get-tuple-element(s), index=0 n = {COLUMN} sort(v) " + (
        f"c = {ROW} copy(n) ROOT r = ({ROW}) tuple(c) }}"
    )
    entry = f"""t = ({ROW}) tuple(x) w = ({ROW}) while(t), condition=test, body=body
        g = {ROW} get-tuple-element(w), index=0 ROOT r = (s32[], {ROW}) tuple(i, g)"""
    cause = only(copies_in(f"i = s32[] constant(0) {entry}", body, LOOP[1])).cause
    assert (cause.kind, cause.name, cause.number) == ("result", "result 1", 1)
    assert str(cause) == "result 1 is returned as {1,0:T(8,128)}, but n makes {0,1:T(8,128)}"


TURNED_ROW, TURNED_COLUMN = "f32[256,128]{1,0:T(8,128)}", "f32[256,128]{0,1:T(8,128)}"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            f"s = {ROW} sort(x) t = {TURNED_ROW} transpose(s), dimensions={{1,0}} ROOT r = {TURNED_ROW} sort(t)",
            "r takes {1,0:T(8,128)}, but s makes {1,0:T(8,128)}, for which it would have to take {0,1:T(8,128)}",
        ),
        (
            f"s = {COLUMN} custom-call(x) b = {TURNED_ROW} bitcast(s) c = {TURNED_COLUMN} copy(b) "
            f"d = {ROW} bitcast(c) ROOT r = {ROW} dot(d, d)",
            "s makes {0,1:T(8,128)}, but r takes {1,0:T(8,128)}",
        ),
        (
            f"s = {ROW} sort(x) c = {COLUMN} copy(s) ROOT d = {TURNED_ROW} bitcast(c)",
            "the result is returned as {1,0:T(8,128)}, but s makes {1,0:T(8,128)}, "
            "for which it would have to be returned as {0,1:T(8,128)}",
        ),
        (
            f"b = {TURNED_COLUMN} bitcast(x) c = {TURNED_ROW} copy(b) ROOT r = {TURNED_ROW} sort(c)",
            "x is passed as {1,0:T(8,128)}, but r takes {1,0:T(8,128)}, "
            "for which it would have to be passed as {0,1:T(8,128)}",
        ),
        (
            f"b = {TURNED_COLUMN} bitcast(x) h = bf16[256,128]{{0,1:T(8,128)(2,1)}} convert(b) "
            "c = bf16[256,128]{1,0:T(8,128)(2,1)} copy(h) ROOT r = bf16[256,128]{1,0:T(8,128)(2,1)} sort(c)",
            "x is passed as {1,0:T(8,128)}, but r takes {1,0:T(8,128)(2,1)}, "
            "for which it would have to be passed as {0,1} with tiles",
        ),
        (
            f"b = f32[2,128,128]{{2,0,1:T(2,128)}} bitcast(x) c = f32[2,128,128]{{2,1,0:T(8,128)}} copy(b) "
            f"d = {ROW} bitcast(c) ROOT r = {ROW} dot(d, d)",
            "x is passed as {1,0:T(8,128)}, but r takes {1,0:T(8,128)}, in other dimensions",
        ),
    ],
    ids=["a transpose", "bitcasts to and fro", "a result", "a parameter", "another type", "joined dimensions"],
)
def test_each_layout_of_a_cause_is_the_one_in_the_text(entry, sentence):
    assert str(only(copies_in(entry)).cause) == sentence


def test_the_layout_that_spares_a_transpose_is_in_the_dimensions_of_the_result():
    cure = only(copies_in(f"s = {ROW} sort(x) ROOT t = {TURNED_ROW} transpose(s), dimensions={{1,0}}")).cure
    assert cure is not None
    assert (cure.kind, str(cure.shape)) == ("result", TURNED_COLUMN)


@pytest.mark.parametrize(
    ("entry", "kind", "name"),
    [
        (f"n = {ROW} negate(x) c = {COLUMN} copy(n) ROOT r = {COLUMN} all-reduce(c)", "collective", "r"),
        (f"g = {ROW} all-gather(x) c = {COLUMN} copy(g) ROOT r = {COLUMN} dot(c, c)", "collective", "g"),
        (
            f"n = {ROW} negate(x) c = {COLUMN} copy(n) a = {COLUMN} add(c, c) ROOT r = {COLUMN} dot(c, a)",
            "operation",
            "r",
        ),
        (f"n = {ROW} custom-call(x) c = {COLUMN} copy(n) ROOT r = {COLUMN} sort(c)", "operation", "n"),
    ],
)
def test_otherwise_it_is_what_insists_most_on_its_layout(entry, kind, name):
    copy = only(copies_in(entry))
    assert (copy.cause.kind, copy.cause.name, copy.cure) == (kind, name, None)


# ---- what would spare it ---------------------------------------------------------------------------------------------


def test_the_cure_of_a_parameter_is_a_format():
    copy = only(copies_in(f"c = {COLUMN} copy(x) ROOT r = {COLUMN} sort(c)"))
    assert copy.cure is not None
    assert str(copy.cure.shape) == COLUMN
    assert copy.cure.format == "Format(Layout(major_to_minor=(1, 0), tiling=((8, 128),)), sharding)"
    assert (copy.cure.kind, copy.cure.number, copy.cure.certainty) == ("parameter", 0, "computed")


def test_the_name_of_an_argument_is_what_jit_noted():
    text = f"""HloModule m, input_output_alias={{ {{1}}: (0, {{}}, must-alias) }}

    ENTRY main {{ x = {ROW} parameter(0), metadata={{op_name="params['mlp/~/linear']['w']"}}
        c = {COLUMN} copy(x) r = {COLUMN} sort(c) ROOT t = ({COLUMN}, {ROW}) tuple(r, x) }}"""
    copy = only(sd.layout_copies(sd.read_hlo(text)))
    assert copy.cause.name == "params['mlp/~/linear']['w']"
    assert copy.cure is not None
    assert copy.cure.shares == 1
    advice = "ask for result 1, which takes its buffer, and pass params['mlp/~/linear']['w'] as"
    assert copy.cure.advice == advice
    assert str(copy.cure) == f"{advice} {copy.cure.format} (computed)"
    of_operation = sd.layout_copies(sd.read_hlo(text.replace("params['mlp/~/linear']['w']", "jit(f)/mul")))
    assert only(of_operation).cause.name == "x"


@pytest.mark.parametrize(
    ("way", "wanted", "cure"),
    [
        ("bitcast(x)", "f32[1,128,256]{1,2,0:T(8,128)}", "f32[128,256]{0,1:T(8,128)}"),
        ("bitcast(x)", "f32[16,8,256]{1,2,0:T(8,128)}", None),  # no order of two dimensions does it
        ("bitcast(x)", "f32[16,8,256]{1,0,2:T(8,128)}", "f32[128,256]{0,1}"),
        ("transpose(x), dimensions={1,0}", "f32[256,128]{1,0:T(8,128)}", "f32[128,256]{0,1:T(8,128)}"),
        ("slice(x), slice={[0:32], [0:256]}", "f32[32,256]{0,1:T(8,128)}", "f32[128,256]{0,1}"),
    ],
)
def test_the_cure_is_carried_back_to_the_parameters_dimensions(way, wanted, cure):
    bare = wanted.partition("{")[0]
    rank = bare.count(",") + 1
    order = "0,1" if way.startswith("transpose") else ",".join(map(str, reversed(range(rank))))
    found = only(copies_in(f"v = {bare}{{{order}:T(8,128)}} {way} c = {wanted} copy(v) ROOT r = {wanted} sort(c)"))
    assert found.cause.name == "x"
    assert (found.cure and str(found.cure.shape)) == cure


def test_the_cure_of_a_result_is_what_is_made():
    found = only(
        copies_in(f"n = {COLUMN} sort(x) c = {ROW} copy(n) ROOT b = f32[1,128,256]{{2,1,0:T(8,128)}} bitcast(c)")
    )
    assert (found.cause.kind, found.cause.name) == ("result", "the result")
    assert found.cure is not None
    assert str(found.cure.shape) == "f32[1,128,256]{1,2,0:T(8,128)}"
    assert str(found.cure).startswith("ask for the result as Format(Layout(major_to_minor=(0, 2, 1)")


def test_a_path_is_no_module() -> None:
    with pytest.raises(TypeError, match="takes a Module, not str: "):
        sd.layout_copies("module.txt")  # type: ignore[arg-type]


# ---- whole programs, and printing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_text_and_proto_have_the_same_copies(pair):
    text, proto = (sd.layout_copies(sd.read_hlo(source)) for source in (text_of(pair), proto_of(pair)))
    assert text.to_dict() == proto.to_dict()


def test_reports_are_safe_and_complete():
    text = f"""HloModule m

    ENTRY main {{ x = {ROW} parameter(0), metadata={{op_name="<i>\\033[31m"}}
        c = {COLUMN} copy(x) d = {ROW} copy(c) ROOT r = {ROW} negate(d) }}"""
    found = sd.layout_copies(sd.read_hlo(text))
    report = found.report(1)
    assert report.startswith("m: 2 copies only to change a layout, 524,288 bytes, 66.7% of what the program moves\n")
    assert report.endswith("1 more copy: 262,144 bytes")
    assert repr(found) == "<LayoutCopies of m: 2 copies>"
    assert repr(found[0]).startswith(f"<LayoutCopy c: {ROW} -> {COLUMN}, 262,144 bytes (33.3%)")
    assert "\033" not in str(found) + found._repr_html_()
    assert "<i>" not in found._repr_html_() + found[0]._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))["copies"][0]["cause"]["kind"] == "parameter"
    assert len(found.to_dict(1)["copies"]) == 1
    assert sum(copy.share for copy in found) == found.total_bytes / found.program_bytes


def test_reports_fit_the_width():
    copies = copies_in(f"n = {ROW} negate(x) c = {COLUMN} copy(n) ROOT r = {COLUMN} sort(c)")
    for width in (40, 80):
        lines = copies.report(width=width).splitlines()
        assert all(len(line) <= width or " " not in line.strip() for line in lines)


def test_a_loop_of_unknown_length_is_said():
    copy = looped("ROOT r = pred[] constant(true)", "next = s32[] add(i, one)")
    assert str(copy).splitlines()[0].endswith("%), in a loop of unknown length")


def test_a_program_without_copies_says_so():
    assert str(copies_in(f"ROOT r = {ROW} negate(x)")) == "m: 0 copies only to change a layout"


# ---- untrusted modules -----------------------------------------------------------------------------------------------

DEEP = 3000


@pytest.mark.parametrize("opcode", ["call", "fusion"])
@pytest.mark.slow
def test_deep_calls_end(opcode):
    how = "to_apply" if opcode == "call" else "kind=kLoop, calls"
    chain = [f"f0 {{ p = {ROW} parameter(0) ROOT c = {COLUMN} copy(p) }}"] + [
        f"f{k} {{ p = {ROW} parameter(0) ROOT c = {COLUMN} {opcode}(p), {how}=f{k - 1} }}" for k in range(1, DEEP)
    ]
    found = copies_in(f"ROOT y = {COLUMN} {opcode}(x), {how}=f{DEEP - 1}", *chain)
    assert found.total_bytes == BYTES
    assert all(copy.cause.sentence for copy in found)


@pytest.mark.slow
def test_long_chains_and_wide_tuples_end():
    chain = f"b0 = {ROW} bitcast(x) " + " ".join(f"b{k + 1} = {ROW} bitcast(b{k})" for k in range(DEEP))
    assert only(copies_in(f"{chain} c = {COLUMN} copy(b{DEEP}) ROOT r = {COLUMN} sort(c)")).cause.name == "r"
    many = " ".join(f"c{k} = {COLUMN} copy(x)" for k in range(DEEP))
    shape, operands = ", ".join([COLUMN] * DEEP), ", ".join(f"c{k}" for k in range(DEEP))
    assert len(copies_in(f"{many} ROOT t = ({shape}) tuple({operands})")) == DEEP


@pytest.mark.parametrize("opcode", ["call", "fusion"])
def test_what_calls_itself_counts_once_and_as_unknown(opcode):
    how = "to_apply" if opcode == "call" else "kind=kLoop, calls"
    text = f"f {{ p = {ROW} parameter(0) q = {ROW} {opcode}(p), {how}=g ROOT c = {COLUMN} copy(q) }}"
    back = f"g {{ p = {ROW} parameter(0) ROOT q = {ROW} {opcode}(p), {how}=f }}"
    copy = next(
        c for c in copies_in(f"ROOT y = {COLUMN} {opcode}(x), {how}=f", text, back) if c.instruction.name == "c"
    )
    assert (copy.times, copy.times_known) == (1, False)
    cycle = f"HloModule m\nENTRY e {{ a = {ROW} bitcast(b)\n b = {ROW} bitcast(a)\n ROOT c = {COLUMN} copy(a) }}\n"
    assert only(sd.layout_copies(sd.read_hlo(cycle))).cause.sentence


def test_counts_that_no_program_reaches_do_not_grow():
    def calls(k: int) -> str:
        a, b = (f"{name} = {ROW} call({of}), to_apply=f{k - 1}" for name, of in (("a", "p"), ("b", "a")))
        return f"f{k} {{ p = {ROW} parameter(0) {a} ROOT {b} }}"

    doubled = [
        f"f0 {{ p = {ROW} parameter(0) c = {COLUMN} copy(p) ROOT d = {ROW} copy(c) }}",
        *map(calls, range(1, 100)),
    ]
    assert copies_in(f"ROOT y = {ROW} call(x), to_apply=f99", *doubled)[0].times == 2**63 - 1


def test_damaged_modules_are_read_as_far_as_they_go():
    with pytest.warns(sd.DumpWarning):
        module = sd.read_hlo(
            f"HloModule m\n\nENTRY e {{\n  c = {COLUMN} copy(nowhere)\n  ??\n  ROOT d = {ROW} copy(c)\n}}\n"
        )
    assert only(sd.layout_copies(module)).instruction.name == "d"


@pytest.mark.parametrize("dimensions", ["{0}", "{0,0}", "{-1,0}", f"{{{'1' * 5000},0}}"])
def test_a_transpose_that_does_not_say_its_dimensions_moves_all(dimensions: str) -> None:
    entry = f"ROOT t = f32[256,128]{{0,1:T(8,128)}} transpose(x), dimensions={dimensions}"
    assert names(copies_in(entry)) == ["t"]
    assert not copies_in(entry.replace(dimensions, "{1,0}"))


@pytest.mark.parametrize("index", ["-1", "-2", "1", "1" * 5000])
def test_an_element_that_a_tuple_lacks_comes_from_nowhere(index: str) -> None:
    entry = f"t = ({ROW}) tuple(x) e = {ROW} get-tuple-element(t), index={index} ROOT c = {COLUMN} copy(e)"
    found = only(copies_in(entry))
    assert found.instruction.name == "c"
    assert "x is passed" not in str(found)


def test_copies_that_the_program_never_reaches() -> None:
    text = """HloModule m

    unused {
      x = f32[128,256]{1,0:T(8,128)} parameter(0)
      ROOT c = f32[128,256]{0,1:T(8,128)} copy(x)
    }

    ENTRY main {
      ROOT p = f32[] parameter(0)
    }
    """
    found = sd.layout_copies(sd.read_hlo(text))
    shown = [str(found), found._repr_html_(), json.dumps(found.to_dict())]
    assert all("copy" in one or "copies" in one for one in shown)
    assert all(0 <= copy.share <= 1 for copy in found)
