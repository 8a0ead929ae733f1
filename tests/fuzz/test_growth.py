"""Every reader does work in proportion to what it reads: counted for inputs of one structure again and again.

Each input is read and asked as in the campaign of all readers, at a size, at twice and at four times that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import pytest

import strided as sd
from strided.dumps.directory.names import parse_name
from strided.dumps.protobuf.wire import bytes_field, integer_field, integers_field, varint
from strided.errors import StridedError, StridedWarning
from tests.fuzz import readers
from tests.steps import check_linear

Make = Callable[[int], bytes]


def entry(line: str, *, header: str = "HloModule m", end: str = "}") -> Make:
    """A module of one computation with a line again and again; ``#`` is its number."""
    return lambda n: "\n".join(
        [header, "", "ENTRY e {", *(line.replace("#", str(k)) for k in range(n)), end, ""]
    ).encode()


def again(piece: str, start: str = "", end: str = "") -> Make:
    return lambda n: (start + piece * n + end).encode()


def numbered(piece: str, end: str = "ENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n") -> Make:
    """A piece of a text again and again; ``#`` is its number."""
    return lambda n: ("".join(piece.replace("#", str(k)) for k in range(n)) + end).encode()


BODY = "ENTRY e { ROOT a = f32[2]{0} parameter(0)"

HLO_TEXTS: dict[str, Make] = {
    "instructions": entry('  %a.# = f32[2]{0} add(%b, %c), metadata={op_name="x"}'),
    "operands": again("%b, ", "HloModule m\nENTRY e {\n a = f32[2] add(", ")\n}"),
    "attributes": again(", a=1", "HloModule m\nENTRY e {\n a = f32[2] add(b)", "\n}"),
    "lines of one instruction": again("%b,\n  ", "HloModule m\nENTRY e {\n a = f32[2] add(", "c)\n}"),
    "computations": again("c {\n  ROOT a = f32[] parameter(0)\n}\n\n", "HloModule m\n\n"),
    "computations in a line": again("c { ROOT a = f32[] parameter(0) } ", "HloModule m\n"),
    "computations that begin where others end": numbered("c# {\n  ROOT a = f32[] parameter(0)\n} "),
    "cut computations": numbered("c# {\n  a = f32[] add(b,\n  ROOT x = f32[] parameter(0)\n}\n"),
    "source tables in a line": again('FileNames 1 "a" ', "HloModule m ", "\n" + BODY + "\n}"),
    "statements in a line": again("a = f32[] parameter(0) ", "HloModule m\nENTRY e { ", "}"),
    "bodies": again("{ ROOT x = f32[] parameter(0) }, ", BODY + " b = f32[] call(a), called_computations={", "}}"),
    "nested bodies": again("x = f32[] call(a), calls={ ", BODY + "\n", ""),
    "open braces": again("{", "HloModule m\nENTRY e {\n a = f32[2] add(b), x="),
    "open lines": entry("  a.# = f32[2] add(b, {"),
    "open strings": entry('  a.# = f32[2] add(b), x="y'),
    "open comments": entry("  a.# = f32[2] add(b) /* x"),
    "comments": entry("  /* x */ a.# = f32[2] /* y */ add(b) // z"),
    "closing braces": entry("}"),
    "closing parentheses": entry("  a.# = f32[2] add(b))"),
    "garbage": entry("  what is this"),
    "words": again("a ", "HloModule m\nENTRY e {\n"),
    "equals": again("a = ", "HloModule m\nENTRY e {\n"),
    "empty lines": again("\n", "HloModule m\nENTRY e {\n"),
    "headers": again("HloModule m\n"),
    "header": again(", a={}", "HloModule m", "\n\n" + BODY + "\n}"),
    "aliases": again("{0}: (1, {}), ", "HloModule m, input_output_alias={ ", "}\n\n" + BODY + "\n}"),
    "layouts": again("f32[2]{0}, ", "HloModule m, entry_computation_layout={(", ")->f32[]}\n\n" + BODY + "\n}"),
    "frames": again('1 "a"\n', "HloModule m\n\nFileNames\n", "\n" + BODY + "\n}"),
    # Shapes of up to 1024 characters are remembered: what is read of them, too, is all longer.
    "shapes": again("f32[2], " * 12, "HloModule m\nENTRY e {\n a = (", "f32[]) tuple(b)\n}"),
    "nested shapes": again("(", "HloModule m\nENTRY e {\n a = ", " tuple(b)\n}"),
    "signature": again("x: f32[2], ", "HloModule m\n%c (", ") -> f32[2] {\n a = f32[] parameter(0)\n}"),
    "metadata": again("a=1 ", BODY + ", metadata={", "}\n}"),
    "escapes": again("\\\\303", BODY + ', backend_config="', '"\n}'),
    "backslashes": again("\\\\", BODY + ', backend_config="'),
    "quotes": again("'", "HloModule m\nENTRY e {\n a = f32[2] add(b), x="),
    "constant": again("{1, 2}, ", "HloModule m\nENTRY e {\n a = f32[2] constant({", "})\n}"),
    "one operand of all": entry("  a# = f32[2] add(a0, a0)"),
}


def module(*fields: bytes) -> bytes:
    """An HloModuleProto of one computation with these instructions."""
    computation = bytes_field(1, b"e") + b"".join(bytes_field(2, one) for one in fields) + integer_field(5, 1)
    return bytes_field(1, b"m") + integer_field(6, 1) + bytes_field(3, computation)


def instruction(number: int, *more: bytes, opcode: bytes = b"add") -> bytes:
    shape = bytes_field(3, integer_field(2, 11) + integers_field(3, (2,)) + bytes_field(5, integers_field(1, (0,))))
    return b"".join([bytes_field(1, b"a%d" % number), bytes_field(2, opcode), shape, integer_field(35, number), *more])


HLO_PROTOS: dict[str, Make] = {
    "instructions": lambda n: module(*(instruction(k) for k in range(1, n))),
    "operands": lambda n: module(instruction(1, integers_field(36, (1,) * n))),
    "ones of all": lambda n: module(*(instruction(k, integers_field(36, (1, 1))) for k in range(1, n))),
    "dimensions": lambda n: module(instruction(1, integers_field(14, (1,) * n))),
    "computations": lambda n: bytes_field(3, bytes_field(1, b"c") + bytes_field(2, instruction(1))) * n,
    "tuple": lambda n: module(
        instruction(1, bytes_field(3, integer_field(2, 13) + bytes_field(4, integer_field(2, 11)) * n))
    ),
    "fields": lambda n: module(instruction(1, bytes_field(7, b"x") * n)),
    "windows": lambda n: module(instruction(1, bytes_field(15, bytes_field(1, integer_field(1, 3)) * n))),
    "unknown": lambda n: integer_field(1000, 7) * n,
    "names": lambda n: bytes_field(1, b"x" * n),
}

SNAPSHOTS: dict[str, Make] = {
    "arguments": lambda n: b"\0" + bytes_field(2, bytes_field(1, integer_field(2, 11)) + bytes_field(8, bytes(4))) * n,
    "results": lambda n: b"\0" + bytes_field(3, bytes_field(1, integer_field(2, 11))) * n,
    "partitions": lambda n: b"\4" + bytes_field(2, bytes_field(1, b"")) * n,
    "descriptors": lambda n: (lambda m: b"\5" + varint(len(m)) + m)(
        bytes_field(2, bytes_field(2, integer_field(2, 4)) * n)
    ),
    "modules": lambda n: b"\0" + bytes_field(1, bytes_field(1, bytes_field(1, b"m"))) * n + bytes_field(4, b"x"),
}

#: Readers, by what they read, and the inputs that they are given.
INPUTS = {
    "HLO text": (readers.read_hlo_text, HLO_TEXTS),
    "HLO proto": (readers.read_hlo_proto, HLO_PROTOS),
    "snapshot": (readers.read_snapshot_of_any_form, SNAPSHOTS),
    "name": (
        lambda data: parse_name(data.decode()[:255]),
        {
            "stages": again("after_", "module_0001.x."),
            "stage": again("before_a", "module_0001.x."),
            "modules": again("module_1.", "x"),
            "numbers": again("0", "module_"),
            "dots": again("x.", "module_0001."),
            "cl": again(".cl_1", "module_0001.x"),
        },
    ),
}
#: Lines that never close are gathered again and again until the reader loses patience, which takes a text of some size.
PATIENT = ("HLO text", "open lines")
CASES = [(reader, kind) for reader, (_, kinds) in INPUTS.items() for kind in kinds]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "kind"), CASES)
def test_work_grows_as_the_input_does(reader, kind, fuzz_seconds):
    read, kinds = INPUTS[reader]

    def work(data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StridedWarning)
            try:
                read(data)
            except StridedError:
                pass

    sd.read_hlo("e { a = f32[] parameter(0) }")  # all modules are loaded before work is counted
    check_linear(
        lambda size: partial(work, kinds[kind](size)), 60 if fuzz_seconds > 5 or (reader, kind) == PATIENT else 12
    )
