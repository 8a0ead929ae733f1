"""All public entry points from many threads at once, which change places after every few instructions.

Every job gives the same answer each time. What it gives alone is what it must give beside the others.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
import strided.inspect
from strided.kernels import HOMES
from strided.runtime import limits
from tests.dumps.test_buffer_assignment import PROTOS, SMALL_TPU, TEXTS
from tests.hlo_samples import DATA as HLO
from tests.hlo_samples import proto_of, text_of
from tests.paths import unpack_dump

SNAPSHOT = HLO.parent / "snapshots" / "kinds" / "hlo_snapshot.pb"
MODULE = "control_flow_cond_switch_while"
SWITCH_INTERVAL = 1e-6

LAYOUTS = {
    "f32": ["{1,0}", "{0,1}", "{1,0:T(8,128)}", "{0,1:T(2,128)}"],
    "bf16": ["{1,0:T(8,128)(2,1)}", "{0,1:T(4,128)(2,1)}", "{1,0:T(16,128)}"],
    "s8": ["{1,0:T(8,128)(4,1)}", "{0,1}"],
    "s4": ["{1,0:T(8,128)(8,1)E(4)}", "{0,1:E(4)}"],
}

#: Public names that are no calls, or that every job goes through.
NOT_CALLED = {"COMBINE", "UNBOUNDED", "PaddingValue", "errors", "inspect", "testing", "tpu"} | {
    name for name in sd.__all__ if isinstance(getattr(sd, name), type) and issubclass(getattr(sd, name), Exception)
} | {name for name in sd.__all__ if name.endswith("Warning")}  # fmt: skip


def arrays() -> Iterator[tuple[str, sd.LayoutArray]]:
    """Small and large ones, of several widths."""
    rng = np.random.default_rng(7)
    for element_type, layouts in LAYOUTS.items():
        for shape in [(9, 200), (130, 300)]:
            values = rng.integers(-8, 8, shape).astype(sd.parse(f"{element_type}[]").dtype)
            for layout in layouts:
                yield (
                    f"{element_type}{list(shape)}{layout}",
                    sd.LayoutArray.from_numpy(values, layout, element_type=element_type),
                )


def of_arrays() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, a in arrays():
        other = LAYOUTS[a.xla_shape.element_type][0]
        yield f"to_numpy {name}", lambda a=a: a.to_numpy().tobytes()
        yield f"to_layout {name}", lambda a=a, other=other: a.to_layout(other).to_numpy().tobytes()
        yield (
            f"LayoutArray {name}",
            lambda a=a: sd.LayoutArray(a.buffer, str(a.xla_shape))[3:7, ::3].to_numpy().tobytes(),
        )
        yield (
            f"from_numpy {name}",
            lambda a=a: sd.LayoutArray.from_numpy(
                a.to_numpy(), a.layout, element_type=a.xla_shape.element_type
            ).buffer.tobytes(),
        )
        yield f"window {name}", lambda a=a: a[1::2, 5:-3].T.to_numpy().tobytes()
        yield f"indices {name}", lambda a=a: np.asarray(a[[5, 0, -1], [7, 3, 2]]).tobytes()
        yield f"elements {name}", lambda a=a: [float(a[i, i]) for i in range(9)]
        yield f"sum {name}", lambda a=a: np.asarray(a.sum(axis=0, dtype=np.float64)).tobytes()
        yield f"copied and written {name}", lambda a=a: written(a)
        yield f"repr {name}", lambda a=a: repr(a)
        yield f"padding {name}", lambda a=a: str(sd.inspect.padding(a))
        yield f"diff {name}", lambda a=a: str(sd.diff(a, a.to_layout("{0,1}")))
        yield f"identify {name}", lambda a=a: sd.inspect.identify(a.buffer, a.xla_shape).verdict


def written(a: sd.LayoutArray) -> bytes:
    mine = a.copy()
    mine[2:5, ::7] = 1
    mine[[0, -1]] = 2
    return np.asarray(mine, np.float32).tobytes()


def of_shapes() -> Iterator[tuple[str, Callable[[], Any]]]:
    for text in ["bf16[17,300]{1,0:T(8,128)(2,1)}", "s4[33,129]{0,1:T(8,128)(8,1)E(4)}", "f32[2,7,8]{2,1,0:T(*,4)}"]:
        shape = sd.parse(text)
        zero = (1,) * shape.rank
        yield f"parse {text}", lambda text=text: str(sd.parse(text))
        yield f"parse_shape {text}", lambda text=text: str(sd.parse_shape(text))
        yield f"parse_layout {text}", lambda text=str(shape.layout): str(sd.parse_layout(text))
        yield f"offset_of {text}", lambda s=shape, zero=zero: (s.offset_of(zero), s.index_at(5), s.byte_size)
        yield f"Shape {text}", lambda s=shape: str(sd.Shape(s.element_type, s.dimensions, s.layout))
        for name in ["captioned_picture", "describe", "facts", "picture", "sizes", "svg"]:
            look = getattr(strided.inspect, name)
            yield f"{name} {text}", lambda look=look, s=shape: str(look(s))
        yield f"explain {text}", lambda s=shape, zero=zero: str(sd.inspect.explain(s, zero))
        yield f"explain_byte {text}", lambda s=shape: str(sd.inspect.explain_byte(s, 6))
        yield f"byte_ranges {text}", lambda s=shape: sd.inspect.byte_ranges(s, (..., slice(1, 7, 2))).tolist()
        yield f"explore {text}", lambda s=shape: sd.explore(s).html
        yield f"plan_between {text}", lambda s=shape: sd.inspect.plan_between(s, s.with_layout(None)).kernel
    yield "Layout Tile", lambda: str(sd.Layout((1, 0), (sd.Tile((8, 128)),)))
    yield "SplitConfig", lambda: str(sd.Layout((1, 0), split_configs=(sd.SplitConfig(0, (1,)),)))
    yield "TupleShape BufferShape", lambda: str(sd.TupleShape([sd.parse("f32[3]"), sd.BufferShape(sd.parse("s8[2]"))]))
    yield "parse_index", lambda: str(sd.inspect.parse_index("1, ::2, ..."))
    yield "compiled_kernels", lambda: set(sd.inspect.compiled_kernels()) <= set(HOMES)


def of_dumps(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    text, proto = text_of(MODULE), proto_of(MODULE)
    image = SNAPSHOT.read_bytes()
    yield "read_hlo text", lambda: str(sd.read_hlo(text))
    yield "read_hlo proto", lambda: str(sd.read_hlo(proto))
    yield "memory_report", lambda: str(sd.memory_report(text))
    yield "layout_copies", lambda: str(sd.layout_copies(sd.read_hlo(text)))
    yield "explore module", lambda: sd.explore(sd.read_hlo(text)).html
    yield "largest", lambda: str(sd.inspect.largest(sd.read_hlo(text).entry.instructions))
    yield "read_snapshot", lambda: [np.asarray(a).tobytes() for a in sd.read_snapshot(image).arguments]
    yield "read_dump", lambda: str(sd.read_dump(SNAPSHOT))
    yield "read_allocations text", lambda: str(sd.read_allocations(TEXTS[SMALL_TPU].encode()))
    yield "read_allocations proto", lambda: str(sd.read_allocations(next(iter(PROTOS.values()))))
    dump = sd.open_dump(folder)
    yield "open_dump", lambda: str(sd.open_dump(folder))
    yield "one dump", lambda: sorted(str(program) for program in dump.programs)
    sharding = "{devices=[2,2]<=[4]}"
    values = np.arange(60, dtype=np.int32).reshape(6, 10)
    parts = sd.shard(values, sharding, "{1,0:T(2,4)}")
    yield "Sharding", lambda: list(sd.Sharding.parse(sharding).slices((6, 10)))
    yield "shard", lambda: [a.buffer.tobytes() for a in sd.shard(values, sharding, "{1,0:T(2,4)}").values()]
    yield "assemble", lambda: sd.assemble(parts, sharding, (6, 10)).to_numpy().tobytes()
    yield "write_snapshot", lambda: snapshot_of(values)


def snapshot_of(values: np.ndarray) -> bytes:
    file = BytesIO()
    sd.write_snapshot(file, [values], values)
    return file.getvalue()


def of_files(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    text = "bf16[130,300]{1,0:T(8,128)(2,1)}"
    a = next(a for _, a in arrays() if str(a.xla_shape) == text)
    raw = folder / "raw.bin"
    raw.write_bytes(a.buffer.tobytes())
    mapped = sd.open(raw, text)
    yield "open", lambda: sd.open(raw, text)[7].to_numpy().tobytes()
    yield "one file", lambda: mapped[::2].to_numpy().tobytes()
    yield "statistics", lambda: str(sd.inspect.statistics(mapped))

    def own(name: str) -> Path:
        return folder / f"{name}.{threading.get_ident()}.npy"

    def saved() -> bytes:
        sd.save_npy(own("saved"), mapped)
        found: bytes = sd.load_npy(own("saved")).tobytes()
        own("saved").unlink()
        return found

    def converted() -> bytes:
        sd.convert_file(raw, text, own("converted"))
        found = own("converted").read_bytes()
        own("converted").unlink()
        return found

    def safe() -> bytes:
        path = own("saved").with_suffix(".safetensors")
        sd.save_safetensors(path, {"a": mapped})
        found: bytes = sd.open(path).to_numpy().tobytes()
        path.unlink()
        return found

    yield "save_npy load_npy", saved
    yield "save_safetensors", safe
    yield "convert_file", converted

    def threads() -> bool:
        sd.set_num_threads(random.choice([1, 2, 3]))
        return sd.get_num_threads() in (1, 2, 3)

    yield "set_num_threads get_num_threads", threads


@pytest.fixture
def jobs(tmp_path: Path) -> dict[str, Callable[[], Any]]:
    folder = unpack_dump(tmp_path / "dump")
    return dict([*of_arrays(), *of_shapes(), *of_dumps(folder), *of_files(tmp_path)])


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    sd.set_num_threads(None)


def test_every_public_name_has_a_job(jobs: dict[str, Callable[[], Any]]) -> None:
    named = {word for job in jobs for word in job.split()}
    results = {"Candidate", "Explanation", "Identification", "Match", "Padding", "PaddingRegion"}
    results |= {"Part", "Sizes", "Statistics", "Value"}
    assert set(sd.__all__) - NOT_CALLED - named == set()
    assert set(sd.inspect.__all__) - results - named == set()


@pytest.mark.slow
def test_jobs_beside_each_other_give_what_they_give_alone(
    jobs: dict[str, Callable[[], Any]],
    fuzz_seconds: float,
    fuzz_seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    with limits.replaced(small_elements=256, tiny_elements=0):
        _run_beside_each_other(jobs, fuzz_seconds, fuzz_seed, record_property)


def _run_beside_each_other(
    jobs: dict[str, Callable[[], Any]],
    fuzz_seconds: float,
    fuzz_seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    alone = {name: job() for name, job in jobs.items()}
    assert alone == {name: job() for name, job in jobs.items()}  # a job that differs by itself says nothing
    names, wrong, ran = list(jobs), [], Counter[str]()
    end = time.monotonic() + fuzz_seconds

    def work(number: int) -> None:
        rng = random.Random(f"{fuzz_seed} {number}")
        while time.monotonic() < end and not wrong:
            name = rng.choice(names)
            try:
                if jobs[name]() != alone[name]:
                    wrong.append(f"{name}: another answer than alone")
            except Exception as error:  # whatever it is, it did not come alone
                wrong.append(f"{name}: {type(error).__name__}: {error}")
            ran[f"{number} {name}"] += 1

    sys.setswitchinterval(SWITCH_INTERVAL)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    record_property("jobs", ran.total())
    print(f"{ran.total()} jobs of {len(jobs)} kinds in {len(workers)} threads")
    assert ran.total() >= len(workers)
