"""Protos print as XLA prints them: recorded forms, jaxlib itself if it is installed, and hostile messages."""

from __future__ import annotations

import base64
import gzip
import json
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from strided.dumps.hlo import read_hlo
from strided.dumps.hlo.braced import MAX_DEPTH, is_json_object, sorted_json
from strided.dumps.hlo.literal_text import array_text
from strided.dumps.hlo.proto import find_module
from strided.dumps.hlo.proto_instruction import ProtoInstruction
from strided.dumps.protobuf.wire import bytes_field, integer_field
from strided.dumps.sharding.sharding import Sharding
from strided.errors import DumpError, UnsupportedError
from tests.dumps.test_hlo_proto import SCALAR, computation, instruction, module
from tests.hlo_samples import DATA, PAIRS, facts, module_text, proto_of
from tests.jaxlib_release import skip_with_other_words
from tests.protos import serialized
from tests.steps import check_linear

#: Modules of our own with what jaxlib 0.10.2 prints of their protos, and raw backend configurations likewise.
FORMS = json.loads(gzip.decompress((DATA / "printed_forms.json.gz").read_bytes()))
MODULES = [(text, base64.b64decode(proto), large or text) for text, proto, large in FORMS["modules"]]
CONFIGS = [(raw.encode("latin1"), printed) for raw, printed in FORMS["configs"]]

F32 = {"element_type": 11}


def entry_root(*more: bytes, opcode: str = "custom-call", shape: bytes = SCALAR, **fields: Any) -> str:
    one = instruction("x", opcode, 1, *more, shape=shape, **fields)
    return read_hlo(module(computation("e", 1, one))).entry.root.printed()


def scalar(element_type: int) -> bytes:
    return serialized("ShapeProto", element_type=element_type)


def tuple_of(*shapes: Any) -> dict[str, Any]:
    return {"element_type": 13, "tuple_shapes": shapes}


# ---- what jaxlib printed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_protos_print_as_jaxlib_printed_them(number: int) -> None:
    text, proto, large = MODULES[number]
    assert read_hlo(proto).to_text() == text
    assert read_hlo(proto).to_text(print_large_constants=True) == large


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_their_text_reads_alike(number: int) -> None:
    text, proto, _ = MODULES[number]
    ours, theirs = read_hlo(text), read_hlo(proto)
    assert [facts(i) for i in ours.instructions] == [facts(i) for i in theirs.instructions]
    assert dict(ours.attributes) == dict(theirs.attributes)


@pytest.mark.parametrize(("raw", "printed"), CONFIGS, ids=[str(raw) for raw, _ in CONFIGS])
def test_values_are_quoted_where_jaxlib_quoted_them(raw: bytes, printed: str) -> None:
    assert entry_root(opcode="iota", backend_config=raw).endswith(f", backend_config={printed}")


@pytest.mark.jax
def test_jaxlib_prints_them_so_today() -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    skip_with_other_words()
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    for text, proto, large in MODULES:
        theirs = hlo.HloModule.from_serialized_hlo_module_proto(proto)
        assert theirs.to_string().rstrip("\n") == text.rstrip("\n")
        assert theirs.to_string(options).rstrip("\n") == large.rstrip("\n")


#: jaxlib numbers stack frames anew in the order in which it meets them; the compiler's text keeps the proto's numbers.
RENUMBERED = {"while_loop.after_optimizations"}


@pytest.mark.jax
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in RENUMBERED])
def test_jaxlib_prints_the_pairs_so_too(name: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    skip_with_other_words()
    proto = bytes(find_module(memoryview(proto_of(name)))[0])
    theirs = hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()
    # jaxlib drops the device assignment, and with it what the compiler's own header says of it.
    header, *lines = read_hlo(proto).to_text().rstrip("\n").split("\n")
    assert [re.sub(r", (replica_count|num_partitions)=\d+", "", header), *lines] == theirs.rstrip("\n").split("\n")


@pytest.mark.jax
def test_the_keys_of_configurations_in_order_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")

    def program(a: Any, b: Any) -> Any:
        return (jax.numpy.sin(a) @ b).sum()

    compiled = jax.jit(program).lower(np.ones((300, 300), np.float32), np.ones((300, 300), np.float32)).compile()
    (theirs,) = compiled.runtime_executable().hlo_modules()
    ours = read_hlo(theirs.as_serialized_hlo_module_proto())
    wanted = compiled.as_text().rstrip("\n").split("\n")[1:]
    assert ours.to_text(sort_backend_config=True).rstrip("\n").split("\n")[1:] == wanted
    assert ours.to_text().rstrip("\n").split("\n")[1:] == theirs.to_string().rstrip("\n").split("\n")[1:]


# ---- what newer compilers write and jaxlib 0.10.2 drops --------------------------------------------------------------


@pytest.mark.parametrize(
    ("element_type", "order", "printed"),
    [
        (11, "TOTAL", ", order=TOTAL"),
        (16, "TOTAL", ", order=TOTAL"),
        (11, "PARTIAL", ""),
        (15, "PARTIAL", ""),
        (4, "TOTAL", ""),
        (8, "TOTAL", ""),
        (1, "TOTAL", ""),
        (4, "PARTIAL", ", order=PARTIAL"),
        (11, "", ""),
    ],
)
def test_comparisons_say_their_order_where_it_is_not_the_usual_one(element_type: int, order: str, printed: str) -> None:
    operand = instruction("a", "parameter", 1, shape=scalar(element_type))
    more, fields = bytes_field(102, order.encode()), {"operand_ids": [1, 1], "comparison_direction": "LT"}
    compare = instruction("c", "compare", 2, more, shape=scalar(1), **fields)
    found = read_hlo(module(computation("e", 1, operand, compare, root=2))).entry.root
    assert str(found) == f"ROOT %c = pred[] compare(%a, %a), direction=LT{printed}"


def test_flags_of_newer_compilers_are_printed_where_they_are_set() -> None:
    stable = entry_root(opcode="topk", k=4, largest=True, is_stable=True)
    assert stable.endswith("topk(), k=4, largest=true, is_stable=true")
    assert "is_stable" not in entry_root(opcode="topk", k=4)
    assert entry_root(integer_field(100, 1), opcode="collective-broadcast").endswith("{}, has_dynamic_root=true")


@pytest.mark.parametrize(
    ("fields", "printed"),
    [
        ({"precision_config": {"algorithm": 15}}, "algorithm=dot_bf16_bf16_fp8x4"),
        (
            {"sparsity_config": {"lhs": {"num_non_zero": 2, "block_size": 4, "dimension": 1, "idx": 3}}},
            "sparsity_config={lhs={sparsity=2x4 dimension=1 stride=0 idx=3}}",
        ),
        (
            {
                "block_scaling_config": {
                    "lhs": {"scale_idx": 2, "zero_idx": 3, "strides": [1, 2], "steps": [3, 4]},
                    "rhs": {"scale_idx": 5},
                }
            },
            "block_scaling_config={lhs={scale_idx=2 zero_idx=3 strides=1x2 steps=3x4} rhs={scale_idx=5}}",
        ),
    ],
)
def test_dots_of_newer_compilers_say_all_that_their_protos_hold(fields: dict[str, Any], printed: str) -> None:
    assert entry_root(opcode="dot", **fields).endswith(f"rhs_contracting_dims={{}}, {printed}")


def test_opcodes_of_newer_compilers_print_their_attributes() -> None:
    shuffle = entry_root(opcode="shuffle", dimensions=[1], shuffle_mode={"rotate": {"shifts": [3]}})
    assert shuffle.endswith("shuffle(), dimensions={1}, mode=rotate, shifts={3}")
    reduced = entry_root(opcode="collective-reduce", channel_id=1, use_global_device_ids=True)
    assert reduced.endswith("channel_id=1, replica_groups={}, use_global_device_ids=true, has_dynamic_root=false")


def test_the_callers_of_a_value_are_told() -> None:
    assert entry_root(original_value={"call_hierarchy": "f/g"}).endswith('origin={(),["f/g"]}')


def test_an_origin_of_another_form_costs_no_other_attribute() -> None:
    fields = {"original_value": {"call_hierarchy": "12345"}, "metadata": {"op_name": "f"}}
    data = module(computation("e", 1, instruction("x", "negate", 1, **fields)))
    old = data.replace(bytes_field(3, b"12345"), bytes_field(1, bytes_field(2, b"foo")))  # as jaxlib 0.5 declares it
    assert old != data
    attributes = read_hlo(old).entry.root.attributes
    assert attributes["origin"].startswith("{/* ")
    assert attributes["metadata"] == '{op_name="f"}'


def test_groups_of_replicas_in_the_message_of_older_compilers() -> None:
    iota = serialized(
        "IotaReplicaGroupListProto",
        num_replica_groups=4,
        num_devices_per_group=2,
        iota_reshape_dims=[2, 4],
        iota_transpose_perm=[1, 0],
    )
    printed = entry_root(bytes_field(87, bytes_field(2, iota)), opcode="all-reduce", channel_id=1)
    assert printed.endswith("all-reduce(), channel_id=1, replica_groups=[4,2]<=[2,4]T(1,0)")


#: What jaxlib 0.12 prints of configurations and debugging behind and above its computations.
CONFIGURED = """HloModule m, entry_computation_layout={()->f32[]}, backend_config={"a":1}, origin_recovery_table={
  {"u"} : {"v"}
}
,
debug_attributes={
  {"b" {2}}:({log_mode=fusion_debugger,partitioned=true,op_id=3},{log_mode=default}),
  {"b" {10}}:({callback_id=-3},{})
}

ENTRY %e () -> f32[] {
  ROOT %x = f32[] replica-id()
}, backend_config="x\\"y"

"""


def test_configurations_and_debugging_of_modules_are_read_from_text_and_proto() -> None:
    debugged = [
        ([10], [{"callback_id": -3}]),
        ([2], [{"log_mode": 2, "op_id": 3, "partitioned": True}, {"log_mode": 1}]),
        ([10], [{"log_mode": 3}]),
    ]
    entry = computation("e", 1, instruction("x", "replica-id", 1))
    entry.backend_config = b'x"y'
    proto = module(
        entry,
        host_program_shape={"result": {"element_type": 11, "layout": {}}},
        backend_config=b'{"a":1}',
        original_value_recovery_table={
            "entries": [
                {"old_original_array": {"instruction_name": "u"}, "new_original_array": {"instruction_name": "v"}}
            ]
        },
        debug_attributes=[
            {"original_array": {"instruction_name": "b", "shape_index": index}, "debug_attributes": records}
            for index, records in debugged
        ],
    )
    read, text = read_hlo(proto), read_hlo(CONFIGURED)
    assert read.to_text() == text.to_text() == CONFIGURED
    assert read.attributes == text.attributes
    assert read.entry.backend_config == text.entry.backend_config == 'x"y'


# ---- printing otherwise ----------------------------------------------------------------------------------------------


def test_what_was_read_from_text_is_printed_as_it_was_read() -> None:
    found = read_hlo(module_text("a = f32[] parameter(0)"))
    for option in ("print_large_constants", "sort_backend_config"):
        with pytest.raises(UnsupportedError, match="read from text"):
            found.to_text(**{option: True})


def test_keys_in_order() -> None:
    config = b'{"b":[{"z":1,"y":[]}, null],\n"a" : "x}"}'
    found = read_hlo(module(computation("e", 1, instruction("x", "iota", 1, backend_config=config))))
    assert 'backend_config={"a":"x}","b":[{"y":[],"z":1},null]}' in found.to_text(sort_backend_config=True)
    assert config.decode() in found.to_text()
    assert found.entry.root.backend_config == config.decode()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"b":1 "a":2}', '{"a":2,"b":1}'),
        ('{"a":1,}', '{"a":1}'),
        ('{"b":"\\"}", "a":-1.5e3}', '{"a":-1.5e3,"b":"\\"}"}'),
        ("[2, 1]", "[2,1]"),
        ('{b:1,"a":2}', '{b:1,"a":2}'),  # a name without quotes begins with no letter but f, t and n
        ('{"a":1', '{"a":1'),
        ('{"a":1}}', '{"a":1}}'),
        ('{"a" 1}', '{"a" 1}'),
        ('{"a": 1, [: 2}', '{"a": 1, [: 2}'),
        ("", ""),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)),
    ],
)
def test_what_is_no_json_stays_as_it_is(text: str, wanted: str) -> None:
    assert sorted_json(text) == wanted


def test_braces_are_counted_in_one_pass() -> None:
    assert is_json_object("{" * 100_000 + "}" * 100_000)
    assert not is_json_object('{"' * 100_000)
    assert not is_json_object("/*" * 100_000)
    assert sorted_json('{"a":' * 100_000) == '{"a":' * 100_000


def test_the_last_value_of_a_key_counts() -> None:
    pair = [bytes_field(1, bytes_field(1, b"k") + bytes_field(2, value)) for value in (b"one", b"two")]
    found = read_hlo(module(computation("e", 1, instruction("a", "iota", 1)), bytes_field(19, b"".join(pair))))
    assert found.frontend_attributes == {"k": "two"}
    assert 'frontend_attributes={k="two"}' in found.to_text()


# ---- asynchronous operations -----------------------------------------------------------------------------------------


def async_start(start: dict[str, Any] | None = None, **wrapped: Any) -> ProtoInstruction:
    body = computation("b", 1, instruction("p", "parameter", 1), instruction("n", "negate", 2, **wrapped), root=2)
    outer = computation("e", 2, instruction("s", "async-start", 3, called_computation_ids=[1], **(start or {})))
    found = read_hlo(module(body, outer, entry_computation_id=2)).entry.root
    assert isinstance(found, ProtoInstruction)
    return found


def test_a_start_says_what_its_body_says() -> None:
    inner, outer = {"map": {"a": "inner"}}, {"map": {"b": "outer"}}
    aliasing = [{"output_shape_index": [1], "operand_index": 0}]
    start = async_start({"output_operand_aliasing": aliasing}, frontend_attributes=inner)
    assert str(start).endswith(
        'negate-start(), frontend_attributes={a="inner"}, output_to_operand_aliasing={{1}: (0, {})}'
    )
    both = async_start({"frontend_attributes": outer}, frontend_attributes=inner)
    assert str(both).endswith('negate-start(), frontend_attributes={b="outer"}')


def test_a_start_may_say_a_name_twice() -> None:
    statistics = {"statistics_viz": {"statistics": [{"stat_name": "s"}]}}
    found = async_start(statistics, **statistics)
    once = "statistics={visualizing_index=0,s=0}"
    assert str(found).endswith(f"negate-start(), {once}, {once}")
    assert found.attributes == {"statistics": once.removeprefix("statistics=")}


def test_bodies_are_shown_where_updates_take_operands() -> None:
    body = computation("b", 1, instruction("p", "parameter", 1), instruction("n", "negate", 2), root=2)
    calls = {"called_computation_ids": [1]}
    start = instruction("s", "async-start", 3, **calls)
    for operands, shown in (([3], "negate"), ([3, 3], "async")):
        update = instruction("u", "async-update", 4, **calls, operand_ids=operands)
        done = instruction("d", "async-done", 5, **calls, operand_ids=[4])
        found = read_hlo(module(body, computation("e", 2, start, update, done, root=5), entry_computation_id=2))
        assert [i.opcode for i in found.entry.instructions] == [f"{shown}-{end}" for end in ("start", "update", "done")]
        assert [c.name for c in found.computations] == (["b", "e"] if shown == "async" else ["e"])
        assert ("calls=%b" in found.to_text()) == (shown == "async")


def test_a_body_that_is_asynchronous_itself_is_shown() -> None:
    calls = [{"called_computation_ids": [k]} for k in range(3)]
    inner = computation("a", 1, instruction("p", "parameter", 1), instruction("n", "negate", 2), root=2)
    body = computation("b", 2, instruction("q", "parameter", 3), instruction("s", "async-start", 4, **calls[1]), root=4)
    outer = computation("e", 3, instruction("t", "async-start", 5, **calls[2]))
    for computations in ((inner, body, outer), (outer, body, inner)):
        found = read_hlo(module(*computations, entry_computation_id=3))
        assert [i.opcode for i in found.instructions] == ["parameter", "negate-start", "async-start"]
        assert str(found.entry.root).endswith("async-start(), calls=%b")


def test_long_chains_of_asynchronous_updates_are_followed_once() -> None:
    parts = [instruction(name, "negate", k) for k, name in ((1, "m"), (2, "n"))]
    body = computation("b", 1, *parts, root=2)

    def chain(length: int) -> bytes:
        start = instruction("s", "async-start", 3, called_computation_ids=[1])
        more = [instruction(f"u{k}", "async-update", k + 1, operand_ids=[k]) for k in range(3, length + 3)]
        return module(body, computation("e", 2, start, *more), entry_computation_id=2)

    read_hlo(chain(1))  # all modules are loaded before work is counted
    check_linear(lambda size: partial(read_hlo, chain(size)), 30)


def test_the_main_thread_goes_without_saying() -> None:
    assert "thread" not in str(async_start({"async_execution_thread": "main"}))
    assert 'async_execution_thread="host"' in str(async_start({"async_execution_thread": "host"}))


# ---- messages that hold too much or too little -----------------------------------------------------------------------


def test_labels_are_not_made_for_dimensions_that_nobody_can_have() -> None:
    for dimension in (2**62, -1):
        numbers = {"input_feature_dimension": dimension}
        shown = entry_root(opcode="convolution", convolution_dimension_numbers=numbers)
        assert "dim_labels=/* no dimensions" in shown


def test_slice_sizes_that_are_not_there_are_not_printed() -> None:
    number, row = {"element_type": 4}, {"element_type": 4, "dimensions": [9]}
    buffers = instruction("b", "parameter", 1, shape=serialized("ShapeProto", **tuple_of(row, row)))
    starts = instruction(
        "s", "parameter", 2, shape=serialized("ShapeProto", **tuple_of(tuple_of(number), tuple_of(number)))
    )
    permute = instruction("c", "collective-permute", 3, operand_ids=[1, 1, 2, 2], dynamic_slice_sizes=[5])
    found = read_hlo(module(computation("e", 1, buffers, starts, permute, root=3))).entry.root
    assert found.attributes["slice_sizes"] == "{{5}}"
    assert entry_root(opcode="collective-permute", dynamic_slice_sizes=[3, 4]).endswith("slice_sizes={{3,4}}")


def original(*elements: tuple[list[int], str]) -> str:
    parts = [{"shape_index": index, "original_array": {"instruction_name": name}} for index, name in elements]
    return entry_root(original_value={"elements": parts})


def test_origins_with_gaps_are_filled_to_a_limit() -> None:
    assert original(([2, 1], "a"), ([0], "b")).endswith('origin={({"b"}, {}, ({}, {"a"}))}')
    assert original(([2**62], "a")).endswith(f"origin={{/* {2**62} elements of tuples are missing */}}")
    assert "elements of tuples are missing" in original(([-1], "a"))
    assert original(([0] * 5000, "a")).endswith("origin={/* tuples nested 5000 deep */}")
    assert original(([], "outer"), ([0], "a")).endswith('origin={({"a"})}')


def recovering(inner: bytes) -> bytes:
    """A module whose recovery table holds these bytes for a module."""
    old, new = ({"instruction_name": name} for name in ("old", "new"))
    arrays = serialized("OriginalValueRecoveryTableProto.Entry", old_original_array=old, new_original_array=new)
    table = bytes_field(1, arrays + bytes_field(3, inner))
    return module(computation("e", 1, instruction("a", "iota", 1)), bytes_field(20, table))


def test_modules_inside_modules_are_printed_to_a_depth() -> None:
    data = module(computation("e", 1, instruction("a", "iota", 1)))
    for _ in range(40):
        data = recovering(data)
    assert read_hlo(data).to_text().count("HloModule") == 17
    assert "/* modules nested more than 16 deep */" in read_hlo(data).to_text()


def test_a_broken_module_inside_a_module_is_named() -> None:
    table = read_hlo(recovering(b"\xff")).attributes["origin_recovery_table"]
    assert table.startswith('{\n  {"old"} : {"new"} /* ')


def sharding(shape: dict[str, Any] = F32, **fields: Any) -> str:
    shown = entry_root(opcode="iota", shape=serialized("ShapeProto", **shape), sharding=fields)
    return shown.partition("sharding=")[2]


def test_shardings_print_their_metadata_and_tuples_each_leaf() -> None:
    made, pair = {"metadata": [{"op_name": "op"}]}, tuple_of(F32, tuple_of(F32))
    shown = '{replicated metadata={op_name="op"}}'
    assert sharding(**made) == shown
    assert sharding(pair, **made) == f"{{{shown}, {shown}}}"
    assert sharding(pair, type=2, tuple_shardings=[made, {"type": 4}]) == f"{{{shown}, {{manual}}}}"
    twice = [{"op_name": "op"}, {"deduplicated_name": "d"}]
    assert sharding(metadata=twice) == '{replicated metadata={{op_name="op"}, {deduplicated_name="d"}}}'


def test_a_long_sharding_of_a_wide_tuple_is_printed_once() -> None:
    metadata = [{"op_name": "o" * 10_000}]
    assert sharding(tuple_of(*[F32] * 1000), metadata=metadata).count("replicated") == 1


def test_one_device_without_a_number() -> None:
    alone = {"type": 1, "tile_assignment_devices": [-1]}
    assert sharding(**alone) == "{maximal device=-1}"
    assert sharding(tuple_of(F32, F32), type=2, tuple_shardings=[alone, {}]) == "{{maximal device=-1}, {replicated}}"
    nested = sharding(tuple_of(F32, F32), type=2, tuple_shardings=[alone, {"type": 2, "tuple_shardings": [{}]}])
    assert nested.startswith("{/*"), "no text is that of a tuple in a tuple"
    with pytest.raises(DumpError, match="at least 0, found -2"):
        Sharding.from_proto(serialized("OpSharding", type=1, tile_assignment_devices=[-2]))


def test_metadata_that_only_tell_names_apart_are_not_printed() -> None:
    assert "metadata" not in entry_root(metadata={"deduplicated_name": "d"})
    shown = entry_root(metadata={"op_name": "o", "deduplicated_name": "d"})
    assert shown.endswith('metadata={op_name="o" deduplicated_name="d"}')


def test_tuple_constants_of_another_shape_are_refused() -> None:
    literal = {"shape": tuple_of(F32), "tuple_literals": [{"shape": F32, "f32s": [0]}]}

    def constant(*shapes: Any) -> bytes:
        shape = serialized("ShapeProto", **tuple_of(*shapes))
        return module(computation("e", 1, instruction("c", "constant", 1, shape=shape, literal=literal)))

    right = read_hlo(constant(F32))
    assert "constant(( 0 ))" in right.to_text(print_large_constants=True)
    assert "constant({...})" in right.to_text()
    with pytest.raises(DumpError, match=r"a constant .* whose literal is"):
        read_hlo(constant(F32, F32)).to_text(print_large_constants=True)


def test_parts_of_complex_numbers_show_which_nan_they_are() -> None:
    parts = np.uint32([0x7FC00000, 0xFF800007, 0xFFC00000, 0x3F800000]).view(np.complex64)
    assert array_text(parts, "c64") == "{(nan, -nan(0x7)), (-nan, 1)}"


def test_rows_without_elements_are_printed_to_a_limit() -> None:
    for sizes, shown in (([3, 0], "{ {}, {}, {} }"), ([0, 1 << 40], "{  }"), ([1 << 40, 0], "{...}")):
        fields = {"element_type": 11, "dimensions": sizes, "layout": {"minor_to_major": [1, 0]}}
        shape = serialized("ShapeProto", **fields)
        constant = instruction("c", "constant", 1, shape=shape, literal={"shape": fields})
        assert f"constant({shown})" in read_hlo(module(computation("e", 1, constant))).to_text()
