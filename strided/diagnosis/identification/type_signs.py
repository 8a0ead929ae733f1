"""What values show of their type, wherever they lie: narrow exponents, small integers, bytes that are 0 or 1."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.sampling import Source, as_numbers
from strided.layout import Shape
from strided.layout.element_types import ElementType, element_type
from strided.runtime.aliases import Table

#: The share of a sample beyond which one number is a filling: its exponent says nothing of the type.
_FILLING = 1 / 8
#: Values looked at for the signs of a type, and how many count.
_WORDS, _TYPE_WORDS = 2048, 64
_LN2 = math.log(2)
#: ASCII's white space and characters that print.
_TEXT = np.array([*range(9, 14), *range(32, 127)], np.float64)
_COMMON = frozenset({"f32", "bf16", "f16", "s32", "s8", "u8", "pred", "u32", "s64", "f64"})
#: Bits of exponents that names do not tell.
_EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "c64": 8, "f64": 11, "c128": 11}
#: Bits of each value that subnormals cost.
_SUBNORMAL = 2.0
#: The share of bytes that hold no value of a narrow type which refutes it.
_REFUTED = 1 / 16
#: Nats against any other type, and against swapped bytes.
RARITY = 30.0


def type_signs(source: Source, reading: Reading) -> Evidence:
    """What the type itself says of the values: narrow exponents, small integers, bytes that are 0 or 1."""
    kind, bits = element_type(reading.shape.element_type), reading.shape.element_bits
    most = _TYPE_WORDS * 32 / bits
    if kind.bits < bits:
        strange, fillings = _strange_bytes(source, reading)
        # Of words that are not 0, as in `_saved`: the type has so many.
        saved = math.log2(255 / (2**kind.bits - 1)) - 255 * strange
        others = " but fillings" * (fillings > 0)
        sentence = f"type: {strange:.0%} of the bytes{others} are no {kind.name}"
        if not strange:
            sentence = f"type: all bytes{others} are {kind.name}"
    else:
        values = source.fetch(reading, _looked_at(source, reading))[0]
        saved, sentence = _signs(values, kind)
        if bits > 8:
            saved = _saved_by_distinct_words(saved, values, kind, most)
    rare = RARITY * ((kind.name not in _COMMON) + (reading.byteorder == "big"))
    return Evidence("type", _LN2 * most * saved - rare, sentence)


def _saved_by_distinct_words(saved: float, values: npt.NDArray[Any], kind: ElementType, most: float) -> float:
    """Bits saved of each value, of which those that tell the order of bytes count once for each distinct word.

    A word that comes again says nothing new of the order: an array of one value has one, and a mask two. The type saves
    what it does in the better order; the other one is behind by what the distinct words say. Of `most` words or more
    all values say it.
    """
    turned = values.byteswap()
    words = [_distinct(each) for each in (values, turned)]
    if min(map(len, words)) >= most:
        return saved
    own, other = (len(each) * _signs(each, kind, filling=1.0)[0] for each in words)
    return max(saved, _signs(turned, kind)[0]) - max(0.0, other - own) / most


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The words other than 0, each of them once."""
    words = np.unique(values.view(f"V{values.dtype.itemsize}")).view(values.dtype)
    found: npt.NDArray[Any] = words[as_numbers(words) != 0]
    return found


def _signs(values: npt.NDArray[Any], kind: ElementType, filling: float = _FILLING) -> tuple[float, str]:
    """Bits that a type saves of each value, and what it holds in words. Floats of a larger share are a `filling`."""
    return _float_signs(values, kind, filling) if _is_float(kind) else _integer_signs(values, kind)


def may_be_wider(source: Source, reading: Reading) -> bool:
    """Whether bytes of a narrow type hold others over and over: those that fill padding, or the values of a wider type.

    Only a layout tells which, so that such a type rules no other one out.
    """
    kind = element_type(reading.shape.element_type)
    return kind.bits < reading.shape.element_bits and _strange_bytes(source, reading)[1] > 0


def _strange_bytes(source: Source, reading: Reading) -> tuple[float, float]:
    """The share of bytes that are no value of a narrow type: of those that come now and then, and of fillings."""
    kind, at = element_type(reading.shape.element_type), _looked_at(source, reading)
    words = source.fetch(replace(reading, shape=Shape("u8", (len(at),))), at)[0]
    strange, is_filling = ~_fits(words, kind), _times(words) > _FILLING * len(words)
    return float((strange & ~is_filling).mean()), float((strange & is_filling).mean())


def _looked_at(source: Source, reading: Reading) -> Table:
    """The slots whose values tell of the type: all of a few, or some anywhere."""
    count = (source.size - reading.offset) * 8 // reading.shape.element_bits
    return np.arange(count) if count <= _WORDS else np.random.default_rng(13).integers(0, count, _WORDS)


def narrow_signs(signs: Evidence, kind: ElementType, words: npt.NDArray[np.uint8]) -> Evidence:
    """The signs of a type of less than 8 bits beside the bytes that a reading takes for elements.

    Padding may hold any bytes, but these may not: others show elements of a wider type, or those of a wrong layout. The
    more of them there are the worse, up to a share from which on they are none in any layout.
    """
    strange = float((~_fits(words, kind)).mean()) if len(words) else 0.0
    if not strange:
        return signs
    cost = _TYPE_WORDS * _LN2 * 255 * min(strange, _REFUTED) * 32 / 8
    return Evidence("type", signs.weight - cost, f"type: {strange:.0%} of the elements are no {kind.name}")


def _fits(words: npt.NDArray[np.uint8], kind: ElementType) -> npt.NDArray[np.bool_]:
    """Which bytes hold one value of a narrow type, whose high bits are zero or repeat the sign. A true may be 255."""
    repeats_sign = (words.view(np.int8) >> (kind.bits - 1) == -1) & (kind.name[0] == "s")
    found: npt.NDArray[np.bool_] = (words >> kind.bits == 0) | repeats_sign | ((words == 255) & (kind.name == "pred"))
    return found


def _is_float(kind: ElementType) -> bool:
    return kind.name.startswith(("f", "bf", "c"))


def _float_signs(values: npt.NDArray[Any], kind: ElementType, filling: float) -> tuple[float, str]:
    """Bits that narrow exponents save of each value."""
    numbers = as_numbers(values)
    nan, inf = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    times = _times(values)
    finite = np.isfinite(numbers)
    tiny = _SUBNORMAL * _subnormal(numbers[finite & (numbers != 0)], kind)
    held = numbers[finite & (numbers != 0) & (times <= filling * len(numbers))]
    # One NaN over and over is a poison, or masks values; those of a wrong type have all sorts of payloads.
    strange = int(np.count_nonzero(~finite)) - int(times[~finite].max(initial=0))
    shown = f"NaN {nan:,}, Inf {inf:,}" if nan or inf else "no NaN, no Inf"
    if not len(held):
        return 0.0 - tiny, f"type: {shown}"
    exponents = np.frexp(held)[1]
    low, high = np.percentile(exponents, [1, 99]) - 1
    named = re.search(r"e(\d)m", kind.name)
    bits = int(named[1]) if named else _EXPONENT_BITS[kind.name]
    width = kind.bits // (1 + (kind.name[0] == "c")) - 1 - bits
    saved = bits - entropy(exponents) + (0 if tiny else _spare_bits(held, width))
    saved -= 16 * strange / len(numbers) + abs(float(np.median(exponents))) / 32 + tiny
    return saved, f"type: 98% of the exponents lie from 2^{low:.0f} to 2^{high:.0f}; {shown}"


def _spare_bits(held: npt.NDArray[np.float64], width: int) -> int:
    """How many of `width` bits of the mantissa are zero in all values, as in those of integers and of coarser floats.

    >>> _spare_bits(np.array([1.5, 3.25, -200.0]), 23)
    19
    """
    mantissas = (np.abs(np.frexp(held)[0]) * 2.0**53).astype(np.int64)
    every = int(np.bitwise_or.reduce(mantissas))
    used = 52 - ((every & -every).bit_length() - 1)  # the first of the 53 bits is implied
    return max(0, width - used)


def _subnormal(numbers: npt.NDArray[np.float64], kind: ElementType) -> float:
    """The share of subnormal ones: small integers are, if the bytes of wide floats are read in the wrong order."""
    if kind.name not in _EXPONENT_BITS or not len(numbers):
        return 0.0
    smallest = 2.0 ** (2 - (1 << _EXPONENT_BITS[kind.name] - 1))
    return float((np.abs(numbers) < smallest).mean())


def _times(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How often the bytes of each value occur."""
    words = values.view(f"V{values.dtype.itemsize}")
    _, inverse, counts = np.unique(words, return_inverse=True, return_counts=True)
    found: npt.NDArray[np.int64] = counts[inverse]
    return found


def _integer_signs(values: npt.NDArray[Any], kind: ElementType) -> tuple[float, str]:
    """Bits that small integers save of each value, by `_saved`; or, if more, those that codes of text save."""
    numbers = as_numbers(values)
    filling = _filling(numbers, kind)
    held = numbers[(numbers != 0) & ~filling]
    if not len(held):
        return 0.0, f"type: all values that were looked at are {'zero' if not numbers.any() else '0 or all ones'}"
    saved = _saved(held, kind.bits, 1 + bool(filling.any()))
    low, high = numbers.min(), numbers.max()
    if kind.bits == 8 and np.isin(held, _TEXT).all():
        return max(saved, math.log2(255 / len(_TEXT))), "type: all values that were looked at are codes of text"
    if (low, high) == (0, 1):
        return saved, "type: all values that were looked at are 0 or 1"
    return saved, f"type: the values that were looked at lie from {low:,.0f} to {high:,.0f}"


def _saved(held: npt.NDArray[np.float64], bits: int, fillings: int = 1) -> float:
    """Bits that each of some integers takes less as a small integer than as a word of so many `bits`.

    It is the mean logarithm of a likelihood ratio. Both models are of words that are no `fillings`: zeros, and ones
    alone if they are many, fill buffers of any type and tell nothing of it. In the reference model, the same for every
    type, each of the other words is as likely as any: it takes log2(2**bits - fillings) bits. In the model of small
    integers the sign and the length in bits, of negative ones that of the complement, have any distribution, whose
    entropy they take; then each integer of a length n is as likely as any, and takes n - 1 bits, for the first of them
    is a one. Random words save nothing:

    >>> words = np.arange(1.0, 256)
    >>> abs(_saved(words, 8)) < 0.05, abs(_saved(words[:3], 2)) < 0.5, _saved(np.ones(100), 1)
    (True, True, 0.0)
    """
    lengths = np.frexp(np.where(held < 0, -1 - held, held))[1]
    inner = float(np.maximum(lengths - 1, 0).mean())
    return math.log2(2**bits - fillings) - inner - entropy(2 * lengths + (held < 0))


def _filling(numbers: npt.NDArray[np.float64], kind: ElementType) -> npt.NDArray[np.bool_]:
    """Words of ones alone, if they are many: buffers are filled with them, as with a NaN. They are no small integer.

    A byte of ones is two such words of four bits: it must not be a filling to one type and a sign of another.
    """
    found: npt.NDArray[np.bool_] = numbers == (-1 if kind.name[0] == "s" else float(2**kind.bits - 1))
    return found & (np.count_nonzero(found) > max(_FILLING, 2 * 0.5**kind.bits) * len(found))  # twice what chance has


def entropy(symbols: npt.NDArray[np.integer[Any]]) -> float:
    """Bits of information in one of these symbols."""
    counts = np.unique(symbols, return_counts=True)[1]
    shares = counts / counts.sum()
    # Few symbols look more alike than they are: the correction of Miller and Madow.
    return float(-(shares * np.log2(shares)).sum() + (len(counts) - 1) / (2 * counts.sum() * _LN2))
