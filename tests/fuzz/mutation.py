"""Inputs for readers: seeds that are mangled, spliced, repeated, and put together anew. All follows from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

#: The longest input, in bytes.
LONGEST = 2500

#: Pieces that mean something to one reader or another.
WORDS = [
    *rb"""
    f32[2,3]{1,0:T(8,128)(2,1)} s4[<=3,?]{1,0:E(4)} (f32[], token[]) b(u8[2]) T(*,2) S(1) SC(0:1) L(4) M(16)
    HloModule ENTRY ROOT %a = add( ) parameter(0) constant( , metadata={op_name="x"} sharding={replicated} calls=
    to_apply= { } ( ) [ ] < > : , ; = " ' \ /* */ // -> <= # {devices=[2,1]<=[2]T(0)} last_tile_dims={manual}
    {mesh['x'=2],[{'x':(1)2}]} maximal device=3 shard_as BufferAssignment: allocation 0: size value: <1 @0>
    (size=4,offset=0): (phi) parameter shape | ShapeIndex shape { element_type: F32 dimensions: 3 } s32s: f32s
    arguments hlo_module partitions version: \001 \x41 {'descr': '<f4', 'fortran_order': False, 'shape': (3,), }
    # bf16 '|V2' 1L (((( None module_0001.jit_f.before_optimizations.txt snapshot.3.pb execution_0001 cl_7 after_
    -1 0 9223372036854775807 9223372036854775808 -9223372036854775808 99999999999999999999999 1e999 nan
    """.split(),
    *(b"\n", b"\r\n", b"\t", b" ", b"\0", b"\x1b[31m", b"\x07", b"\xc2\x9b", b"\xff", b"\x93NUMPY\x01\x00"),
    *("\u202e".encode(), "\u200b".encode(), "\U0001f600".encode()),
    *(b"\x1f\x8b\x08\x00", b"\x0a\x00", b"\x12\x7f", b"\xff" * 9 + b"\x01", b"\x80" * 11),
]


def inputs(seeds: Sequence[bytes], rng: random.Random) -> Iterator[bytes]:
    """Endless inputs for one reader: now and then a seed as it is, mostly a mangled one, at times pure invention."""
    while True:
        kind = rng.randrange(20)
        if kind == 0:
            yield rng.choice(seeds)[:LONGEST]
        elif kind <= 2:
            yield b"".join(rng.choice(WORDS) for _ in range(rng.randint(1, 30)))
        elif kind == 3:
            yield rng.randbytes(rng.randint(0, 60))
        else:
            yield mangled(rng.choice(seeds), seeds, rng)


def mangled(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """A seed, or a window of it, after a few changes."""
    if len(data) > LONGEST or not rng.randrange(4):
        start = rng.randrange(max(1, len(data)))
        data = data[start : start + rng.randint(1, LONGEST)]
    for _ in range(1 + int(rng.expovariate(0.8))):
        data = _CHANGES[rng.randrange(len(_CHANGES))](data, seeds, rng)
    return data[:LONGEST]


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _cut(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    return data[: _place(data, rng)]


def _remove(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + rng.choice((1, 1, 2, 5, 30)) :]


def _insert(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.choice(WORDS) + data[at:]


def _replace(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at, word = _place(data, rng), rng.choice(WORDS)
    return data[:at] + word + data[at + len(word) :]


def _flip(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << rng.randrange(8)),)) + data[at + 1 :]


def _set(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = _place(data, rng)
    return (
        data[:at]
        + bytes((rng.choice((0, 1, 2, 8, 10, 18, 26, 34, 127, 128, 255, rng.randrange(256))),))
        + data[at + 1 :]
    )


def _number(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """One of the numbers in a text, another one."""
    digits = [k for k, byte in enumerate(data) if 48 <= byte < 58]
    if not digits:
        return _insert(data, seeds, rng)
    at = rng.choice(digits)
    other = rng.choice(
        (b"0", b"1", b"-1", b"7", b"128", b"4294967296", b"9223372036854775807", b"18446744073709551616")
    )
    return data[:at] + other + data[at + 1 :]


def _repeat(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    start = _place(data, rng)
    stop = start + rng.choice((1, 3, 10, 100))
    return data[:stop] + data[start:stop] * rng.choice((1, 2, 20, 200)) + data[stop:]


def _splice(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    return data[: _place(data, rng)] + other[_place(other, rng) :]


_CHANGES = (_cut, _remove, _insert, _insert, _replace, _flip, _flip, _set, _set, _number, _number, _repeat, _splice)
