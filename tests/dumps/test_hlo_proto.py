"""HLO protos: printed as XLA prints them, and never trusted."""

from __future__ import annotations

import random
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.dumps.hlo import read_hlo
from strided.dumps.hlo.proto import find_module
from strided.dumps.hlo.proto_instruction import ProtoInstruction
from strided.dumps.protobuf import decode as hlo_messages
from strided.dumps.protobuf import schema
from strided.dumps.protobuf.wire import BYTES, VARINT, bytes_field, fields, integer_field, tag, varint
from strided.errors import DumpError, DumpWarning
from tests.hlo_samples import PAIRS, ask_everything, proto_of, recorded
from tests.protos import merged, message_class, serialized

Fields = dict[str, Any]

SCALAR = serialized("ShapeProto", element_type=11)


def instruction(name: str, opcode: str, id: int, *more: bytes, shape: bytes = SCALAR, **fields: Any) -> Any:
    """An HloInstructionProto, f32[] unless said otherwise; `more` are further fields on the wire."""
    return merged("HloInstructionProto", bytes_field(3, shape), *more, name=name, opcode=opcode, id=id, **fields)


def computation(name: str, id: int, *instructions: Any, root: int = 0) -> Any:
    return message_class("HloComputationProto")(name=name, instructions=instructions, id=id, root_id=root)


def module(*parts: Any, **fields: Any) -> bytes:
    """The bytes of an HloModuleProto of computations; parts of bytes are further fields on the wire."""
    computations = [part for part in parts if not isinstance(part, bytes)]
    fields = {"name": "m", "entry_computation_name": "e", "computations": computations, **fields}
    return serialized("HloModuleProto", **fields) + b"".join(part for part in parts if isinstance(part, bytes))


# ---- printing --------------------------------------------------------------------------------------------------------


def test_constants_print_as_xla_prints_them() -> None:
    rows = recorded("constants.json.gz")
    assert [str(read_hlo(data).entry.root) for _, data in rows] == [line for line, _ in rows]


def test_constants_come_out_as_arrays() -> None:
    found = read_hlo(proto_of("every_opcode")).instruction("cst")
    assert np.asarray(found.value).tolist()[0] == [1.0, 2.0]
    assert str(found.value.xla_shape) == "f32[2,2]{0,1}"
    assert read_hlo(proto_of("every_opcode")).instruction("p").value is None


def test_a_constant_of_another_shape_than_its_literal_is_refused() -> None:
    literal = {"shape": {"element_type": 4}, "s32s": [3]}
    found = read_hlo(module(computation("e", 1, instruction("c", "constant", 1, literal=literal)))).entry.root
    with pytest.raises(DumpError, match="a constant f32"):
        _ = found.literal


#: Fields that no text can set, with what XLA's printer made of them.
RARE: list[tuple[Fields, str]] = [
    ({"conv_kind": 2}, "convolution_kind=dgrad"),
    (
        {"sparsity_config": {"rhs": {"num_non_zero": 2, "block_size": 4, "stride": 8}}},
        "sparsity_config={rhs={sparsity=2x4 dimension=0 stride=8}}",
    ),
    ({"backend_config_payload": {"value": b'{"a":1}'}}, 'backend_config={"a":1}'),
    ({"backend_config_payload": {"value": b"raw"}}, 'backend_config="raw"'),
    ({"backend_config_payload": {"id": 1}}, 'backend_config="two"'),
    ({"original_value": {"is_synthetic_call": True}}, "origin={[synthetic_call]}"),
    ({"result_accuracy": {"mode": 1}}, "result_accuracy={mode=highest}"),
    ({"metadata": {"metadata_payload": {"value": b"p"}}}, 'metadata={metadata_payload="p"}'),
]


@pytest.mark.parametrize(("fields", "printed"), RARE, ids=[printed for _, printed in RARE])
def test_fields_that_no_text_sets(fields: Fields, printed: str) -> None:
    numbers = {
        "input_feature_dimension": 1,
        "kernel_output_feature_dimension": 1,
        "output_feature_dimension": 1,
    }
    one = instruction("c", "convolution", 1, convolution_dimension_numbers=numbers, **fields)
    data = module(computation("e", 1, one), payloads=[b"one", b"two"])
    assert str(read_hlo(data).entry.root) == f"ROOT %c = f32[] convolution(), dim_labels=bf_io->bf, {printed}"


def test_values_of_protos_need_no_text() -> None:
    stack = {"file_names": ["f.py"], "file_locations": [{"file_name_id": 1, "line": 7}]}
    stack["stack_frames"] = [{"file_location_id": 1}]
    attributes = {"map": {"b": '{"x":"\\n"}', "a": 'say "hi"'}}
    metadata = {"op_name": "f", "source_line": 7, "profile_type": [1, 2], "stack_frame_id": 1}
    more = {"metadata": metadata, "frontend_attributes": attributes, "backend_config": b'{"k":"\\t"}'}
    found = read_hlo(
        module(
            computation("e", 1, instruction("a", "iota", 1, **more)),
            frontend_attributes=attributes,
            stack_frame_index=stack,
        )
    )
    root = found.entry.root
    assert root.metadata == {"op_name": "f", "source_line": 7, "profile_type": "{1,2}", "stack_frame_id": 1}
    assert root.frontend_attributes == found.frontend_attributes == attributes["map"]
    assert root.backend_config == '{"k":"\\t"}'
    assert [(frame.file, frame.line) for frame in root.stack] == [("f.py", 7)]
    again = read_hlo(found.to_text()).entry.root
    assert (again.metadata, again.backend_config) == (root.metadata, root.backend_config)
    assert again.frontend_attributes == root.frontend_attributes


def test_numbers_without_a_name_are_printed_as_numbers() -> None:
    data = module(computation("e", 1, instruction("c", "fft", 1, fft_type=77)))
    assert read_hlo(data).entry.root.attributes["fft_type"] == "77"


def test_an_opcode_of_tomorrow_prints_what_is_known() -> None:
    one = instruction("c", "quantum-dot", 1, integer_field(9999, 3), dimensions=[2, 1])
    data = module(computation("e", 1, one))
    assert str(read_hlo(data).entry.root) == "ROOT %c = f32[] quantum-dot(), dimensions={2,1}"


# ---- structure -------------------------------------------------------------------------------------------------------


def test_asynchronous_operations_go_by_their_body() -> None:
    found = read_hlo(proto_of("host_compute_offload_params"))
    start = found.find(opcode="custom-call-start")[0]
    assert isinstance(start, ProtoInstruction)
    assert start.async_body is not None
    assert start.async_body not in found.computations
    assert start.async_body.module is found
    assert start.async_body.root.opcode == "custom-call"
    assert found.find(opcode="custom-call-done")


def test_bodies_of_more_than_one_instruction_stay() -> None:
    negate = instruction("n", "negate", 2, operand_ids=[1])
    body = computation(
        "w", 1, instruction("p", "parameter", 1), negate, instruction("a", "abs", 3, operand_ids=[2]), root=3
    )
    start = instruction("s", "async-start", 4, called_computation_ids=[1])
    found = read_hlo(module(body, computation("e", 2, start)))
    kept = found.entry.root
    assert isinstance(kept, ProtoInstruction)
    assert (kept.opcode, kept.async_body) == ("async-start", None)
    assert [one.name for one in found.computations] == ["w", "e"]


def test_old_protos_flag_a_prefetch() -> None:
    data = module(computation("e", 1, instruction("c", "copy-start", 1, is_cross_program_prefetch=True)))
    assert read_hlo(data).entry.root.attributes == {"cross_program_prefetch_index": "0"}


def test_the_schedule_orders_the_instructions() -> None:
    two = computation("e", 7, instruction("a", "iota", 1), instruction("b", "iota", 2), root=2)

    def scheduled(*order: int) -> bytes:
        schedule = message_class("HloScheduleProto")()
        schedule.sequences[7].instruction_ids.extend(order)
        return module(two, schedule=schedule)

    assert [i.name for i in read_hlo(scheduled(2, 1)).instructions] == ["b", "a"]
    assert read_hlo(scheduled(2, 1)).entry.root.name == "b"
    assert [i.name for i in read_hlo(scheduled(2, 2)).instructions] == ["a", "b"]


def test_computations_that_call_each_other_in_a_ring_are_all_there() -> None:
    ring = [
        computation(name, n, instruction(name * 2, "call", n, called_computation_ids=[3 - n]))
        for n, name in ((1, "a"), (2, "b"))
    ]
    assert sorted(c.name for c in read_hlo(module(*ring)).computations) == ["a", "b"]


def test_ids_that_nobody_has_are_named() -> None:
    ids = {"operand_ids": [99], "called_computation_ids": [98], "control_predecessor_ids": [97]}
    found = read_hlo(module(computation("e", 1, instruction("c", "call", 1, **ids)))).entry.root
    assert str(found) == "ROOT %c = f32[] call(%?99), to_apply=%?98, control-predecessors={%?97}"
    for question in ("operands", "called_computations", "control_predecessors"):
        with pytest.raises(DumpError, match="holds no"):
            getattr(found, question)


def test_a_device_assignment_tells_replicas_and_partitions() -> None:
    one = computation("e", 1, instruction("a", "iota", 1))
    found = read_hlo(module(one, device_assignment={"replica_count": 2, "computation_count": 8}))
    assert (found.replica_count, found.num_partitions) == (2, 8)
    assert read_hlo(module(one)).num_partitions == 1


# ---- where modules lie -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_module_is_found_inside_other_messages(depth: int) -> None:
    data = proto_of("frames")
    wrapped = data
    for _ in range(depth):
        wrapped = bytes_field(1, wrapped)
    assert bytes(find_module(memoryview(wrapped))[0]) == data
    delimited = varint(len(wrapped)) + wrapped + b"\xff" * 9  # as in files of unoptimized snapshots
    assert bytes(find_module(memoryview(delimited))[0]) == data


def test_a_buffer_assignment_is_not_taken_for_a_computation() -> None:
    data = proto_of("while_loop.after_optimizations")  # an HloProto, whose field 3 is its buffer assignment
    assert read_hlo(data).entry.name == "main.3"


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_shapes_that_cannot_be_read_are_counted_once() -> None:
    shape = serialized("ShapeProto", element_type=11, dimensions=[2], layout={"minor_to_major": [7]})
    bad = instruction("b", "iota", 2, shape=shape)
    with pytest.warns(DumpWarning, match="1 instruction has a shape that cannot be read: b: .*LayoutProto|ShapeProto"):
        found = read_hlo(module(computation("e", 1, instruction("a", "iota", 1), bad)))
    assert [i.name for i in found.find(shape="f32[]")] == ["a"]
    assert found.instruction("b").shape is None
    assert "?" in found.entry.signature


@pytest.mark.parametrize("name", ["frames", "host_compute_offload_params"])
def test_truncation_at_every_byte(name: str) -> None:
    data = proto_of(name)
    for end in range(0, len(data), 1 if len(data) < 1000 else 37):
        try:
            ask_everything(read_hlo(data[:end]))
        except DumpError as error:
            assert str(error)  # noqa: PT017  (most cuts leave a module that is whole so far)


def test_nothing_is_allocated_on_a_claim() -> None:
    huge = instruction("c", "constant", 1, shape=serialized("ShapeProto", element_type=11, dimensions=[2**60]))
    found = read_hlo(module(computation("e", 1, huge)))
    assert str(found.entry.root) == f"ROOT %c = f32[{2**60}]{{0}} constant({{...}})"


def test_messages_nest_to_a_limit() -> None:
    # Deeper than the protobuf library goes, so written by hand.
    shape = integer_field(2, 11)
    for _ in range(200):
        shape = integer_field(2, 13) + bytes_field(4, shape)
    one = serialized("HloInstructionProto", name="a", opcode="iota", id=1) + bytes_field(3, shape)
    data = module() + bytes_field(3, serialized("HloComputationProto", name="e", id=1) + bytes_field(2, one))
    with pytest.warns(DumpWarning, match="nested more than"):
        read_hlo(data)
    with pytest.raises(DumpError, match="nested more than"):
        hlo_messages.decode("Window", memoryview(b""), depth=1000)


def tree(message: str, view: memoryview) -> list[list[Any]]:
    """A message as nested lists of number, kind, type of the message inside, value."""
    known = {field.number: field for field in schema.messages()[message].values()}
    found = []
    for number, kind, value, _ in fields(view, message):
        inner = known[number].type if number in known and kind == BYTES else ""
        if inner in schema.messages():
            found.append([number, kind, inner, tree(inner, value)])
        else:
            found.append([number, kind, "", value if kind == VARINT else bytes(value)])
    return found


def built(nodes: list[list[Any]]) -> bytes:
    parts = []
    for number, kind, inner, value in nodes:
        if kind == VARINT:
            parts.append(tag(number, kind) + varint(value))
        elif kind == BYTES:
            parts.append(bytes_field(number, built(value) if inner else value))
        else:
            parts.append(tag(number, kind) + value)
    return b"".join(parts)


def divided(message: str, nodes: list[list[Any]], chance: random.Random) -> list[list[Any]]:
    """The same message, of which many singular messages inside come in two parts, as protobuf allows."""
    known = {field.number: field for field in schema.messages()[message].values()}
    found = []
    for number, kind, inner, value in nodes:
        parts = [divided(inner, value, chance) if inner else value]
        if inner and len(parts[0]) > 1 and not known[number].repeated and chance.random() < 0.5:
            middle = chance.randrange(1, len(parts[0]))
            parts = [parts[0][:middle], parts[0][middle:]]
        found += [[number, kind, inner, part] for part in parts]
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_messages_in_several_parts_are_one(name: str) -> None:
    view, _ = find_module(memoryview(proto_of(name)))
    whole = tree("HloModuleProto", view)
    parts = built(divided("HloModuleProto", whole, random.Random(5)))
    assert len(parts) > len(view)
    found, wanted = read_hlo(parts), read_hlo(built(whole))
    assert found.to_text(print_large_constants=True) == wanted.to_text(print_large_constants=True)
    assert found.entry_layout == wanted.entry_layout
    assert [i.metadata for i in found.instructions] == [i.metadata for i in wanted.instructions]
    middle = len(built(whole[: len(whole) // 2]))
    outer = bytes_field(1, view[:middle]) + bytes_field(1, view[middle:])  # an HloProto
    assert read_hlo(outer).to_text() == wanted.to_text()


@pytest.mark.slow
def test_very_many_parts_of_a_message_take_little_more_memory_than_their_bytes() -> None:
    parts = bytes_field(7, b"") * 100_000  # OpMetadata
    one = instruction("x", "add", 1).SerializeToString() + parts
    data = bytes_field(1, b"m") + bytes_field(3, bytes_field(2, one))
    read_hlo(data)  # all modules are loaded before memory is counted
    tracemalloc.start()
    try:
        assert read_hlo(data).entry.root.metadata == {}
        assert tracemalloc.get_traced_memory()[1] < 4 * len(data)
    finally:
        tracemalloc.stop()


def test_numbers_of_32_bits_are_cut_as_protobuf_cuts_them() -> None:
    for message, field in (("OpMetadata", "source_line"), ("StackFrameIndexProto.FileLocation", "line")):
        number = schema.messages()[message][field].number
        for value in (7, -7, 2**31 - 1, -(2**31)):
            data = tag(number, VARINT) + varint(value % 2**32 + (5 << 32))
            assert hlo_messages.decode(message, memoryview(data))[field] == value
            assert hlo_messages.Fields(message, memoryview(data)).integer(field) == value
            assert getattr(message_class(message).FromString(data), field) == value


def places(nodes: list[list[Any]]) -> list[tuple[list[list[Any]], int]]:
    found = []
    for n, node in enumerate(nodes):
        found.append((nodes, n))
        if node[2]:
            found += places(node[3])
    return found


NUMBERS = [0, 1, 2, 3, 5, 100, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
TEXTS = [
    b"",
    b"\xff" * 9,
    b"async-start",
    b"async-done",
    b"constant",
    b"conditional",
    b'{"a":}',
    b"while",
    b"tuple",
    b"sort",
]
TREES = [tree("HloModuleProto", find_module(memoryview(proto_of(name)))[0]) for name in PAIRS]


def mangle(nodes: list[list[Any]], chance: random.Random) -> None:
    """Change some fields of a message: drop, repeat, swap, renumber, other numbers, other bytes."""
    for _ in range(chance.randint(1, 6)):
        outer, n = chance.choice(places(nodes))
        node, change = outer[n], chance.random()
        if change < 0.15:
            del outer[n]
        elif change < 0.3:
            outer.insert(n, list(node))
        elif change < 0.45:
            m = chance.randrange(len(outer))
            outer[n], outer[m] = outer[m], outer[n]
        elif change < 0.55:
            node[0] = chance.randint(1, 100)
        elif node[1] == VARINT:
            node[3] = chance.choice([*NUMBERS, node[3] + 1 & 2**64 - 1])
        else:
            node[2], node[3] = "", chance.choice(TEXTS) if node[1] == BYTES else node[3]
        if not nodes:
            return


@given(st.sampled_from(range(len(TREES))), st.randoms(use_true_random=False))
def test_mangled_protos_end_in_a_module_or_a_dump_error(which: int, chance: random.Random) -> None:
    nodes = tree("HloModuleProto", memoryview(built(TREES[which])))
    mangle(nodes, chance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DumpWarning)
        try:
            assert ask_everything(read_hlo(built(nodes))) > 0
        except DumpError as error:
            assert str(error)  # noqa: PT017  (some changes leave a module)


@given(st.binary(max_size=200))
def test_bytes_at_random_end_in_a_dump_error(data: bytes) -> None:
    with pytest.raises(DumpError, match="byte 0: expected a field of HloModuleProto, found the tag 0"):
        read_hlo(b"\x00" + data)
