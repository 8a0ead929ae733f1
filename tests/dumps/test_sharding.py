"""Shardings: text and protos as XLA reads and prints them, and the slice of every device."""

from __future__ import annotations

import gzip
import json
import math
import pickle
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import strided as sd
from strided.dumps.sharding.sharding import Sharding
from strided.dumps.sharding.tile_assignment import MAX_LISTED, MAX_UNEVEN, TileAssignment
from strided.errors import DumpError, LayoutError, NotationError, UnsupportedError
from tests import paths
from tests.jaxlib_release import skip_with_other_words
from tests.protos import parsed, serialized
from tests.steps import check_linear
from tests.thinned import thinned

DATA = paths.DATA / "sharding"
TEXTS = json.loads((DATA / "sharding_text_cases.json").read_text(encoding="utf-8"))
CASES = json.loads((DATA / "sharding_cases.json").read_text(encoding="utf-8"))
RECORDED = json.loads(gzip.decompress((DATA / "recorded.json.gz").read_bytes()))

#: XLA's parser takes these, its verifier refuses what they say; we refuse them at once.
MALFORMED = {
    "{devices=[-2,4]<=[8]}": "[-2,4] needs sizes of at least 1, found -2",
    "{devices=[2,4]<=[-8]}": "[-8] needs sizes of at least 1, found -8",
    "{devices=[2]0,1,2}": "[2] has 2 cells, but 3 devices are listed",
    "{devices=[2,2]<=[8]}": "[2,2] has 4 cells, <=[8] 8 devices",
    "{devices=[2,4]0,1,2}": "[2,4] has 8 cells, but 3 devices are listed",
    "{maximal device=-1}": "a device number is at least 0, found -1",
    "{devices=[0,4]<=[8]}": "[0,4] needs sizes of at least 1, found 0",
    "{devices=[2,4]<=[2,4]T(0,0)}": "T(0,0) is no permutation of the dimensions of [2,4]",
}

#: What is said of the texts that XLA's parser refuses, too.
REFUSED = {
    "{mesh['x'=2,'y'=4], [{'z'}]}": "the mesh has no axis 'z'",
    "{mesh['x'=2,'y'=2],device_ids=(3,2,1), [{'x'}, {'y'}]}": "[2,2] has 4 cells, but 3 devices are listed",
    "{devices=[2,2,2]<=[8] last_tile_dim_replicate last_tile_dims={manual}}": "exclude each other",
    "{replicated device=3}": "a sharding that is replicated lists no devices",
    "{replicated devices=[2]0,1}": "a sharding that is replicated lists no devices",
    "{devices=[2,4]<=[2,4]T(0,2)}": "T(0,2) is no permutation of the dimensions of [2,4]",
    "{devices=[2,4]<=[2,4]T(-1,0)}": "T(-1,0) is no permutation of the dimensions of [2,4]",
    "{devices=[8]<=[8]T(0)}": "T(...) orders the dimensions of an iota: [8] has only one",
    "{{}}": "expected replicated, maximal, manual, unknown, unreduced or devices=",
    "{devices=[2,4]<=[4,2]}": "expected T(...) to order the 2 dimensions of the iota, found '}'",
    "{devices=[1]0}": "one device alone is written {maximal device=...}",
    "{maximal}": "a maximal sharding needs its one device: maximal device=0",
    "{REPLICATED}": "another part of a sharding or '}', found 'REPLICATED'",
    "replicated": "expected '{' to open a sharding, found 'replicated'",
    "sharding={replicated}": "expected '{' to open a sharding, as after 'sharding=', found 'sharding'",
    "{replicated": "another part of a sharding or '}', found the end",
    "{devices=[2,4]<=[8],last_tile_dim_replicate}": "another part of a sharding or '}', found ','",
    "{devices=[2,4]<=[8]T(1,0)}": "T(...) orders the dimensions of an iota: [8] has only one",
    "{devices=[2,4]<=[2,4]}": "expected T(...) to order the 2 dimensions of the iota, found '}'",
    "{devices=[4,2]<=[2,4]T(1)}": "T(1) is no permutation of the dimensions of [2,4]",
    "{mesh[x=2], [{x}]}": "expected the quoted name of an axis, found 'x'",
}


def name(row: Any) -> str:
    return row.get("input") or row["sharding"] + str(row["global_shape"])


# ---- as XLA says ----


@pytest.mark.parametrize("row", [row for row in TEXTS if row["input"] not in MALFORMED], ids=name)
def test_texts_are_judged_as_xla_does(row):
    if row["accepted"]:
        assert str(Sharding.parse(row["input"])) == row["canonical"]
    else:
        with pytest.raises(NotationError, match=re.escape(REFUSED[row["input"]])):
            Sharding.parse(row["input"])


@pytest.mark.parametrize("text", sorted(MALFORMED))
def test_texts_whose_numbers_contradict_each_other_are_refused(text):
    with pytest.raises(NotationError, match=re.escape(MALFORMED[text])):
        Sharding.parse(text)


@pytest.mark.parametrize("row", [row for row in CASES if row["indices"] is not None], ids=name)
def test_slices_are_those_of_xla(row):
    sharding = Sharding.parse(row["sharding"])
    slices = sharding.slices(row["global_shape"], num_devices=row["num_devices"])
    held = [None if one is None else [[s.start, s.stop] for s in one] for one in slices]
    assert held == row["indices"]
    assert list(sharding.shard_shape(row["global_shape"])) == row["shard_shape"]
    assert str(sharding) == row["canonical"]
    if "v2_equivalent" in row:
        assert str(sharding.unnamed()) == row["v2_equivalent"]


def test_recorded_shardings_print_and_cut_as_in_xla():
    for row in RECORDED:
        sharding = Sharding.parse(row["text"])
        assert str(sharding) == row["canonical"]
        assert str(sharding.unnamed()) == row["unnamed"], row["text"]
        if "grid" in row:
            assert list(sharding.grid.dimensions) == row["grid"]
            assert sharding.grid.array().reshape(-1).tolist() == row["devices"]
            assert [sharding.grid.device_in(cell) for cell in np.ndindex(*row["grid"])] == row["devices"]
            assert list(sharding.shard_shape(row["dims"])) == row["shard"]


def check_proto(sharding: Sharding) -> None:
    """The protobuf library reads the proto, finds the same in it, and writes it back."""
    found = parsed("OpSharding", sharding.to_proto())
    again = found.SerializeToString(deterministic=True)
    found.DiscardUnknownFields()
    assert found.SerializeToString(deterministic=True) == again
    assert Sharding.from_proto(again) == sharding
    if sharding.named is not None:
        names = [axis.name for axis in found.named_sharding.mesh.axes]
        assert (names, found.type) == (list(sharding.named.mesh.names), 0)
        return
    assert found.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[found.type].name == {
        "tiled": "OTHER"
    }.get(sharding.kind, sharding.kind.upper())
    assert len(found.tuple_shardings) == len(sharding.elements)
    if sharding.grid is not None:
        assert tuple(found.tile_assignment_dimensions) == sharding.grid.dimensions
        assert tuple(found.tile_assignment_devices) == sharding.grid.devices


def test_recorded_protos_say_the_same_as_their_texts():
    for row in RECORDED:
        sharding = Sharding.from_proto(bytes.fromhex(row["proto"]))
        assert sharding == Sharding.parse(row["canonical"]), row["text"]
        assert Sharding.from_proto(sharding.to_proto()) == sharding
        check_proto(sharding)


@pytest.mark.parametrize(
    ("text", "whole", "local"), json.loads((DATA / "partitioned.json").read_text(encoding="utf-8"))
)
def test_shard_shapes_are_those_of_xlas_partitioner(text, whole, local):
    assert list(Sharding.parse(text).shard_shape(whole)) == local


# ---- text ----


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ("{devices=[2,4]<=[2,4]}", "expected T(...) to order the 2 dimensions of the iota, found '}'", 21),
        ("{devices=[2,4]<=[9]}", "[2,4] has 8 cells, <=[9] 9 devices", 9),
        ("{devices=[2,2]0,1,1,2}", "device 1 is listed twice", 9),
        ("{replicated, manual}", "expected replicated, maximal", 11),
        ("{replicated manual}", "'manual' contradicts or repeats an earlier word", 12),
        ("{mesh['x'=2], [{'y'}]}", "the mesh has no axis 'y'", 16),
        ("{mesh['x'=8], [{'x':(2)8}]}", "'x':(2)8 is no part of an axis of size 8", 6),
        ("{mesh['x'=2], [{'x'}, {'x'}]}", "'x' and 'x' overlap", 6),
        ("{mesh['x'=8], [{'x':(1)2, 'x':(2)4}]}", "should be one axis", 6),
        ("{mesh['x'=2,'x'=4], replicated}", "the mesh has two axes named 'x'", 6),
        ("{mesh['x'=2,'y'=2], [], manual={'y', 'x'}}", "should stand in the order of the mesh", 6),
        (
            "{devices=[2]<=[2] last_tile_dims={manual,manual}}",
            "2 kinds of last_tile_dims= for 1 dimension of the grid",
            1,
        ),
        ("{mesh['x'=2], [{}], {}}", "expected replicated=, unreduced=, manual= or metadata=, found '{'", 20),
        ("{mesh['x'=2], [{}], spare={}}", "manual= or metadata=, found 'spare='", 20),
        ("{mesh['x'=2], manual, replicated={'x'}}", "expected metadata=, found 'replicated='", 22),
        ("{mesh['x'=2],device_ids=([2]T(0)), [{}]}", "T(...) orders the dimensions of an iota: [2] has", 28),
        ("{devices=[2]<=[2]", "found the end", 17),
        ("{devices=[99999999999999999999]<=[2]}", "should fit 64 bits", 10),
        ("{maximal}", "a maximal sharding needs its one device", 1),
        ("{replicated} x", "expected nothing after the sharding, found 'x'", 13),
    ],
)
def test_a_refusal_says_what_and_where(text, words, position):
    with pytest.raises(NotationError, match=re.escape(words)) as caught:
        Sharding.parse(text)
    assert caught.value.position == position


def test_blanks_and_comments_stand_anywhere():
    text = "\t{ /* a */ devices=[ 4 , 2 ] <= [2, 4] T (1,0) // here\n last_tile_dim_replicate }\n"
    assert str(Sharding.parse(text)) == "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"


def test_metadata_are_kept_but_neither_printed_nor_compared():
    sharding = Sharding.parse('{replicated metadata={{op_name="a}"}, {op_name="b" source_line=3}}}')
    assert sharding.metadata == ('op_name="a}"', 'op_name="b" source_line=3')
    assert str(sharding) == "{replicated}"
    assert sharding == Sharding.parse("{replicated}")
    assert Sharding.parse(sharding.text(metadata=True)).metadata == sharding.metadata
    named = Sharding.parse("{mesh['x'=2], [{'x'}], metadata={op_name=\"c\"}}")
    assert named.text(metadata=True) == "{mesh['x'=2], [{'x'}], metadata={{op_name=\"c\"}}}"  # as XLA prints it


def test_axis_names_with_quotes_survive_a_round_trip():
    sharding = Sharding.parse("""{mesh["it's"=2,'a\\\\b'=3], [{"it's"}, {'a\\\\b'}]}""")
    assert sharding.named.mesh.names == ("it's", "a\\b")
    assert Sharding.parse(str(sharding)) == sharding


def test_a_list_of_devices_that_goes_without_saying_is_not_printed():
    assert str(Sharding.parse("{mesh['x'=2,'y'=2],device_ids=(0,1,2,3), [{'x'}]}")) == "{mesh['x'=2,'y'=2], [{'x'}]}"
    with pytest.raises(NotationError, match=r"0, 1, 2, \.\.\. in some order"):
        Sharding.parse("{mesh['x'=2],device_ids=(4,5), [{'x'}]}")


def test_a_tuple_has_an_element_for_each_leaf():
    sharding = Sharding.parse("{" + ", ".join(["{replicated}", "{devices=[2]<=[2]}"] * 3) + "}")
    assert [element.kind for element in sharding.elements] == ["replicated", "tiled"] * 3
    assert "/*index=5*/{devices=[2]<=[2]}}" in str(sharding)
    assert Sharding.parse("{}").elements == ()
    with pytest.raises(UnsupportedError, match="take one of its elements"):
        sharding.slices((4,))


def test_no_element_of_a_tuple_is_a_tuple():
    """Text has no way to write it."""
    inner = Sharding.parse("{{replicated}}").to_proto()
    with pytest.raises(DumpError, match="OpSharding: a tuple has a sharding for each leaf, and none is a tuple again"):
        Sharding.from_proto(serialized("OpSharding", type=2, tuple_shardings=[parsed("OpSharding", inner)]))


def test_values_print_themselves_and_can_be_pickled():
    for row in RECORDED[:100]:
        sharding = Sharding.parse(row["text"])
        assert eval(repr(sharding)) == sharding
        assert hash(pickle.loads(pickle.dumps(sharding))) == hash(sharding)


# ---- slices ----


@st.composite
def grids(draw: st.DrawFn) -> tuple[str, np.ndarray, int]:
    """A grid's text, its devices by NumPy, and how many of its last dimensions hold copies."""
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    count = math.prod(dims)
    copies = draw(st.integers(0, 1)) if len(dims) > 1 and math.prod(dims[:-1]) > 1 else 0
    shown = ",".join(map(str, dims))
    tail = " last_tile_dim_replicate" if copies else ""
    if draw(st.booleans()) and count > 1:
        devices = np.array(draw(st.permutations(range(count)))).reshape(dims)
        return f"{{devices=[{shown}]{','.join(map(str, devices.flat))}{tail}}}", devices, copies
    sizes = draw(st.permutations(dims))
    order = draw(st.permutations(range(len(sizes))))
    devices = np.arange(count).reshape(sizes).transpose(order).reshape(dims)
    perm = f"T({','.join(map(str, order))})" if len(sizes) > 1 else ""
    return f"{{devices=[{shown}]<=[{','.join(map(str, sizes))}]{perm}{tail}}}", devices, copies


@given(grids(), st.data())
def test_slices_are_those_of_a_plain_loop(grid, data):
    text, devices, copies = grid
    rank = devices.ndim - copies
    dims = data.draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank))
    sharding = Sharding.parse(text)
    assert sharding.num_devices == devices.size
    slices = sharding.slices(dims)
    for cell, device in np.ndenumerate(devices):
        steps = [-(-size // count) for size, count in zip(dims, devices.shape, strict=False)]
        places = list(zip(cell, steps, dims, strict=False))
        want = [(min(k * step, size), min((k + 1) * step, size)) for k, step, size in places]
        assert [(s.start, s.stop) for s in slices[int(device)]] == want
        assert sharding.shard_shape(dims) == tuple(steps)


@given(grids())
def test_text_and_proto_round_trip(grid):
    sharding = Sharding.parse(grid[0])
    check_proto(sharding)
    assert Sharding.parse(str(sharding)) == sharding
    assert Sharding.from_proto(sharding.to_proto()) == sharding


def test_uneven_dimensions_end_in_short_and_empty_tiles():
    slices = Sharding.parse("{devices=[8]<=[8]}").slices((9,))
    assert [s.stop - s.start for (s,) in slices] == [2, 2, 2, 2, 1, 0, 0, 0]


def test_a_replicated_sharding_answers_for_any_device_and_counts_none():
    slices = Sharding.parse("{replicated}").slices((3, 4))
    assert slices[12345] == (slice(0, 3), slice(0, 4))
    with pytest.raises(TypeError, match="pass num_devices"):
        len(slices)
    with pytest.raises(IndexError, match="out of range"):
        slices[-1]
    assert len(Sharding.parse("{replicated}").slices((3,), num_devices=2)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[1,3]<=[3] last_tile_dim_replicate}",
        "{devices=[1,1,3]2,0,1 last_tile_dims={replicated,replicated}}",
        "{mesh['x'=3], [{}]}",
    ],
)
def test_devices_that_hold_copies_of_everything_are_counted(text):
    sharding = Sharding.parse(text)
    assert sharding.unnamed() == Sharding.parse("{replicated}")
    assert sharding.num_devices == sharding.unnamed().num_devices == 3
    assert pickle.loads(pickle.dumps(sharding)).num_devices == 3
    assert list(sharding.slices((4,))) == [(slice(0, 4),)] * 3
    with pytest.raises(LayoutError, match="needs 3 devices, there are 2"):
        sharding.slices((4,), num_devices=2)


@pytest.mark.parametrize("text", ["{manual}", "{unknown}", "{devices=[2,2]<=[4] last_tile_dims={maximal}}"])
def test_what_does_not_say_where_data_are_has_no_slices(text):
    with pytest.raises(UnsupportedError, match=r"does not say which part of|not known where .* keep their data"):
        Sharding.parse(text).slices((4,))


def test_the_array_needs_as_many_dimensions_as_the_grid():
    with pytest.raises(LayoutError, match="cuts 2 dimensions, the array has 1"):
        Sharding.parse("{devices=[2,4]<=[8]}").shard_shape((5,))


def test_there_must_be_as_many_devices_as_the_sharding_names():
    with pytest.raises(LayoutError, match="needs 8 devices, there are 7"):
        Sharding.parse("{devices=[2,4]<=[8]}").slices((4, 4), num_devices=7)
    assert Sharding.parse("{devices=[2,4]<=[8]}").slices((4, 4), num_devices=9)[8] is None


def test_devices_that_hold_nothing_have_no_slice():
    slices = Sharding.parse("{devices=[2]5,9}").slices((4,))
    assert [device for device in range(len(slices)) if slices[device] is not None] == [5, 9]
    assert Sharding.parse("{maximal device=1}").slices((4,), num_devices=3)[0] is None


# ---- safety ----


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[9223372036854775807]<=[9223372036854775807]}",
        "{devices=[4611686018427387904,1]<=[2,2305843009213693952]T(1,0) last_tile_dim_replicate}",
        "{mesh['x'=4611686018427387904], [{'x':(2)2}]}",
    ],
)
def test_claims_of_many_devices_allocate_nothing(text):
    sharding = Sharding.parse(text)
    assert sharding.slices((7,))[5] is not None
    with pytest.raises(UnsupportedError, match=f"longer than {MAX_LISTED}"):
        TileAssignment.iota((MAX_LISTED + 1,)).array()
    uneven = "{{devices=[4,{}]<=[{},6]T(1,0) last_tile_dims={{replicated, manual}}}}"
    assert len(Sharding.parse(uneven.format(1500, 1000)).grid.devices) == 6000
    with pytest.raises(UnsupportedError, match=f"longer than {MAX_UNEVEN}"):
        Sharding.parse(uneven.format(30000, 20000))


def _axes(count):
    return [f"'a{k}'" for k in range(count)]


BOMBS = {
    "braces": lambda n: "{" * n,
    "dimensions": lambda n: "{devices=[" + "2," * n + "1]<=[1]}",
    "devices": lambda n: f"{{devices=[{n}]{','.join(map(str, range(n)))}}}",
    "digits": lambda n: "{devices=[" + "9" * n + "]}",
    "comments": lambda n: "{" + "/**/" * n + "replicated}",
    "open comments": lambda n: "/*" * n,
    "stars": lambda n: "{/*" + "*" * n,
    "tuple": lambda n: "{" + "{replicated}," * n + "{replicated}}",
    "metadata": lambda n: "{replicated metadata={" + "{" * n,
    "quotes": lambda n: "{replicated metadata={" + '"' * n,
    "backslashes": lambda n: "{mesh['" + "\\" * n,
    "axes": lambda n: f"{{mesh[{','.join(f'{a}=1' for a in _axes(n))}], [{','.join(f'{{{a}}}' for a in _axes(n))}]}}",
    "one axis often": lambda n: "{mesh['x'=8], [{" + ",".join(["'x':(1)2"] * n) + "}]}",
    "subgroups": lambda n: f"{{devices=[{'1,' * n}2,2]<=[2,2]T(1,0) last_tile_dims={{{'manual,' * n}replicated}}}}",
}


@pytest.mark.parametrize("kind", thinned(BOMBS, 3))
@pytest.mark.slow
def test_long_texts_take_linear_work(kind):
    def read(text):
        shown = ""
        try:
            Sharding.parse(text)
        except NotationError as error:
            shown = str(error)
        assert len(shown) < 10_000

    read(BOMBS[kind](20_000))
    check_linear(lambda size: partial(read, BOMBS[kind](size)), 40)


SEEDS = [row["input"] for row in TEXTS] + [row["sharding"] for row in CASES]
MANGLE = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([*"(){}[],:*0123456789TS<=?'\"x /\n\x00é-\\", "", *SEEDS])),
    max_size=4,
)


@given(st.sampled_from(SEEDS), MANGLE)
@example("{mesh['x'=1,'y'=1], [], unreduced={'x'}, manual={'y'}}", [])
@example("{devices=[1,2,1]<=[2] last_tile_dims={unreduced, manual}}", [])
def test_mangled_texts_end_in_a_value_or_a_notation_error(text, changes):
    for place, piece in changes:
        text = text[:place] + piece + text[place + (not piece) :]
    try:
        sharding = Sharding.parse(text)
    except NotationError:
        return
    assert Sharding.parse(str(sharding)) == sharding
    assert str(Sharding.from_proto(sharding.to_proto())) == str(sharding)


@given(st.sampled_from([row["proto"] for row in RECORDED]), st.integers(0, 60), st.binary(max_size=3), st.booleans())
def test_mangled_protos_end_in_a_value_or_a_dump_error(proto, place, piece, cut):
    data = bytes.fromhex(proto)
    data = data[:place] if cut else data[:place] + piece + data[place + len(piece) :]
    try:
        sharding = Sharding.from_proto(data)
    except (DumpError, UnsupportedError):
        return
    assert Sharding.from_proto(sharding.to_proto()) == sharding
    if not any(one.kind == "tuple" for one in sharding.elements):  # which no text nests
        assert Sharding.parse(sharding.text()) == sharding


def test_axes_whose_names_are_no_text_have_a_proto():
    """A lone surrogate, which Python makes of a byte that is not UTF-8, cannot be encoded."""
    sharding = Sharding.parse("{mesh['a\udcff'=2,'b'=3], [{'a\udcff'}, {}]}")
    again = Sharding.from_proto(sharding.to_proto())
    assert (again.named.mesh.names, again.unnamed()) == (("a\\xed\\xb3\\xbf", "b"), sharding.unnamed())


# ---- XLA itself ----

_ASK = """
import json, sys
from jaxlib import _hlo as H
for line in sys.stdin:
    text, proto = json.loads(line)
    read = H.OpSharding(); read.ParseFromString(bytes.fromhex(proto))
    sharding = H.HloSharding.from_string(text)
    grid = sharding.v3_to_v2_sharding() if "mesh['" in text else sharding
    tiled = str(grid).startswith("{devices")
    print(json.dumps([
        str(sharding), str(grid), str(H.HloSharding.from_proto(read)),
        sharding.to_proto().SerializeToString().hex(),
        list(map(int, grid.tile_assignment_devices())) if tiled else None,
    ]))
"""


def ask_xla(shardings: list[Sharding]) -> list[list[Any]]:
    """What jaxlib makes of texts and protos, in a process of its own, because its parser may abort."""
    pytest.importorskip("jaxlib")
    lines = "\n".join(json.dumps([str(one), one.to_proto().hex()]) for one in shardings)
    command = [sys.executable, "-c", _ASK]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.jax
def test_xla_reads_our_texts_and_protos():
    pytest.importorskip("jaxlib", reason="jaxlib is not installed")
    skip_with_other_words()
    words = ["{replicated}", "{manual}", "{unknown}", "{unreduced}", "{maximal device=3}", "{replicated shard_as 1}"]
    words += ["{mesh[], replicated}", "{maximal_mesh[device_id=3]}", "{{replicated}, {devices=[2]<=[2] shard_like 3}}"]
    shardings = [Sharding.parse(text) for text in [*words, *(row["text"] for row in RECORDED)]]
    answers = ask_xla(shardings)
    assert len(answers) == len(shardings)
    for sharding, (text, unnamed, from_proto, proto, devices) in zip(shardings, answers, strict=True):
        assert text == str(sharding) == from_proto
        assert unnamed == (str(sharding.unnamed()) if "mesh['" in text else text)
        assert bytes.fromhex(proto) == sharding.to_proto()
        if devices is not None:
            assert sharding.grid.array().reshape(-1).tolist() == devices


# ---- metadata and device numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{{devices=[2]0,1 metadata={op_name=a"}, {manual metadata={op_name="b"}}}', "expected a string"),
        ("{replicated metadata={op_name=a}}", "expected a string or a number, found 'a'"),
        ('{replicated metadata={op_name="a" x}}', "expected name=value or '}', found 'x'"),
        ('{replicated metadata={op_name="a" op_name="b"}}', "op_name= stands twice"),
        ('{replicated metadata={{op_name="a"} {op_name="b"}}}', "expected ',' or '}' after a record"),
        ("{replicated metadata={profile_type={1}", "expected name=value or '}', found the end"),
        ("{maximal device=-1}", "a device number is at least 0, found -1"),
    ],
)
def test_malformed_metadata_and_devices_are_refused_where_they_stand(text: str, words: str) -> None:
    with pytest.raises(NotationError, match=re.escape(words)):
        Sharding.parse(text)


def test_metadata_may_stand_before_other_parts_and_hold_any_string() -> None:
    named = Sharding.parse("{mesh['a'=2,'b'=4], [{'a'}], metadata={op_name=\"}, {\"}, manual={'b'}}")
    assert str(named) == "{mesh['a'=2,'b'=4], [{'a'}], manual={'b'}}"
    assert named.metadata == ('op_name="}, {"',)
    one = Sharding.parse("{replicated metadata={{op_type='a', source_line=3 profile_type={1,2}},{}}}")
    assert one.metadata == ("op_type='a', source_line=3 profile_type={1,2}",)


def test_a_sub_axis_at_the_end_of_its_axis_may_be_manual() -> None:
    sharding = Sharding.parse("{mesh['a'=2,'b'=4,'c'=3,'d'=8], [{'a'}], manual={'d':(4)2}}")
    assert str(sharding) == "{mesh['a'=2,'b'=4,'c'=3,'d'=8], [{'a'}], manual={'d':(4)2}}"
    assert str(sharding.unnamed()) == "{devices=[2,2,48]<=[2,48,2]T(0,2,1) last_tile_dims={manual, replicated}}"
    assert Sharding.from_proto(sharding.to_proto()) == sharding


def test_a_sub_axis_that_cuts_nothing_is_refused() -> None:
    with pytest.raises(NotationError, match="a sub-axis needs a size of 2 or more") as caught:
        Sharding.parse("{mesh['a'=4], [{'a':(2)1}]}")
    assert caught.value.position == 16
    sub = {"mesh_axis_index": 0, "sub_axis_info": {"pre_size": 0, "size": 0}}
    mesh = {"axes": [{"name": "a", "size": 4}]}
    proto = serialized("OpSharding", named_sharding={"mesh": mesh, "replicated_axes": [sub]})
    with pytest.raises(DumpError, match="a sub-axis needs a size of 2 or more"):
        Sharding.from_proto(proto)


@pytest.mark.parametrize("iota", [{}, {"reshape_dims": [1]}])
def test_an_iota_over_no_axes_is_dropped_as_by_xla(iota: dict[str, Any]) -> None:
    proto = serialized("OpSharding", named_sharding={"mesh": {"iota_transform": iota}})
    assert str(Sharding.from_proto(proto)) == "{mesh[], replicated}"
    assert str(Sharding.parse("{mesh[], device_ids=([1]), replicated}")) == "{mesh[], replicated}"


def test_a_negative_device_of_a_maximal_proto_is_named() -> None:
    proto = serialized("OpSharding", type=1, tile_assignment_dimensions=[1], tile_assignment_devices=[-1])
    with pytest.raises(DumpError, match="a device number is at least 0, found -1"):
        Sharding.from_proto(proto)


@pytest.mark.parametrize("device", [0, 3])
def test_a_maximal_sharding_is_written_with_its_device(device: int) -> None:
    written = Sharding.parse(f"{{maximal device={device}}}").to_proto()
    assert written == serialized("OpSharding", type=1, tile_assignment_devices=[device])
    assert Sharding.from_proto(written).device == device


def test_a_grid_of_maximal_subgroups_is_no_maximal_sharding() -> None:
    """That needs its device."""
    for text in (
        "{devices=[1,4]<=[4] last_tile_dims={maximal}}",
        "{devices=[1,2,2]<=[4] last_tile_dims={maximal, maximal}}",
    ):
        found = Sharding.parse(text)
        assert (found.kind, found.device) == ("tiled", None)
        assert str(found) == "{devices=[1,4]<=[4] last_tile_dims={maximal}}"


@pytest.mark.parametrize("dimensions", [[1], [1, 1], [2], []])
@pytest.mark.parametrize("more", [{}, {"last_tile_dims": [4]}, {"replicate_on_last_tile_dim": True}])
def test_a_list_of_one_device_means_copies_as_for_xla(dimensions: list[int], more: dict[str, Any]) -> None:
    for device in (0, 5):
        grid = {"tile_assignment_dimensions": dimensions, "tile_assignment_devices": [device]}
        assert str(Sharding.from_proto(serialized("OpSharding", type=3, **grid, **more))) == "{replicated}"


def test_a_grid_without_sizes_is_refused() -> None:
    proto = serialized("OpSharding", type=3, iota_reshape_dims=[1], iota_transpose_perm=[0])
    with pytest.raises(DumpError, match="needs the sizes of its grid, found none"):
        Sharding.from_proto(proto)


@pytest.mark.parametrize("wrong", [None, 3, b"{replicated}", [1], {}, object()])
def test_what_is_no_sharding_is_refused(wrong: Any) -> None:
    for take in (lambda: sd.shard(np.ones(4), wrong), lambda: sd.assemble([np.ones(4)], wrong, (4,))):
        with pytest.raises(TypeError, match=f"expected a Sharding, or the text of one, not {type(wrong).__name__}"):
            take()
    with pytest.raises(TypeError, match=f"expected the text of a sharding, not {type(wrong).__name__}"):
        Sharding.parse(wrong)


# ---- what newer compilers write --------------------------------------------------------------------------------------


def test_one_device_under_its_newer_name():
    newer = Sharding.parse('{single_device[device_id=3], metadata={op_name="f"}}')
    assert newer == Sharding.parse("{maximal_mesh[device_id=3]}")
    assert (newer.kind, newer.device, newer.metadata) == ("maximal", 3, ('op_name="f"',))
    both = Sharding.parse("{{single_device[device_id=1]}, {maximal device=2}}")
    assert [one.device for one in both.elements] == [1, 2]


@pytest.mark.parametrize(
    ("text", "printed", "reduction"),
    [
        ("{mesh['x'=2,'y'=4], unreduced=max}", None, "max"),
        ("{mesh['x'=2,'y'=4], [], unreduced=min{'x','y'}}", "{mesh['x'=2,'y'=4], unreduced=min}", "min"),
        ("{mesh['x'=2,'y'=4], unreduced=min{'x', 'y'}}", "{mesh['x'=2,'y'=4], unreduced=min}", "min"),
        ("{mesh['x'=2,'y'=4], unreduced=max{'y'}}", "{mesh['x'=2,'y'=4], [], unreduced=max{'y'}}", "max"),
        ("{mesh['x'=2,'y'=4], [], unreduced=min{'y':(2)2}, manual={'x'}}", None, "min"),
        ("{mesh['x'=2,'y'=4], unreduced=sum}", "{mesh['x'=2,'y'=4], unreduced}", "sum"),
        ("{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced=max{'y'}}", None, "max"),
        (
            "{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced=sum{'y'}}",
            "{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced={'y'}}",
            "sum",
        ),
        ("{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced=min{}}", "{mesh['x'=2,'y'=4], [{'x'}, {}]}", "sum"),
    ],
)
def test_partial_values_say_how_they_are_reduced(text, printed, reduction):
    found = Sharding.parse(text)
    assert str(found) == (printed or text)
    assert found.named.reduction == reduction
    assert Sharding.from_proto(found.to_proto()) == found == Sharding.parse(str(found))


def test_other_reductions_are_refused():
    for text, words in {
        "{mesh['x'=2], unreduced=add}": "expected sum, max, min, found 'add'",
        "{mesh['x'=2], [{}], unreduced=MAX{'x'}}": "expected sum, max, min, found 'MAX'",
        "{mesh['x'=2], [{}], unreduced=most{'x'}}": "expected sum, max, min, found 'most'",
        "{mesh['x'=2], [{}], unreduced={'x'}max}": "expected ',' or '}', found 'max'",
        "{mesh['x'=2], [{}], unreduced=max 'x'}": "expected '{' and the axes of a dimension",
        "{mesh['x'=2], unreduced=max{'x', ?}}": "expected the quoted name of an axis, found '?'",
        "{mesh['x'=2], [{}], unreduced={'x', ?}}": "expected the quoted name of an axis, found '?'",
        "{mesh['x'=2], manual=max}": "expected replicated, manual, unreduced or '[', found 'manual='",
    }.items():
        with pytest.raises(NotationError, match=re.escape(words)):
            Sharding.parse(text)
    unknown = serialized(
        "OpSharding",
        named_sharding={
            "mesh": {"axes": [{"name": "x", "size": 2}]},
            "unreduced_axes": [{"mesh_axis_index": 0}],
            "reduction_op": 7,
        },
    )
    with pytest.raises(DumpError, match="reduced by sum, max, min, found '7'"):
        Sharding.from_proto(unknown)
    assert Sharding.parse("{mesh['x'=2], unreduced=max}") != Sharding.parse("{mesh['x'=2], unreduced}")
