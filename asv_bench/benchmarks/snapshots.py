"""How fast are snapshots opened, their values read and decoded, and snapshots written?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

import strided as sd
from benchmarks.cases import TOY
from benchmarks.yardstick import multiples, plain_copy
from strided.dumps.protobuf import varints, wire
from strided.dumps.protobuf.shapes import read_shape, write_shape
from strided.dumps.protobuf.textproto import encode
from strided.dumps.snapshots.snapshot import read_snapshot
from strided.dumps.snapshots.writer import write_snapshot
from strided.runtime import limits

_ELEMENTS = 1 << 12 if TOY else 1 << 24

#: Values as they occur, and how long their varints are.
_INTEGERS = {
    "token ids (1 to 3 bytes)": (0, 50_000),
    "labels (1 byte)": (0, 100),
    "any (4 and 5 bytes)": (0, 2**31 - 1),
    "around zero (1 and 10 bytes)": (-5, 5),
}


class _File:
    path: Path

    def _write(self, arguments: list[np.ndarray]) -> None:
        handle, path = tempfile.mkstemp(suffix=".pb")
        os.close(handle)
        self.path = Path(path)
        write_snapshot(self.path, arguments)

    def teardown(self, *_: object) -> None:
        self.path.unlink()


@multiples
class Open(_File):
    """A snapshot of 1 GB of floats: nothing of it is read before it is looked at."""

    def setup(self) -> None:
        handle, path = tempfile.mkstemp(suffix=".pb")
        self.path = Path(path)
        size = 4 * _ELEMENTS if TOY else 1 << 30
        head = wire.bytes_field(1, write_shape(sd.parse(f"f32[{size // 4}]{{0}}"))) + wire.bytes_head(8, size)
        head = wire.bytes_head(2, len(head) + size) + head
        os.write(handle, head)
        os.ftruncate(handle, len(head) + size)
        os.close(handle)
        self.run_open_and_read_one_element()

    def run_open_and_read_one_element(self) -> None:
        read_snapshot(self.path).arguments[0][1]

    def peakmem_open_and_read_one_element(self) -> None:
        self.run_open_and_read_one_element()


@multiples
class Floats(_File):
    """64 MB of floats in the page cache: views of the file, read as fast as `np.fromfile` reads them."""

    def setup(self) -> None:
        self._write([np.ones(_ELEMENTS, np.float32)])
        self.run_read()

    def run_read(self) -> None:
        np.asarray(read_snapshot(self.path).arguments[0])

    def beside(self) -> None:
        np.fromfile(self.path, np.uint8)


@multiples
class Varints:
    """32-bit integers, which a LiteralProto holds as varints, decoded and encoded, beside a memcpy of the varints."""

    params = (list(_INTEGERS), ["kernel", "numpy"])
    param_names = ("values", "by")

    def setup(self, values: str, by: str) -> None:
        low, high = _INTEGERS[values]
        self.numbers = np.random.default_rng(0).integers(low, high, _ELEMENTS // 4, np.int32)
        self.limits = limits.current
        limits.use(self.limits._replace(varint_bytes=1 if by == "kernel" else 1 << 62))
        self.encoded = memoryview(varints.encode_varints(self.numbers))
        self.copy = plain_copy(len(self.encoded))

    def teardown(self, values: str, by: str) -> None:
        limits.use(self.limits)

    def run_decode(self, values: str, by: str) -> None:
        varints.decode_varints(self.encoded, np.int32, "a benchmark")

    def run_encode(self, values: str, by: str) -> None:
        varints.encode_varints(self.numbers)

    def beside(self, values: str, by: str) -> None:
        self.copy()


@multiples
class Text:
    """The text form: 200,000 numbers, one a line."""

    def setup(self) -> None:
        count = 1000 if TOY else 200_000
        lines = "".join(
            f"\n    f32s: {number}" for number in np.random.default_rng(0).standard_normal(count, np.float32)
        )
        self.text = f"shape {{ element_type: F32 dimensions: {count} }}{lines}"

    def run_encode(self) -> None:
        encode(self.text, "LiteralProto")


@multiples
class Shapes:
    """A thousand ShapeProtos that have not been seen before, and one that has."""

    def setup(self) -> None:
        shapes = [sd.Shape("bf16", (8, n), sd.Layout((1, 0), [(8, 128), (2, 1)])) for n in range(1000)]
        self.protos = [memoryview(write_shape(shape)) for shape in shapes]
        self.first = 0

    def run_new_shapes(self) -> None:
        # The dimensions that hold the place of others: a cache of what was read must not answer.
        self.first += 1000
        for n in range(self.first, self.first + 1000):
            read_shape(memoryview(wire.integer_field(2, 11) + wire.integers_field(3, (n,))))

    def run_known_shape(self) -> None:
        for _ in range(1000):
            read_shape(self.protos[0])


@multiples
class Write(_File):
    """64 MB of floats written as a snapshot."""

    def setup(self) -> None:
        self.values = sd.LayoutArray.from_numpy(np.ones(_ELEMENTS, np.float32))
        self._write([self.values])

    def run_write(self) -> None:
        write_snapshot(self.path, [self.values])

    def beside(self) -> None:
        self.values.buffer.tofile(self.path)
