"""What a type checker says of code that uses the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

USE = """
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import strided as sd
from strided.dumps.hlo import Computation, Module
from strided.dumps.snapshots.snapshot import Snapshot

assert_type(sd.parse_shape("f32[3,5]{1,0}"), sd.Shape)
assert_type(sd.parse_layout("{1,0}"), sd.Layout)
assert_type(sd.parse("f32[3,5]"), sd.Shape | sd.BufferShape | sd.TupleShape | sd.Layout)
assert_type(sd.open("a.bin", sd.parse_shape("f32[3,5]")), sd.LayoutArray)
assert_type(sd.inspect.sizes("f32[3,5]").total_bytes, int)
assert_type(sd.tpu.default_layout("f32[3,5]"), sd.Layout)
layout = sd.Layout([1, 0], [(8, 128), (2, 1)], split_configs=[(0, [4])])
assert_type(layout.tiles, tuple[sd.Tile, ...])
shape = sd.Shape("bf16", [16, 300], layout, dynamic=[False, True])
assert_type(shape.dimensions, tuple[int, ...])
assert_type(sd.Sharding.parse("{replicated}").shard_shape(shape), tuple[int, ...])
error: sd.StridedError = sd.errors.DumpError("no such line")

# One index or offset gives Python's numbers; arrays of them give arrays.
number = np.int64(1)
assert_type(shape.offset_of((1, number)), int)
assert_type(shape.bit_offset_of([number, 2]), int)
assert_type(shape.offset_of((np.arange(3), 1)), Any)
assert_type(shape.index_at(number), tuple[int, ...] | None)
assert_type(shape.is_padding(3), bool)
assert_type(shape.is_padding(np.arange(3)), Any)

# Integers are Python's or NumPy's.
sd.Shape("f32", [number, 5], sd.Layout([number, 0], [(8, number)], memory_space=number))
array = sd.LayoutArray(bytes(64), "f32[3,5]", offset=number)
sd.open(Path("a.bin"), "f32[3,5]", offset=number)
sd.convert_file("a.bin", "f32[3,5]", Path("a.npy"), offset=number)
sd.inspect.explain(shape, (number, 1))
sd.inspect.explain_byte(shape, number, number)
sd.set_num_threads(number)
sd.Sharding.parse("{devices=[2]<=[2]}").slices([number], num_devices=number)

sd.Tile((8, number))
sd.open_dump("dump").program(number)
sd.read_snapshot("a.pb").arguments.shape(number)
sd.assemble({0: array}, "{replicated}", (3, 5)).shard(number)
sd.diff(array, array, limit=number, max_ulp=number)
sd.inspect.describe(shape, width=number)
sd.read_hlo("a.txt", index=number, max_bytes=number)

# Slices leave a view; an index may leave an element.
assert_type(array[...], sd.LayoutArray)
assert_type(array[1:, None, ::2], sd.LayoutArray)
assert_type(array[1], Any)
assert_type(array[()], Any)

instruction = sd.read_hlo("a.txt").instruction("add")
assert_type(instruction.computation, Computation)
assert_type(instruction.called_computations, tuple[Computation, ...])
assert_type(instruction.computation.module, Module)

assert_type(array.to_layout(shape), sd.LayoutArray)
assert_type(array.sum(axis=0), Any)
assert_type(sd.read_dump("a.pb", "snapshot"), Snapshot)
sd.TupleShape([shape, shape])
"""

#: What a type checker refuses, and its words.
MISUSE = {
    "strided.parse_layout('{1,0}').byte_size": '"Layout" has no attribute "byte_size"',
    "strided.TupleShape(['f32[3]'])": 'List item 0 has incompatible type "str"',
    "strided.open('a.bin', 'f32[3]').sum + 1": 'Unsupported operand types for + ("Callable[..., Any]" and "int")',
}


@pytest.mark.slow
def test_mypy_knows_the_types(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is in the extra lint")
    misuse = "\n".join(("import strided", *MISUSE, ""))
    for name, code in (("use", USE), ("misuse", misuse)):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    common = ["--config-file=", "--strict", f"--cache-dir={tmp_path / 'cache'}"]
    printed, _, status = api.run([*common, str(tmp_path / "use.py")])
    assert status == 0, printed
    printed, _, _ = api.run([*common, str(tmp_path / "misuse.py")])
    for line, words in enumerate(MISUSE.values(), 2):
        assert re.search(rf"misuse\.py:{line}: error: {re.escape(words)}", printed), printed
