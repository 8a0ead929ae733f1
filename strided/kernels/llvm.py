"""Building blocks of the kernels' operations: vectors of bytes as a Numba type, and pieces of LLVM.

Everything is generic LLVM, which turns it into whatever vector instructions the CPU at hand has. Nothing is checked.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numba.extending
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import models, register_model

from strided.kernels import integers  # noqa: F401 how kernels compute

#: Numba's types say that it wants the first argument, which Numba itself adds.
intrinsic: Any = numba.extending.intrinsic

LINE = 64
"""Bytes of a cache line, and of a vector."""

BYTE, INT32, INT64 = (ir.IntType(bits) for bits in (8, 32, 64))
INTEGER = types.int64


class Vector(types.Type):
    """Numba's type of a number of bytes in registers."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"vector{count}")

    def of(self, bits):
        """The LLVM type that sees these bytes as elements of `bits`."""
        return ir.VectorType(ir.IntType(bits), self.count * 8 // bits)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.of(8))


VECTOR = Vector(LINE)


@functools.cache
@global_compiler_lock
def register_bytes() -> int:
    """Bytes of the widest registers for integers of the CPU that kernels are compiled for: 64, 32 or 16.

    LLVM is asked, since names of CPUs and their features can be given by the environment: it adds two vectors.
    """
    library = cpu_target.target_context.codegen().create_library("strided_register_bytes")
    module = library.create_ir_module("strided_register_bytes")
    vector = VECTOR.of(8).as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [vector]), "strided_register_bytes")
    builder = ir.IRBuilder(function.append_basic_block())
    value = builder.load(function.args[0])
    builder.store(builder.add(value, value), function.args[0])
    builder.ret_void()
    library.add_ir_module(module)
    library.finalize()
    added = re.search(r"vpadd.*([zy])mm", library.get_asm_str())  # of x86; AVX without AVX2 adds 16 bytes at a time
    return {"z": 64, "y": 32}[added[1]] if added else 16


def operation(result, *arguments):
    """An intrinsic of these types whose LLVM is what the decorated function builds."""

    def decorate(build):
        def typing(context, *given):
            signature = result(*(argument or own for argument, own in zip(arguments, given, strict=True)))

            def lower(context, builder, signature, values):
                built = build(builder, *values)
                return context.get_dummy_value() if result is types.void else built

            return signature, lower

        return intrinsic(functools.wraps(build)(typing))

    return decorate


def pointer_to(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def loaded(builder, address, vector, bits=8):
    kind = vector.of(bits)
    return builder.load(pointer_to(builder, address, kind), align=1)


def same(vector, number):
    """A constant vector that holds one number everywhere."""
    return ir.Constant(vector, [number] * vector.count)


def shuffled(builder, first, second, picks):
    picks = list(picks)
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(INT32, len(picks)), picks))


def splat(builder, number, vector):
    """A vector that holds one value everywhere."""
    undefined = ir.Constant(vector, ir.Undefined)
    is_wider = isinstance(number.type, ir.IntType) and number.type.width > vector.element.width
    scalar = builder.trunc(number, vector.element) if is_wider else number
    return shuffled(builder, builder.insert_element(undefined, scalar, INT32(0)), undefined, [0] * vector.count)


def concatenated(builder, parts):
    """One vector out of two, four or eight."""
    while len(parts) > 1:
        picks = range(2 * parts[0].type.count)
        parts = [shuffled(builder, a, b, picks) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _interleaved(builder, first, second, bits):
    """The elements of two vectors in turn: of the low half of every 16 bytes, and of the high half."""
    kind = ir.VectorType(ir.IntType(bits), first.type.count * first.type.element.width // bits)
    first, second = (builder.bitcast(vector, kind) for vector in (first, second))
    count, each = kind.count, 128 // bits
    for half in (0, each // 2):
        picks = (run + half + k // 2 + k % 2 * count for run in range(0, count, each) for k in range(each))
        yield shuffled(builder, first, second, picks)


def units(builder, rows, bits, unit):
    """Vectors of units of `unit` bits, made of one element of each row; the k-th holds the k-th of every 16 bytes."""
    if bits == unit:
        return rows
    pairs = [_interleaved(builder, a, b, bits) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return [one for group in zip(*pairs, strict=True) for one in units(builder, group, 2 * bits, unit)]


def in_turn(builder, vector, bits, groups):
    """The runs of `bits` of a vector, seen as so many groups: first of all the first of every group, and so on."""
    each = vector.type.count * vector.type.element.width // bits // groups
    runs = builder.bitcast(vector, ir.VectorType(ir.IntType(bits), groups * each))
    return shuffled(builder, runs, runs, [group * each + k for k in range(each) for group in range(groups)])


def packed(builder, first, second, bits, kept, clear=False):
    """The low halves of the elements of `bits` of two vectors, those of every 16 bytes of both side by side.

    Only the lowest `kept` bits of an element count, and with `clear` the others are zeros.
    """
    count = first.type.count * first.type.element.width // bits
    kind, half = ir.VectorType(ir.IntType(bits), count), ir.VectorType(ir.IntType(bits // 2), 2 * count)
    pair = first, second
    if 8 * register_bytes() == count * bits == 256:
        # AVX2: LLVM finds these instructions from no shuffle. What is too large for a half they make the largest half.
        name = {32: "llvm.x86.avx2.packusdw", 16: "llvm.x86.avx2.packuswb"}[bits]
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(half, [kind, kind]), name)
        pair = [builder.bitcast(vector, kind) for vector in pair]
        return builder.call(function, pair if clear else [builder.and_(v, same(kind, (1 << kept) - 1)) for v in pair])
    each = 256 // bits
    picks = (
        run + start + k for run in range(0, 2 * count, each) for start in (0, 2 * count) for k in range(0, each, 2)
    )
    return shuffled(builder, *(builder.bitcast(vector, half) for vector in pair), picks)


def packed_in_order(builder, vector, count):
    """What was packed from `count` vectors into one, whose every 16 bytes hold a run of each of them."""
    lanes = vector.type.count * vector.type.element.width // 128
    return as_bytes(builder, in_turn(builder, vector, 128 // count, lanes))


def either(builder, values):
    """The bits that are set in any of some values."""
    result = values[0]
    for value in values[1:]:
        result = builder.or_(result, value)
    return result


def as_bytes(builder, value):
    return builder.bitcast(value, ir.VectorType(BYTE, value.type.count * value.type.element.width // 8))


def ask_for(builder, address, near=False, write=False):
    """Hint that the line at an address, which may be any number, is wanted soon: `near`, in the first-level cache.

    With `write` it is wanted to be written.
    """
    # In the first level it may push out what is at work there: rows at powers of two share few of its sets.
    level = 1 if near or asks_near() else 2
    pointer = pointer_to(builder, address, BYTE)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT32, INT32, INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    builder.call(function, [pointer, INT32(int(write)), INT32(4 - level), INT32(1)])


def wall(builder):
    """Assembler text of no instructions, which LLVM must leave where it is.

    Without it the two stores of `put` become one and the hint is lost.
    """
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


def blended(builder, count, first, second):
    """The first `count` bytes of one vector of 64, the others from the second."""
    places = ir.Constant(first.type, list(range(LINE)))
    return builder.select(builder.icmp_unsigned("<", places, splat(builder, count, first.type)), first, second)


@functools.cache
def streams_lines() -> bool:
    """Whether lines are best streamed one by one on the CPU that kernels are made for: AMD's, but for Zen 4.

    Intel's take up to twice as long so, with registers of 32 and of 64 bytes; Zen 4's up to half as long again.
    """
    return _is_amd() and register_bytes() >= LINE // 2 and not _is_zen4()


@functools.cache
def rows_reread() -> int:
    """Rows side by side from which on long rows are best taken out of their words one by one: by the CPU's maker.

    All rows of a word at once, by way of the scratch, take 1.1 to 1.4 times as long on Intel's CPUs, with registers of
    32 and of 64 bytes, so there it is 0. On Zen 3 they take 1.1 to 1.3 times as long where tiles have 16 rows or more,
    and less time where they have fewer; on Zen 4 and Zen 5 less time. Of registers shorter than 32 bytes nothing is
    known: there each word is read once.
    """
    if register_bytes() < LINE // 2 or _is_zen4() or is_zen5():
        return 1 << 30
    return 16 if _is_amd() else 0


@functools.cache
def asks_near() -> bool:
    """Whether all lines are asked for into the first-level cache, not the second one: on Zen 5.

    There those asked for into the second-level cache come late wherever they do not follow each other: rows of words in
    part take 1.3 to 2.3 times as long so, tiles read from memory 1.05 to 1.2 times.
    """
    return is_zen5()


@functools.cache
def asks_for_gaps() -> bool:
    """Whether lines that nobody wants are asked for between short pieces of rows that alternate with long ones: Zen 5.

    There it fetches few lines at regular distances hardly any sooner for being asked for them alone: rows of 16 bits of
    which the second piece has one or two of eight lines take two to three times as long, of 32 bits 1.3 times. Rows of
    bytes, and of fewer bits, do not.
    """
    return is_zen5()


def _is_amd():
    return tuned_cpu().startswith("znver")


def _is_zen4():
    return tuned_cpu() == "znver4" and register_bytes() == LINE


@functools.cache
def is_zen5() -> bool:
    """Whether kernels are made for AMD's Zen 5."""
    return tuned_cpu() == "znver5"


@functools.cache
def tuned_cpu() -> str:
    """LLVM's name of the CPU whose caches kernels are made for.

    A name that the environment gives says which instructions there are. It says the rest, too, if it is of one of AMD's
    CPUs; all others, such as `haswell` and `x86-64-v3`, mean the CPU at hand, if its rules are known for registers as
    short as theirs.
    """
    _, name, _ = cpu_target.target_context.codegen().magic_tuple()
    at_hand = get_host_cpu_name()
    return at_hand if at_hand in ("znver3", "znver5") and not name.startswith("znver") else name


def joined(builder, before, line, phase):
    """The 64 bytes that end `phase` bytes into `line`, if those at the address `before` come before it; with AVX2.

    `phase` is a multiple of 4 below 64. Loads from where the line was just stored would wait for the stores before it.
    """
    words = builder.trunc(builder.lshr(phase, INT64(2)), INT32)
    line = builder.bitcast(line, VECTOR.of(32))
    if register_bytes() == LINE:
        places = builder.sub(_counted(VECTOR.of(32), LINE // 4), splat(builder, words, VECTOR.of(32)))
        return as_bytes(
            builder, _picked(builder, "avx512.vpermi2var.d.512", loaded(builder, before, VECTOR, 32), places, line)
        )
    # What ends here lies in three halves that follow each other. Each is turned as far as needed: the instruction takes
    # the lowest three bits of a place.
    half = Vector(LINE // 2).of(32)
    numbers, shift = _counted(half), splat(builder, words, half)
    low, high = (shuffled(builder, line, line, range(begin, begin + half.count)) for begin in (0, half.count))
    middle = builder.add(before, INT64(LINE // 2))
    first = builder.sub(middle, builder.and_(phase, INT64(LINE // 2)))
    first, last = (loaded(builder, place, Vector(LINE // 2), 32) for place in (first, middle))
    is_far = builder.icmp_signed("!=", builder.and_(shift, same(half, half.count)), same(half, 0))
    halves = first, builder.select(is_far, last, low), builder.select(is_far, low, high)
    a, b, c = (_picked(builder, "avx2.permd", part, builder.sub(numbers, shift)) for part in halves)
    begun = builder.icmp_signed("<", numbers, builder.and_(shift, same(half, half.count - 1)))
    return as_bytes(builder, concatenated(builder, [builder.select(begun, a, b), builder.select(begun, b, c)]))


def _counted(vector, start=0):
    """A constant vector that counts on from `start`."""
    return ir.Constant(vector, list(range(start, start + vector.count)))


def _picked(builder, name, *vectors):
    """What an instruction of x86 makes of vectors of words, all alike."""
    kind = ir.FunctionType(vectors[0].type, [vector.type for vector in vectors])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), vectors)


def stream(builder, value, pointer):
    wall(builder)
    store = builder.store(value, pointer, align=LINE)
    store.set_metadata("nontemporal", builder.module.add_metadata([INT32(1)]))
    wall(builder)


def put_lines(builder, lines, places, streaming, wanted=None):
    """Write lines to addresses; past the caches if `streaming` is not 0, and then to multiples of 64.

    With `wanted`, only those whose bits are set in it.
    """
    pointers = [pointer_to(builder, place, line.type) for line, place in zip(lines, places, strict=True)]
    with builder.if_else(builder.icmp_signed("!=", streaming, INT64(0))) as branches:
        for branch, put in zip(branches, (stream, _store), strict=True):
            with branch:
                for k, (line, pointer) in enumerate(zip(lines, pointers, strict=True)):
                    if wanted is None:
                        put(builder, line, pointer)
                        continue
                    bit = builder.and_(wanted, INT64(1 << k))
                    with builder.if_then(builder.icmp_unsigned("!=", bit, INT64(0)), likely=True):
                        put(builder, line, pointer)


def _store(builder, value, pointer):
    builder.store(value, pointer, align=1)


def entries(builder, table, base, count, column=0, columns=1):
    """The first `count` int64 in a column of the table at an address, with `base` added to each."""
    places = (pointer_to(builder, builder.add(table, INT64(8 * (columns * k + column))), INT64) for k in range(count))
    return [builder.add(builder.load(place, align=8), base) for place in places]


def function_of(module, name, result, arguments, body):
    """A function of its own, so that LLVM compiles a long body once for all its callers."""
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    body(builder, *function.args)
    return function
