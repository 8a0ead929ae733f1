"""How fast is a large HLO module open, searched, and read to the last attribute?

The module is a real one (a TPU program with while loops, conditionals, fusions, tables and backend configurations)
repeated under other names: 12 MB of text, 57,000 instructions. XLA's own parser takes 0.4 s for that much.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples
from strided.dumps.protobuf.wire import BYTES, bytes_field, fields, integer_field, integers_field

_DATA = Path(__file__).parents[2] / "tests" / "data" / "hlo"
_PROGRAM = "control_flow_cond_switch_while.hlo"
_INSTRUCTIONS = 1_000 if TOY else 57_000

_NAME = re.compile(r"%([\w.\-]+)")


def _original(kind: str) -> bytes:
    path = _DATA / f"{_PROGRAM}.{kind}.gz"
    if not path.exists():
        raise NotImplementedError("the tests' data are not part of this copy")
    return gzip.decompress(path.read_bytes())


def large_text() -> str:
    """A module of that size as text."""
    return _repeated(_original("txt").decode())


def text_with_copies() -> str:
    """A program with loops and copies that change layouts, repeated to that size."""
    path = _DATA.with_name("copies") / "scan_carry.json.gz"
    if not path.exists():
        raise NotImplementedError("the tests' data are not part of this copy")
    return _repeated(next(iter(json.loads(gzip.decompress(path.read_bytes()))["compiled"].values())))


def _repeated(original: str) -> str:
    start = re.search(r"^%[^\n]* \{$", original, re.MULTILINE)
    assert start is not None
    body, parts, count = original[start.start() :].replace("ENTRY ", ""), [], 0
    while count < _INSTRUCTIONS:
        parts.append(_NAME.sub(rf"%\1.r{len(parts)}", body))
        count += body.count(" = ")
    entry = "ENTRY %main.r {\n  ROOT %zero.r = s32[]{:T(128)} constant(0)\n}\n"
    return original[: start.start()] + "".join(parts) + entry


def large_proto() -> bytes:
    """A module of that size as a proto."""
    original, count, parts = memoryview(_original("pb")), 0, []
    while count < _INSTRUCTIONS:
        shift = 1000 * len(parts) << 32
        for field in fields(original, "HloModuleProto"):
            if field.number == 3:
                message, found = _shifted(field.value, shift, f".r{len(parts)}".encode())
                parts.append(bytes_field(3, message))
                count += found
    return bytes_field(1, b"large") + b"".join(parts)


def _shifted(message: memoryview, shift: int, suffix: bytes) -> tuple[bytes, int]:
    """A computation with all its ids and names moved, and how many instructions it holds."""
    parts, count = [], 0
    for number, kind, value, _ in fields(message, "HloComputationProto"):
        if number == 2:
            parts.append(bytes_field(2, _shifted_instruction(value, shift, suffix)))
            count += 1
        elif kind == BYTES:
            parts.append(bytes_field(number, bytes(value) + (suffix if number == 1 else b"")))
        else:
            parts.append(integer_field(number, value + (shift >> 32 if number == 5 else shift)))
    return b"".join(parts), count


def _shifted_instruction(message: memoryview, shift: int, suffix: bytes) -> bytes:
    parts = []
    for field in fields(message, "HloInstructionProto"):
        number, kind, value, _ = field
        if number in (36, 37, 38):
            moved = [id + (shift >> 32 if number == 38 else shift) for id in field.integers("ids")]
            parts.append(integers_field(number, moved))
        elif kind == BYTES:
            parts.append(bytes_field(number, bytes(value) + (suffix if number == 1 else b"")))
        else:
            parts.append(integer_field(number, value + shift if number == 35 else value))
    return b"".join(parts)


@multiples
class Open:
    """From text or bytes in memory to a module that answers."""

    params = ("text", "proto")
    param_names = ("form",)

    def setup(self, form: str) -> None:
        self.source: str | bytes = large_text() if form == "text" else large_proto()
        sd.read_hlo("e { a = f32[] parameter(0) }")

    def run_open_and_search_by_name_opcode_and_shape(self, form: str) -> None:
        module = sd.read_hlo(self.source)
        module.find("fusion.*")
        module.instruction(module.entry.root.name)
        module.find(opcode="copy-start")
        module.find(shape="f32[17,30]")
        module.find(memory_space=1)


@multiples
class ReadAll:
    """To the last attribute of the last instruction."""

    params = ("text", "proto")
    param_names = ("form",)

    def setup(self, form: str) -> None:
        self.source: str | bytes = large_text() if form == "text" else large_proto()

    def run_open_and_read_all(self, form: str) -> None:
        for instruction in sd.read_hlo(self.source).instructions:
            _ = instruction.shape, instruction.operands, instruction.attributes, instruction.called_computations
            _ = instruction.metadata, instruction.frontend_attributes, instruction.backend_config

    def peakmem_open_and_read_all(self, form: str) -> None:
        module = sd.read_hlo(self.source)
        for instruction in module.instructions:
            _ = instruction.shape, instruction.operands, instruction.attributes, instruction.called_computations

    def run_print_all(self, form: str) -> None:
        sd.read_hlo(self.source).to_text()


class LayoutCopies:
    """What does it copy only to change layouts?"""

    def setup(self) -> None:
        self.source = text_with_copies()

    def time_open_and_list_copies(self) -> None:
        sd.layout_copies(sd.read_hlo(self.source))

    def track_copies(self) -> int:
        return len(sd.layout_copies(sd.read_hlo(self.source)))
