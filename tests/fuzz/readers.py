"""All readers of the package as functions of bytes: each reads an input and asks everything of what comes out.

A reader may refuse an input by the exceptions that its documentation names, `REFUSALS`; whatever else comes out of it
is a finding. What it prints of an input, errors included, must be fit to be shown.
"""

from __future__ import annotations

import atexit
import contextlib
import gzip
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import strided as sd
from strided import inspect
from strided.dumps.detect import KINDS, recognise
from strided.dumps.directory.dump import open_dump
from strided.dumps.directory.names import parse_name
from strided.dumps.hlo import Module
from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.shapes import read_shape
from strided.dumps.snapshots.format import DELIMITED, FORMS, read_outline
from strided.dumps.source import open_source
from strided.errors import DumpError, StridedError, UnsupportedError
from strided.escape import visible
from strided.io.containers import open_container
from strided.io.convert_file import write_arrays
from strided.io.zarr_store import ZarrStore
from strided.layout import Layout, Shape
from tests import paths

DATA = paths.DATA

#: What any reader may raise.
REFUSALS: tuple[type[Exception], ...] = (StridedError,)

#: Instructions, values and shards of one input that are asked.
_ASKED = 40
#: Elements of the largest value that is looked at: a few bytes may claim any number of bits.
_SMALL = 1 << 16


class Reader(NamedTuple):
    """A function of bytes, what it may refuse by, and inputs that it takes."""

    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    refusals: tuple[type[Exception], ...] = REFUSALS


def shown(text: str) -> None:
    """Hold that a text is fit for a terminal."""
    assert text.replace("\n", "").replace("\t", "").isprintable(), f"unprintable text is shown: {text!r}"


@contextlib.contextmanager
def refusing(*more: type[Exception]) -> Iterator[None]:
    """Questions that may be refused; the refusal must be fit to be shown, and short."""
    message = ""
    try:
        yield
    except (*REFUSALS, *more) as error:
        message = str(error)
    shown(message)
    assert len(message) < 5000, "a message that quotes too much"


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# ---- shapes ----------------------------------------------------------------------------------------------------------


def ask_shape(shape: Any) -> None:
    """Sizes, addresses and pictures of a shape."""
    text = str(shape)
    assert sd.parse(text) == shape, f"{text} does not read as what it prints"
    repr(shape)
    if isinstance(shape, Layout):
        return
    for _, leaf in list(shape.leaves())[:_ASKED] if hasattr(shape, "leaves") else [((), shape)]:
        one = leaf if isinstance(leaf, Shape) else leaf.shape
        for question in (
            lambda one=one: one.byte_size,
            lambda one=one: one.buffer_byte_size,
            lambda one=one: one.address_map,
            lambda one=one: one.index_at(0),
            lambda one=one: one.offset_of((0,) * one.rank),
            lambda one=one: shown(inspect.describe(one)),
            lambda one=one: shown(inspect.captioned_picture(one)),
            lambda one=one: json.dumps(inspect.facts(one)),
            lambda one=one: inspect.svg(one),
            lambda one=one: shown(str(inspect.explain_byte(one, 0))),
        ):
            with refusing(IndexError):
                question()


def read_shape_text(data: bytes) -> None:
    ask_shape(sd.parse(text_of(data)))


def read_shape_proto(data: bytes) -> None:
    shape = read_shape(memoryview(data))
    with refusing():
        str(shape)


def shape_seeds() -> list[bytes]:
    cases = json.loads((DATA / "xla" / "shape_text_cases.json").read_text(encoding="utf-8"))
    return [case["input"].encode("utf-8", "surrogateescape") for case in cases]


def shape_proto_seeds() -> list[bytes]:
    return [
        bytes.fromhex(one)
        for one in _hexes(json.loads((DATA / "snapshots" / "shape_protos.json").read_text(encoding="utf-8")))
    ]


def _hexes(value: Any) -> Iterator[str]:
    """The hexadecimal texts anywhere in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _hexes(one)
    elif isinstance(value, str) and value and not set(value) - set("0123456789abcdef") and len(value) % 2 == 0:
        yield value


# ---- HLO -------------------------------------------------------------------------------------------------------------


def ask_module(module: Module) -> None:
    shown(str(module))
    shown(repr(module))
    module.to_text()
    for question in (
        lambda: module.entry_layout,
        lambda: module.aliases,
        lambda: module.donors,
        lambda: module.frontend_attributes,
        lambda: module.tables,
        lambda: module.results,
        lambda: module.find("*a*", opcode="add", shape="f32[2]", memory_space=0),
        lambda: inspect.largest(module.instructions),
    ):
        with refusing():
            question()
    for part in module.unread[:_ASKED]:
        shown(str(part))
    for computation in module.computations[:_ASKED]:
        shown(repr(computation))
        str(computation.root), computation.parameters
    for instruction in module.instructions[:_ASKED]:
        for name in (
            "shape", "operand_names", "literal", "parameter_number", "value", "attributes", "operands", "users",
            "called_computations", "control_predecessors", "memory_space", "metadata", "frontend_attributes",
            "backend_config", "stack",
        ):  # fmt: skip
            with refusing():
                getattr(instruction, name)
        with refusing():
            shown(str(instruction))
            shown(repr(instruction))
        with refusing():
            if instruction.sharding is not None:
                sd.Sharding.parse(instruction.sharding)


def read_hlo_text(data: bytes) -> None:
    ask_module(sd.read_hlo(b"HloModule\n" + data if not data.strip() else data))


def read_hlo_proto(data: bytes) -> None:
    ask_module(sd.read_hlo(b"\x0a\x01m" + data))


def hlo_text_seeds() -> list[bytes]:
    return [gzip.decompress(path.read_bytes()) for path in sorted((DATA / "hlo").glob("*.txt.gz"))]


def hlo_proto_seeds() -> list[bytes]:
    protos = [gzip.decompress(path.read_bytes()) for path in sorted((DATA / "hlo").glob("*.pb.gz"))]
    return [*protos, *(proto[proto.find(b"\x1a") :] for proto in protos)]


# ---- literals and snapshots ------------------------------------------------------------------------------------------


def ask_value(value: Any) -> None:
    if isinstance(value, tuple):
        for one in value[:_ASKED]:
            ask_value(one)
    elif value is not None:
        shown(repr(value))
        if value.size <= _SMALL:
            np.asarray(value)


def read_snapshot(data: bytes, form: str | None = None) -> None:
    snapshot = sd.read_snapshot(data, form=form)
    shown(repr(snapshot))
    for question in (
        lambda: snapshot.module_name,
        lambda: snapshot.program_shape,
        lambda: snapshot.results_missing,
        lambda: snapshot.result,
        lambda: snapshot.module,
        lambda: snapshot.arguments.names,
    ):
        with refusing():
            question()
    for values in snapshot.partitions[:_ASKED]:
        shown(repr(values))
        for number in range(min(_ASKED, len(values))):
            with refusing():
                ask_value(values[number])


def read_snapshot_of_any_form(data: bytes) -> None:
    """The first byte says how the rest is read."""
    number = data[0] if data else 0
    read_snapshot(data[1:], (None, None, None, *FORMS)[number % 8])


def read_snapshot_text(data: bytes) -> None:
    read_snapshot(data, "HloSnapshot text" if b"arguments" in data[:100] else "HloUnoptimizedSnapshot text")


def read_literal(data: bytes) -> None:
    ask_value(Literal.of_proto(memoryview(data)).value)


def read_serialized_literal(data: bytes) -> None:
    ask_value(Literal.of_serialized(memoryview(data)).value)


@cache
def snapshot_files() -> list[bytes]:
    return [path.read_bytes() for path in sorted((DATA / "snapshots").rglob("*.pb"))]


def snapshot_seeds() -> list[bytes]:
    small = [one for one in snapshot_files() if len(one) < 1500]
    delimited = (DATA / "snapshots" / "kinds" / "unoptimized_delimited.pb").read_bytes()
    return [*(b"\0" + one for one in small), b"\x05" + delimited]


def snapshot_text_seeds() -> list[bytes]:
    text = gzip.decompress((DATA / "snapshots" / "kinds" / "unoptimized_text.txt.gz").read_bytes())
    plain = (
        b"arguments { shape { element_type: S32 dimensions: 3 layout { minor_to_major: 0 } } s32s: 1 s32s: [2, 3] }\n"
    )
    return [text, text[text.find(b"partitions") :], plain * 2 + b"result { shape { element_type: PRED } preds: true }"]


@cache
def literal_seeds() -> list[bytes]:
    found = []
    for data in snapshot_files():
        with refusing():
            found += [bytes(payload.value) for payload in _arguments(data)]
    return [one for one in found if len(one) < 2000]


def _arguments(data: bytes) -> Iterator[Any]:
    return (field for field in wire.fields(memoryview(data), "HloSnapshot") if field.number == 2 and field.kind == 2)


def serialized_seeds() -> list[bytes]:
    view = memoryview((DATA / "snapshots" / "kinds" / "unoptimized_delimited.pb").read_bytes())
    places = read_outline(view, DELIMITED).partitions[0]
    found = [bytes(view[start : start + size]) for start, size in zip(places._starts, places._sizes, strict=True)]
    return [one for one in found if len(one) < 2000]


# ---- shardings, allocations ------------------------------------------------------------------------------------------


def ask_sharding(sharding: Any) -> None:
    shown(str(sharding))
    repr(sharding)
    with refusing(TypeError, IndexError):
        slices = sharding.slices((8, 16, 4)[: len(sharding.tile_counts) or 1])
        slices[0]
    if not any(one.kind == "tuple" for one in sharding.elements):  # which no text nests
        assert sd.Sharding.parse(sharding.text()) == sharding
    with refusing():
        sd.Sharding.from_proto(sharding.to_proto())


def read_sharding_text(data: bytes) -> None:
    ask_sharding(sd.Sharding.parse(text_of(data)))


def read_sharding_proto(data: bytes) -> None:
    ask_sharding(sd.Sharding.from_proto(data))


def sharding_text_seeds() -> list[bytes]:
    return [
        case["text"].encode()
        for case in _texts(json.loads((DATA / "sharding" / "sharding_text_cases.json").read_text(encoding="utf-8")))
    ]


def _texts(value: Any) -> list[dict[str, str]]:
    rows = value if isinstance(value, list) else [row for rows in value.values() for row in rows]
    return [{"text": row if isinstance(row, str) else str(row.get("text", row.get("input", "")))} for row in rows]


def sharding_proto_seeds() -> list[bytes]:
    seeds = []
    for text in sharding_text_seeds():
        with refusing():
            seeds.append(sd.Sharding.parse(text.decode()).to_proto())
    return seeds


def ask_assignment(assignment: Any) -> None:
    shown(str(assignment))
    assignment.kinds(), assignment.parameters, assignment.outputs
    for value in assignment.values[:_ASKED]:
        shown(str(value))
        assert value.problem is None or value.array_shape is None
    images = {one.index: bytes(min(max(one.size, 0), 4096)) for one in assignment.allocations[:_ASKED]}
    with refusing():
        arrays = assignment.open(images)
        shown(str(arrays))
        for name in list(arrays)[:_ASKED]:
            ask_value(arrays[name])


def read_assignment_text(data: bytes) -> None:
    ask_assignment(sd.read_allocations(data, kind="text"))


def read_assignment_proto(data: bytes) -> None:
    ask_assignment(sd.read_allocations(data, kind="proto"))


def assignment_text_seeds() -> list[bytes]:
    texts = json.loads(gzip.decompress((DATA / "allocations" / "texts.json.gz").read_bytes()))
    return [text.encode() for text in texts.values()]


def assignment_proto_seeds() -> list[bytes]:
    found = json.loads(gzip.decompress((DATA / "allocations" / "protos.json.gz").read_bytes()))
    return [bytes.fromhex(one) for one in _hexes(found)] or hlo_proto_seeds()


# ---- memory ----------------------------------------------------------------------------------------------------------


def ask_report(report: Any) -> None:
    shown(str(report))
    shown(repr(report))
    json.dumps(report.to_dict(), allow_nan=False)
    report.svg(), report._repr_html_()
    assert 0 <= report.padding_bytes <= report.peak_bytes
    assert all(0 <= one.unpadded_bytes <= one.bytes for one in report.buffers)


def read_memory_text(data: bytes) -> None:
    ask_report(sd.memory_report(data))


def read_memory_of_hlo(data: bytes) -> None:
    module = sd.read_hlo(data)
    with refusing():
        ask_report(sd.memory_report(module))
    with refusing():
        shown(sd.layout_copies(module).report())


def memory_text_seeds() -> list[bytes]:
    paths_of = sorted((DATA / "memory").glob("*.txt")), sorted((DATA / "memory").glob("*usage-report.txt.gz"))
    return [*(path.read_bytes() for path in paths_of[0]), *(gzip.decompress(path.read_bytes()) for path in paths_of[1])]


# ---- files -----------------------------------------------------------------------------------------------------------


def read_npy(data: bytes) -> None:
    path = _scratch()
    path.write_bytes(data)
    array = sd.load_npy(path, mmap_mode="r" if len(data) % 2 else None)
    assert array.nbytes <= len(data)
    repr(array.dtype)


@cache
def _folder() -> Path:
    """Where this process writes files for readers, in memory if it can be, until it ends."""
    folder = tempfile.mkdtemp(prefix="strided_fuzz_", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _scratch() -> Path:
    return _folder() / "file"


def npy_seeds() -> list[bytes]:
    files = [path.read_bytes() for path in sorted((DATA / "xla" / "raw").glob("*.npy"))]
    files = [one for one in files if len(one) < 1000]
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros(3, [("a", "<f4"), ("b", "<i2", (2,))]), version=(2, 0))
    return [*files, file.getvalue(), file.getvalue().replace(b"\x01\x00", b"\x03\x00", 1)]


def read_container(data: bytes) -> None:
    """Arrays by name, from a .npz or a .safetensors file."""
    path = _scratch().with_suffix(".npz" if data[:1] == b"P" else ".safetensors")
    path.write_bytes(data)
    with path.open("rb") as file:
        container = open_container(file, str(path))
        assert container is not None
        with container:
            for name in [*container][:_ASKED]:
                shown(visible(name))
                assert container.shape(name)
                with contextlib.suppress(StridedError):
                    array = container[name]
                    if array.size <= _SMALL:
                        array.to_numpy()


def container_seeds() -> list[bytes]:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c:d": np.array(True)}
    stored, packed = io.BytesIO(), io.BytesIO()
    np.savez(stored, **arrays)
    np.savez_compressed(packed, **arrays)
    path = _scratch()
    sd.save_safetensors(path, arrays | {"s4": arrays["a"].astype(ml_dtypes.int4)})
    plain = path.read_bytes()
    sd.save_safetensors(path, {"a": arrays["a"]}, "{0,1:T(2,4)}")
    return [stored.getvalue(), packed.getvalue(), plain, path.read_bytes()]


def read_zarr(data: bytes) -> None:
    """Metadata of an array; behind a NUL, the first chunk."""
    metadata, _, chunk = data.partition(b"\0")
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        Path(folder, "c", "0").mkdir(parents=True)
        Path(folder, "zarr.json").write_bytes(metadata)
        Path(folder, "c", "0", "0").write_bytes(chunk)
        for array in ZarrStore(folder).values():
            shown(str(array.xla_shape))
            with refusing():
                if array.size <= _SMALL:
                    array.to_numpy()


def zarr_seeds() -> list[bytes]:
    seeds = []
    for layout in (None, "{1,0:T(8,128)(2,1)}"):
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            write_arrays({"x": np.zeros((3, 5), ml_dtypes.bfloat16)}, Path(folder, "x.zarr"), layout, overwrite=False)
            parts = [Path(folder, "x.zarr", name).read_bytes() for name in ("zarr.json", "c/0/0")]
            seeds.append(b"\0".join(parts))
    return seeds


def read_names(data: bytes) -> None:
    """A folder of empty files, a name a line."""
    names = [
        name for name in text_of(data).split("\n")[:6] if "/" not in name and "\0" not in name and name not in "..."
    ]
    for name in names:
        found = parse_name(name)
        assert found is None or found.kind
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        for name in names:
            try:
                Path(folder, name).write_bytes(b"HloModule m")
            except OSError:  # too long a name for the file system
                continue
        dump = open_dump(folder)
        shown(str(dump))
        shown(repr(dump))
        for program in dump.programs:
            shown(str(program))
            for question in (
                lambda p=program: p.module,
                lambda p=program: p.allocations,
                lambda p=program: p.num_devices,
            ):
                with refusing():
                    question()


def name_seeds() -> list[bytes]:
    return [
        b"module_0004.jit_f.cpu_after_optimizations-buffer-assignment.txt\nmodule_0004.jit_f.before_optimizations.txt",
        b"module_0004.jit_f.snapshot.-12.pb\nmodule_0005.jit_f.execution_0001.hlo_unoptimized_snapshot.pb\nnotes.txt",
        b"1690000000.module_0001.sm_8.0_gpu_after_optimizations-memory-usage-report.txt\nf.hlo.txt\nf.hlo.pb.gz",
        b"module_0007.0003.simplification.after_dce.before_cse.hlo.pb\nmodule_0007.cl_12.x.cl_3.hlo",
    ]


def read_anything(data: bytes) -> None:
    kind = recognise(data)
    assert kind in KINDS
    with refusing():
        found = sd.read_dump(data)
        shown(repr(found))


def anything_seeds() -> list[bytes]:
    return [
        one[:4000]
        for seeds in (hlo_text_seeds, assignment_text_seeds, snapshot_files, hlo_proto_seeds)
        for one in seeds()
    ]


def read_gzip(data: bytes) -> None:
    view = open_source(b"\x1f\x8b" + data[2:], max_bytes=1 << 20).view
    assert len(view) <= 1 << 20


def gzip_seeds() -> list[bytes]:
    return [gzip.compress(one[:3000], mtime=0) for one in anything_seeds()[:20]] + [
        gzip.compress(bytes(1 << 21), mtime=0)
    ]


def read_index(data: bytes) -> None:
    inspect.parse_index(text_of(data))


def index_seeds() -> list[bytes]:
    return [b"9, 200:204", b"[..., -1]", b"[[0, 2], [1, 3]]", b"::2, None, np.newaxis", b"-1:-5:-1", b"True, [False]"]


READERS: dict[str, Reader] = {
    "shape text": Reader(read_shape_text, shape_seeds),
    "shape proto": Reader(read_shape_proto, shape_proto_seeds),
    "HLO text": Reader(read_hlo_text, hlo_text_seeds),
    "HLO proto": Reader(read_hlo_proto, hlo_proto_seeds),
    "snapshot": Reader(read_snapshot_of_any_form, snapshot_seeds),
    "snapshot text": Reader(read_snapshot_text, snapshot_text_seeds),
    "literal": Reader(read_literal, literal_seeds),
    "serialized literal": Reader(read_serialized_literal, serialized_seeds),
    "sharding text": Reader(read_sharding_text, sharding_text_seeds),
    "sharding proto": Reader(read_sharding_proto, sharding_proto_seeds),
    "assignment text": Reader(read_assignment_text, assignment_text_seeds),
    "assignment proto": Reader(read_assignment_proto, assignment_proto_seeds),
    "memory text": Reader(read_memory_text, memory_text_seeds, (DumpError, UnsupportedError)),
    "memory of HLO": Reader(read_memory_of_hlo, hlo_text_seeds),
    "npy": Reader(read_npy, npy_seeds, (ValueError,)),
    "container": Reader(read_container, container_seeds),
    "zarr": Reader(read_zarr, zarr_seeds),
    "names": Reader(read_names, name_seeds),
    "anything": Reader(read_anything, anything_seeds),
    "gzip": Reader(read_gzip, gzip_seeds),
    "index": Reader(read_index, index_seeds),
}
