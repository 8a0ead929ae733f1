"""The script of a page computes the package's addresses: every slot and every element, both ways."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.explorer.layouts import layout_data
from strided.explorer.page import bundled
from strided.explorer.values import values_data

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node, which runs a page's script, is not installed")

SHAPES = [
    "f32[]",
    "f32[7]",
    "f32[0,3]",
    "f32[3,5]{0,1}",
    "f32[3,5]{1,0:T(2,2)}",
    "f32[5]{0:T(2,4)}",
    "bf16[17,300]{1,0:T(8,128)(2,1)}",
    "s8[33,130]{0,1:T(8,128)(4,1)}",
    "s4[17,129]{1,0:T(8,128)(8,1)E(4)}",
    "u2[9]{0:T(8)E(2)}",
    "s8[1000]{0:T(1024)(128)(4,1)}",
    "f32[3,5]{1,0:T(*,4)}",
    "f32[3,5,7]{2,1,0:T(*,4)(2)}",
    "f32[8,8]{1,0:T(2,4)(2,1,1,1)}",
    "bf16[24,26]{1,0:T(8,12)(2,1,1,1)}",
    "bf16[6,5,4]{0,2,1:T(3,2)(2,1)}",
    "f32[10]{0:T(4)(3)}",
    "f32[5,7]{1,0:L(16)}",
    "pred[2,3,4,5]{1,3,0,2:T(2,2)}",
    "f32[3,5]{1,0:M(64)}",
]

_PROGRAM = """
import { readFileSync } from "node:fs";
const layouts = JSON.parse(readFileSync(0, "utf8"));
const found = layouts.map((layout) => {
  const slots = Array.from({ length: layout.slots }, (_, slot) => indexAt(layout, slot));
  const offsets = slots.map(({ index }) => (index ? offsetOf(layout, index) : null));
  const sums = slots.map(({ index }) => index && steps(layout, index).reduce((sum, step) => sum + step.adds, 0));
  return { slots, offsets, sums, places: slots.map((_, slot) => placeOf(layout, slot)) };
});
console.log(JSON.stringify(found));
"""


@needs_node
@pytest.mark.slow
def test_every_slot_and_every_element() -> None:
    shapes = [sd.parse_shape(text) for text in SHAPES]
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", bundled("address") + _PROGRAM],
        input=json.dumps([layout_data(shape) for shape in shapes]),
        capture_output=True,
        text=True,
        check=True,
    )
    for shape, found in zip(shapes, json.loads(done.stdout), strict=True):
        slots = np.arange(len(found["slots"]))
        wanted = np.transpose([np.broadcast_to(one, slots.shape) for one in shape.index_at(slots)] or np.empty((0, 0)))
        for slot, place in enumerate(found["slots"]):
            if place["index"] is None:
                assert slot % 7 or place["over"] == shape.padding_dimension_at(slot)  # one of seven: each takes a while
            else:
                assert place["index"] == (wanted[slot].tolist() if shape.rank else [])
                assert found["offsets"][slot] == found["sums"][slot] == slot
        elements = sum(place["index"] is not None for place in found["slots"])
        assert elements == shape.size
        bits = slots * shape.element_bits
        prefix = shape.layout.dynamic_shape_metadata_prefix_bytes
        assert [at["first"] for at in found["places"]] == (prefix + bits // 8).tolist()
        assert [at["last"] for at in found["places"]] == (prefix + (bits + shape.element_bits - 1) // 8).tolist()
        assert [at["bit"] for at in found["places"]] == (bits % 8).tolist()


@needs_node
def test_keys() -> None:
    rng = np.random.default_rng(0)
    dimensions = [5, 7, 3]
    grid = np.arange(np.prod(dimensions)).reshape(dimensions)
    words = ["", ":", "...", "0", "-1", "2", "::2", "::-1", "4:1:-1", "-3:", ":-2", "1:1", "9:", "-9:9", "6:0:-2"]
    texts = [", ".join(rng.choice(words, rng.integers(0, 4))) for _ in range(400)]
    texts += ["7", "0,0,0,0", "x", "1:2:0", "..., ...", "[2, 1]", "1,", "-6"]
    program = """
    import { readFileSync } from "node:fs";
    const { texts, dimensions } = JSON.parse(readFileSync(0, "utf8"));
    console.log(JSON.stringify(texts.map((text) => {
      try { return [...indicesOf(parseKey(text, dimensions).axes)]; } catch (error) { return error.message; }
    })));
    """
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", bundled("key") + program],
        input=json.dumps({"texts": texts, "dimensions": dimensions}),
        capture_output=True,
        text=True,
        check=True,
    )
    for text, found in zip(texts, json.loads(done.stdout), strict=True):
        try:
            key = sd.inspect.parse_index(text.strip().removeprefix("[").removesuffix("]"))
            wanted = grid[key].reshape(-1).tolist()
        except (IndexError, ValueError, sd.StridedError):
            assert isinstance(found, str), text
            continue
        if isinstance(found, str):
            assert ", ," in text or text.strip().startswith(",") or text.endswith(", "), (text, found)
            continue
        assert [int(grid[tuple(index)]) for index in found] == wanted, text


def printed(value: Any) -> str:
    """A value as NumPy prints it, with exponents from 1e16 on: where they begin depends on NumPy's version."""
    if isinstance(value, np.complexfloating):
        real, imaginary = (printed(part).removesuffix(".0") for part in (value.real, value.imag))
        return f"{imaginary}j" if real == "0" else f"({real}{'' if imaginary[0] == '-' else '+'}{imaginary}j)"
    if not isinstance(value, np.floating) or not np.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(float(value)) < 1e16:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-", exp_digits=2)


@needs_node
def test_values_as_numpy_prints_them() -> None:
    rng = np.random.default_rng(0)
    spread = rng.normal(size=60) * 10.0 ** rng.integers(-8, 5, 60)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.5, 0.1, 1e-4, 9e-5, 1e4, 65504.0, 2.0**-24, 1e-45, 123456.0]
    types = (
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int4 uint8 int32 int64 bool complex64 complex128"
    )
    program = """
    import { readFileSync } from "node:fs";
    const all = JSON.parse(readFileSync(0, "utf8"));
    console.log(JSON.stringify(all.map(({ values, size }) => {
      const valueOf = reader(values);
      return Array.from({ length: size }, (_, at) => [valueOf(at), valueOf(at, 4)]);
    })));
    """
    arrays = []
    for name in types.split():
        with np.errstate(all="ignore"):
            floats = np.array([*edges, *spread, 1e15, 1e16, 3e20, 16777216.0, 1e-300])
            if "int" in name:
                floats = np.array([-8.0, -1.0, 0.0, 1.0, 7.0]) if name != "uint8" else np.array([0.0, 255.0])
            if name == "int32":
                floats = np.array([1234567.0, -641564065.0])
            numbers = floats + 1j * floats[::-1] if "complex" in name else floats
            values = numbers.astype(np.dtype(getattr(ml_dtypes, name, name)))
        arrays.append(sd.LayoutArray.from_numpy(values, "{0}"))
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", bundled("values") + program],
        input=json.dumps([{"values": values_data(array), "size": array.size} for array in arrays]),
        capture_output=True,
        text=True,
        check=True,
    )
    for array, found in zip(arrays, json.loads(done.stdout), strict=True):
        for value, (text, short) in zip(array.to_numpy(), found, strict=True):
            assert text == printed(value), (array.dtype, value)
            assert short == text or not isinstance(value, np.integer)  # however narrow its cell is


def test_names_in_the_modules_are_unique() -> None:
    """They are put into one script: a second declaration of a name would end it."""
    if NODE is None:
        pytest.skip("node, which reads a page's script, is not installed")
    done = subprocess.run(
        [NODE, "--check", "--input-type=module", "-"],
        input=bundled("main"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_addresses() -> None:
    for text in ("token[]", "f32[?,3]", "f32[16,16]{1,0:T(8,128)SC(0:8)}"):
        with pytest.raises(sd.UnsupportedError, match="no addresses"):
            layout_data(sd.parse_shape(text))
    with pytest.raises(sd.UnsupportedError, match="too large"):
        layout_data(sd.parse_shape("f32[1000000000,1000000]"))


def test_assets_are_in_the_package() -> None:
    import strided.explorer

    folder = Path(strided.explorer.__file__).parent / "assets"
    assert {path.suffix for path in folder.iterdir()} == {".js", ".css"}
