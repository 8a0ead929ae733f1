"""What a type checker says of code that uses the package."""

from __future__ import annotations

from pathlib import Path

import pytest

USE = """
from typing import assert_type

import strided as sd

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
"""


@pytest.mark.slow
def test_mypy_knows_the_types(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is in the extra lint")
    for name, code in (("use", USE), ("misuse", "import strided\nstrided.parse_layout('{1,0}').byte_size\n")):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    common = ["--config-file=", "--strict", f"--cache-dir={tmp_path / 'cache'}"]
    printed, _, status = api.run([*common, str(tmp_path / "use.py")])
    assert status == 0, printed
    printed, _, _ = api.run([*common, str(tmp_path / "misuse.py")])
    assert '"Layout" has no attribute "byte_size"' in printed
