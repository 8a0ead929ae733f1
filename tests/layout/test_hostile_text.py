"""Hostile text: garbage, mangled, deep, long. It soon ends in a value or a NotationError."""

from __future__ import annotations

import random
import re
import warnings
from functools import partial
from typing import Any

import pytest
from hypothesis import given

import strided as sd
from tests.cases import ARRAY_TYPES, CORPUS, SHAPE_TEXT_CASES
from tests.layout.test_parser import MISREAD, check_error, check_value
from tests.steps import check_linear
from tests.strategies import garbage
from tests.thinned import thinned

# --- the grammar, once more ------------------------------------------------------------------------------------------

INTEGER = r"-?\d+"
INTEGERS = rf"(?:{INTEGER}(?:,{INTEGER})*)"
SIZES = rf"(?:(?:(?:<=)?{INTEGER}|\?)(?:,(?:(?:<=)?{INTEGER}|\?))*)?"
TILE = rf"\((?:{INTEGER}|\*)(?:,(?:{INTEGER}|\*))*\)"
SPLIT = rf"\({INTEGER}:{INTEGERS}?\)"
LEVELS = r"D\([DCSH]\+?~?(?:,[DCSH]\+?~?)*\)"
PARTS = [
    LEVELS, f"T(?:{TILE})+", *(rf"{letter}\({INTEGER}\)" for letter in "LES"), f"SC(?:{SPLIT})+", rf"M\({INTEGER}\)"
]  # fmt: skip
LAYOUT = rf"\{{{INTEGERS}?(?::{''.join(f'(?:{part})?' for part in PARTS)})?\}}"
ARRAY = re.compile(rf"(?:{'|'.join((*ARRAY_TYPES, 'token', 'opaque'))})\[{SIZES}\](?:{LAYOUT})?")


def is_grammatical(text: str) -> bool:
    """Whether a text is one of the grammar's, white space and comments aside: arrays first, then what holds them."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|[ \t\r\n]", "", text, flags=re.DOTALL)
    if re.fullmatch(LAYOUT, text):
        return True
    text = ARRAY.sub("@", text)
    text = text.replace("b(@)", "@")
    while (reduced := re.sub(r"\((?:@(?:,@)*)?\)", "@", text)) != text:
        text = reduced
    return text == "@"


def test_the_test_of_the_grammar() -> None:
    assert all(
        is_grammatical(text) for text in [*CORPUS.values(), "(f32[2], /* c */ (), b(s4[<=3,?]{1,0:T(*,2)E(4)}))"]
    )
    assert not any(
        is_grammatical(text) for text in MISREAD if "9223372036854775808" not in text and "100000" not in text
    )


def value_or_error(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.NotationWarning)
        try:
            return sd.parse(text)
        except sd.NotationError as error:
            check_error(error, text)
            return None


@given(garbage())
def test_garbage_ends_in_a_value_or_an_error(text: str) -> None:
    value = value_or_error(text)
    if value is not None:
        check_value(value)


def test_mangled_texts_end_in_a_value_or_an_error() -> None:
    rng = random.Random(11)
    seeds = [c["input"] for c in SHAPE_TEXT_CASES] + list(CORPUS.values())
    values = 0
    for _ in range(4000):
        letters = list(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(letters) + 1)
            match rng.randrange(4):
                case 0:
                    del letters[at : at + 1]
                case 1:
                    letters.insert(at, rng.choice("(){}[],:*0123456789TSELDMC#<=?fbpu /\n\x00\xe9-"))
                case 2:
                    letters[at:at] = rng.choice(seeds)
                case _:
                    letters[at : at + 1] = letters[at : at + 1] * 2
        text = "".join(letters)
        value = value_or_error(text)
        if value is None:
            continue
        values += 1
        check_value(value)
        if not is_grammatical(text):
            with pytest.raises(sd.NotationError, match=r"\S"):
                sd.parse(text, strict=True)
    assert values > 100, "hardly any text was well formed: the mangling does not test much"


HOSTILE = {
    "open parentheses": lambda n: "(" * n,
    "nested tuples": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "nested buffers": lambda n: "b(" * (n // 2),
    "nested with commas": lambda n: "(()," * (n // 4),
    "digits": lambda n: "f32[" + "9" * n + "]",
    "zeros": lambda n: "f32[" + "0" * n + "]",
    "many dimensions": lambda n: "f32[1" + ",1" * (n // 2) + "]",
    "many dimensions without end": lambda n: "f32[" + "1," * (n // 2),
    "many layout entries": lambda n: "f32[3]{0" + ",0" * (n // 2) + "}",
    "layout of many entries": lambda n: "{0" + ",0" * (n // 2) + "}",
    "tile of many entries": lambda n: "f32[]{:T(0" + ",0" * (n // 2) + ")}",
    "many tiles": lambda n: "f32[3]{0:T(1)" + "(2)" * (n // 3) + "}",
    "many combined": lambda n: "f32[3]{0:T(*" + ",*" * (n // 2) + ",2)}",
    "open tiles": lambda n: "f32[3]{0:T" + "(" * n,
    "many splits": lambda n: "f32[3]{0:SC(0:1" + ",1" * (n // 2) + ")}",
    "split configs": lambda n: "f32[3]{0:SC" + "(0:1)" * (n // 5) + "}",
    "many scalars": lambda n: "(" + "f32[]," * (n // 6) + "f32[])",
    "letters": lambda n: "x" * n,
    "open comment": lambda n: "/*" + "*" * n,
    "many open comments": lambda n: "/*" * (n // 2),
    "comments": lambda n: "/**/" * (n // 4) + "f32[]",
    "slashes": lambda n: "/" * n,
    "blanks": lambda n: " " * n + "f32[3]" + " " * n,
    "lines": lambda n: "\n" * n + "f32[3]x",
    "control": lambda n: "\x00" * n,
    "wide": lambda n: "\U0001f600" * n,
    "surrogates": lambda n: "\ud800" * n,
    "minus signs": lambda n: "f32[" + "-" * n + "1]",
    "question marks": lambda n: "f32[" + "?," * (n // 2) + "?]",
    "level types": lambda n: "f32[3]{0:D(D" + ",C+~" * (n // 4) + ")}",
    "braces": lambda n: "f32[]" + "{" * n,
}


@pytest.mark.parametrize("kind", thinned(HOSTILE, 7))
@pytest.mark.slow
def test_hostile_text_of_any_size_ends_soon(kind: str) -> None:
    """In work that grows as the text does."""
    value_or_error(HOSTILE[kind](200_000))
    check_linear(lambda size: partial(value_or_error, HOSTILE[kind](size)), 80)


def test_ten_megabytes_of_garbage() -> None:
    for text in ("(" * 10_000_000, "x" * 10_000_000, "f32[3," * 1_700_000):
        assert value_or_error(text) is None


@pytest.mark.parametrize("depth", [1, 30, 100, 1000, pytest.param(10_000, marks=pytest.mark.slow), 100_000])
def test_nesting(depth: int) -> None:
    """Deep nesting is read or refused, and what was read can be used."""
    text = "(" * depth + "f32[2]{0}" + ")" * depth
    value = value_or_error(text)
    if value is None:
        assert depth > 100, "ordinary nesting must be read"
        return
    assert str(value) == text
    check_value(value)
    assert [leaf for _, leaf in value.leaves()] == [sd.parse("f32[2]")]
