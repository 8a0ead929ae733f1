"""How many instructions a line of 64 bytes takes, by CPU: of the operations that kernels are made of.

Run it as ``python asv_bench/instructions.py``. It compiles each operation alone, for CPUs that need not be at hand, and
counts what LLVM makes of it: loops once, and of branches all. A square has 8, 16, 32 or 64 lines.
``--show NAME CPU`` prints the machine code.
"""

from __future__ import annotations

import argparse
import inspect
import re
from typing import NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir

from strided.kernels import (
    bitfields,
    block_transpose,
    exchange_rows,
    packed_elements,
    part_transpose,
    simd_bytes,
    transpose_words,
    zip_rows,
)
from strided.kernels import llvm as building


class Target(NamedTuple):
    """A CPU to compile for: its platform, LLVM's name of it, and the bytes of its registers."""

    platform: str
    name: str
    register_bytes: int


TARGETS = {
    "AVX-512": Target("x86_64-unknown-linux-gnu", "icelake-server", 64),
    "AVX2": Target("x86_64-unknown-linux-gnu", "haswell", 32),
    "SSE4.2": Target("x86_64-unknown-linux-gnu", "nehalem", 16),
    "x86-64": Target("x86_64-unknown-linux-gnu", "x86-64", 16),
    "NEON": Target("aarch64-unknown-linux-gnu", "neoverse-n1", 16),
}

#: Operations that make one line, with the number of integers that they take.
LINES = {
    "fields16": (bitfields.fields16, 2),
    "fields8": (bitfields.fields8, 2),
    "braid16": (bitfields.braid16, 2),
    "braid8": (bitfields.braid8, 2),
    "braid_packed": (bitfields.braid_packed, 4),
    "spread4": (packed_elements.spread4, 3),
    "spread2": (packed_elements.spread2, 3),
    "spread1": (packed_elements.spread1, 3),
    "gather4": (packed_elements.gather4, 2),
    "gather2": (packed_elements.gather2, 2),
    "gather1": (packed_elements.gather1, 2),
    **{
        f"every {name}{bits}": (zip_rows.PICKS[bits][k][0], 1)
        for k, name in enumerate(("2nd ", "3rd ", "4th "))
        for bits in (8, 16, 32)
    },
}
#: Operations that transpose a square with sides of 64 bytes, or a part of one. The first ones ask for as many lines
#: besides, and write as many, in two ways; of 8 and 16 bits they ask in two ways, too.
SQUARES = {
    "turn64": block_transpose.turn64,
    "turn_pairs": block_transpose.turn_pairs,
    "turn32": block_transpose.turn32,
    "turn16": block_transpose.turn16,
    "turn8": block_transpose.turn8,
    "turn_lines64": block_transpose.turn_lines64,
    "turn_lines32": block_transpose.turn_lines32,
    "turn_part32": part_transpose.turn_part32,
    "turn_part16": part_transpose.turn_part16,
    "turn_part8": part_transpose.turn_part8,
}
#: Operations that put a line of each of some rows together, with the number of rows.
ZIPS = {f"zip {k + 2} x {bits}": (zip_rows.ZIPS[bits][k], k + 2) for k in range(3) for bits in (8, 16, 32)}

#: Operations that put elements into words, four lines of these, with the number of integers that they take: those of
#: rows that share words, and those that lie side by side.
BRAIDS = {
    "braid_lines8": (bitfields.braid_lines8, 4),
    "braid_lines4": (bitfields.braid_lines4, 4),
    "braid_lines2": (bitfields.braid_lines2, 4),
    "braid_lines1": (bitfields.braid_lines1, 4),
    "pack_square4": (packed_elements.pack_square4, 5),
    "pack_square2": (packed_elements.pack_square2, 5),
    "pack_square1": (packed_elements.pack_square1, 5),
}

#: Operations on words that rows share on both sides, with the number of integers that they take, which write what they
#: make, in two ways: a line of each row of a word; a line of blocks, or a block of two lines; as many lines as such a
#: line has blocks.
SHARED = {
    "exchange16": (exchange_rows.exchange_lines16, 6),
    "exchange8": (exchange_rows.exchange_lines8, 6),
    "exchange4": (exchange_rows.exchange_lines4, 6),
    "exchange2": (exchange_rows.exchange_lines2, 6),
    "exchange1": (exchange_rows.exchange_lines1, 6),
    "turn_blocks16": (transpose_words.turn_blocks16, 5),
    "turn_blocks8": (transpose_words.turn_blocks8, 5),
    "turn_blocks4": (transpose_words.turn_blocks4, 5),
    "turn_blocks2": (transpose_words.turn_blocks2, 5),
    "turn_blocks1": (transpose_words.turn_blocks1, 5),
    "turn_square16": (transpose_words.turn_square16, 6),
    "turn_square8": (transpose_words.turn_square8, 6),
    "turn_square4": (transpose_words.turn_square4, 6),
}

#: Operations that copy bytes, with the number of integers that they take: two bytes, and parts of 16 words, for which
#: there are ways by the bytes that are wanted.
COPIES = {"copy2": (simd_bytes.copy2, 2), "copy_parts": (simd_bytes.copy_parts, 3)}


def is_used(name: str, target: Target) -> bool:
    """Whether kernels for a CPU may take an operation: some are made of instructions of AVX2."""
    return target.register_bytes == 32 or not name.startswith("turn_lines")


def machine_code(name: str, target: Target) -> str:
    """The assembler text of an operation; of a line, with the store that writes it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.platform).create_target_machine(cpu=target.name, opt=3)
    module = ir.Module()
    module.triple, module.data_layout = target.platform, str(machine.target_data)
    if name in SQUARES:
        operation = SQUARES[name]
        count = len(inspect.signature(operation._defn.__wrapped__).parameters) - 1
    elif name in ZIPS:
        operation, count = ZIPS[name][0], 3 if ZIPS[name][1] == 2 else 5
    elif name in BRAIDS or name in SHARED or name in COPIES:
        operation, count = (BRAIDS | SHARED | COPIES)[name]
    else:
        operation, count = LINES[name]
    number = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [number] * (count + 1)), "operation")
    builder = ir.IRBuilder(function.append_basic_block())
    place, *arguments = function.args
    for home in (bitfields, packed_elements, block_transpose, part_transpose, zip_rows, building):
        home.register_bytes = lambda: target.register_bytes
    line = operation._defn.__wrapped__(builder, *arguments)  # what `llvm.operation` decorates
    if name in LINES:
        builder.store(line, builder.inttoptr(place, line.type.as_pointer()), align=64)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(parsed, passes)
    return str(machine.emit_assembly(parsed))


def instructions(code: str) -> list[str]:
    """The instructions of assembler text, without labels and directives."""
    lines = (line.strip() for line in code.splitlines())
    return [line.split()[0] for line in lines if line and not re.match(r"[.#/]|[\w.$]+:", line)]


def main(argv: list[str] | None = None) -> int:
    """Print the table, or the code of one operation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", nargs=2, metavar=("NAME", "CPU"), help="print the machine code of one operation")
    options = parser.parse_args(argv)
    if options.show:
        name, cpu = options.show
        print(machine_code(name, TARGETS[cpu]))
        return 0
    print(" " * 14 + "".join(f"{cpu:>10s}" for cpu in TARGETS))
    for name in (*LINES, *ZIPS, *BRAIDS, *SHARED, *SQUARES, *COPIES):
        codes = (machine_code(name, target) if is_used(name, target) else "" for target in TARGETS.values())
        print(f"{name:14s}" + "".join(f"{len(instructions(code)) or '':>10}" for code in codes), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
