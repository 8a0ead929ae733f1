"""How fast are shards put together, and how fast are the descriptions of memory read?"""

from __future__ import annotations

import numpy as np

import strided as sd
from benchmarks.cases import TOY, aligned
from benchmarks.yardstick import multiples, plain_copy

_SIZE = 64 if TOY else 8192


@multiples
class Assemble:
    """Eight shards of 32 MB, or 1024 of 256 KB, into one row-major array, beside a memcpy."""

    params = (
        ["{devices=[2,4]<=[8]}", "{devices=[8,1]<=[8]}", "{devices=[32,32]<=[1024]}"],
        ["{1,0:T(8,128)}", "{0,1:T(8,128)}"],
    )
    param_names = ("sharding", "layout")
    timeout = 300

    def setup(self, sharding: str, layout: str) -> None:
        values = np.arange(_SIZE * _SIZE, dtype=np.float32).reshape(_SIZE, _SIZE)
        self.shards = sd.shard(values, sharding, layout)
        self.whole = sd.assemble(self.shards, sharding, values.shape)
        self.out = aligned(values.nbytes).view(np.float32).reshape(values.shape)
        self.copy = plain_copy(values.nbytes)

    def run_assemble(self, sharding: str, layout: str) -> None:
        self.whole.to_numpy(out=self.out)

    def beside_assemble(self, sharding: str, layout: str) -> None:
        self.copy()

    def run_one_element(self, sharding: str, layout: str) -> None:
        self.whole[5, 5]

    def run_one_row(self, sharding: str, layout: str) -> None:
        self.whole[17]


@multiples
class Parse:
    """Shardings of 512 devices: as a count, as a list, and by name."""

    params = (["count", "list", "mesh"],)
    param_names = ("form",)

    def setup(self, form: str) -> None:
        self.text = {
            "count": "{devices=[16,32]<=[32,16]T(1,0)}",
            "list": f"{{devices=[16,32]{','.join(map(str, reversed(range(512))))}}}",
            "mesh": "{mesh['data'=16,'model'=32], [{'model'}, {'data'}]}",
        }[form]
        self.sharding = sd.Sharding.parse(self.text)

    def run_parse(self, form: str) -> None:
        sd.Sharding.parse(self.text)

    def run_all_slices(self, form: str) -> None:
        list(self.sharding.slices((4096, 4096)))


@multiples
class Allocations:
    """A buffer assignment of 5000 values (about 0.5 MB of text)."""

    def setup(self) -> None:
        count = 50 if TOY else 5000
        shape = "bf16[8,1,1280,128]{3,2,0,1:T(8,128)(2,1)}"
        lines = [f" value: <{k} fusion.{k} @0> (size=2621440,offset={k * 512}): {shape}" for k in range(count)]
        size = 2621440 + (count - 1) * 512
        self.text = "\n".join(["BufferAssignment:", f"allocation 0: size {size}, preallocated-temp:", *lines]).encode()
        self.assignment = sd.read_allocations(self.text)

    def run_read(self) -> None:
        sd.read_allocations(self.text)

    def run_kinds(self) -> None:
        self.assignment.kinds()
