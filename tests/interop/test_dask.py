"""dask: chunks on tile edges, tokens, threads and processes, files larger than memory, storing."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
sddask = pytest.importorskip("strided.interop.dask")

from dask.base import tokenize  # noqa: E402

pytestmark = pytest.mark.partners

TILED = "f32[100,300]{1,0:T(8,128)}"
OTHER = "f32[100,300]{0,1:T(8,128)}"
VALUES = np.arange(30000, dtype=np.float32).reshape(100, 300) % 251


def array(text: str = TILED, values: np.ndarray = VALUES) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "array.bin"
    array().buffer.tofile(path)
    return path


def edges(chunks: tuple[int, ...]) -> list[int]:
    return list(itertools.accumulate(chunks))[:-1]


# --- chunks ---------------------------------------------------------------------------------------------------------


def sparse(path: Path, text: str) -> sd.LayoutArray:
    shape = sd.parse(text)
    path.touch()
    os.truncate(path, shape.byte_size)
    return sd.open(path, shape)


@pytest.mark.parametrize("chunks", [None, "auto"])
@pytest.mark.parametrize("order", ["0,1", "1,0"])
def test_chunks_begin_on_tiles(tmp_path: Path, order: str, chunks: str | None) -> None:
    a = sparse(tmp_path / "x", f"bf16[10000,6000]{{{order}:T(8,128)(2,1)}}")
    with dask.config.set({"array.chunk-size": "20MiB"}):
        d = sddask.from_array(a, chunks)
    assert d.npartitions > 4
    rows, columns = sd.parse(str(a.xla_shape)).layout.minor_to_major[::-1]
    tile = {rows: 8, columns: 128}
    for axis, chunks in enumerate(d.chunks):
        assert all(edge % tile[axis] == 0 for edge in edges(chunks))
    # Chunks lie together: whole along the axis of the fastest index.
    assert len(d.chunks[columns]) == 1


def test_chunks_of_a_view_begin_on_tiles_too() -> None:
    part = array()[5:, 100:]
    rows, columns = sddask.tile_chunks(part, 8 * 128 * 4)
    assert (sum(rows), sum(columns)) == part.shape
    assert all((edge + 5) % 8 == 0 for edge in edges(rows))
    assert all((edge + 100) % 128 == 0 for edge in edges(columns))
    assert len(rows) > 5
    assert len(columns) > 1


def test_chunks_asked_for() -> None:
    a = array()
    assert da.from_array(a, chunks=a.chunk_shape).chunks == sddask.from_array(a).chunks
    assert sddask.from_array(array(), chunks=(50, 100)).chunks == ((50, 50), (100, 100, 100))
    assert sddask.from_array(array(), chunks="auto").chunks == ((100,), (300,))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_small_and_empty_arrays(shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.int16)
    d = sddask.from_array(sd.LayoutArray.from_numpy(values))
    assert d.shape == shape
    assert d.sum().compute() == values.sum()
    assert np.array_equal(np.asarray(d.compute()), values)


def test_other_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="must be a LayoutArray, not ndarray"):
        sddask.from_array(VALUES)


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_memory_is_told_by_content() -> None:
    assert tokenize(array()) == tokenize(array())
    assert sddask.from_array(array()).name == sddask.from_array(array()).name
    changed = array()
    changed[99, 299] += 1
    arrays = [array(), array(OTHER), changed, array()[1:], array().T, array().view(np.int32)]
    assert len({tokenize(a) for a in arrays}) == len(arrays)


def test_files_are_told_by_path_and_place(path: Path, tmp_path: Path) -> None:
    assert tokenize(sd.open(path, TILED)) == tokenize(sd.open(path, TILED))
    assert sddask.from_array(sd.open(path, TILED)).name == sddask.from_array(sd.open(path, TILED)).name
    second = tmp_path / "second.bin"
    second.write_bytes(path.read_bytes())
    small = "f32[50,300]{1,0:T(8,128)}"
    arrays = [
        sd.open(path, TILED),
        sd.open(path, OTHER, allow_excess=True),
        sd.open(second, TILED),
        sd.open(path, small, allow_excess=True),
        sd.open(path, small, offset=4096),
        sd.open(path, TILED)[2:],
    ]
    assert len({tokenize(a) for a in arrays}) == len(arrays)


def test_a_file_written_anew_has_another_token(path: Path) -> None:
    before = tokenize(sd.open(path, TILED))
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, ns=(1, 1))
    assert tokenize(sd.open(path, TILED)) != before


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_assignments_change_the_token(path: Path, mode: str) -> None:
    """Though the time of the file may be what it was."""
    a = sd.open(path, TILED, mode=mode)
    before = tokenize(a)
    a[7, 7] = -1
    assert tokenize(a) != before


def test_tokens_are_the_same_in_other_processes(path: Path) -> None:
    code = (
        "import sys, numpy as np, strided as sd\nfrom dask.base import tokenize\n"
        "x = np.arange(30000, dtype=np.float32).reshape(100, 300) % 251\n"
        f"print(tokenize(sd.LayoutArray.from_numpy(x, {TILED!r})[2:, ::3]), tokenize(sd.open(sys.argv[1], {TILED!r})))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [tokenize(array()[2:, ::3]), tokenize(sd.open(path, TILED))]


# --- computing ------------------------------------------------------------------------------------------------------

COMPUTATIONS = {
    "values": lambda x: x + 0,
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(axis=1),
    "mean": lambda x: x.mean(dtype=np.float64),
    "std": lambda x: x.std(axis=0, dtype=np.float64),
    "extremes": lambda x: x.max(axis=0) - x.min(axis=0),
    "argmax": lambda x: x.argmax(axis=1),
    "any": lambda x: (x > 249).any(axis=0),
    "product": lambda x: x @ x.T,
    "transposed": lambda x: x.T[5:200:3, ::-1] * 2,
    "index arrays": lambda x: x[[3, 1, 99]][:, [0, 299, 7]] + 0,
}


@pytest.mark.parametrize("from_array", [da.from_array, sddask.from_array], ids=["dask's", "ours"])
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_threads_give_what_numpy_gives(name: str, from_array: Any) -> None:
    d = from_array(array(), chunks=(32, 128))
    got, expected = COMPUTATIONS[name](d).compute(scheduler="threads"), COMPUTATIONS[name](VALUES)
    assert isinstance(got, (np.ndarray, np.generic))
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_chunks_are_views_of_the_file(path: Path) -> None:
    d = sddask.from_array(sd.open(path, TILED), chunks=(64, 256))

    def is_mapped(block: Any) -> np.ndarray:
        return np.full((1, 1), isinstance(block, sd.LayoutArray) and block.file is not None)

    assert d.map_blocks(is_mapped, dtype=bool, chunks=(1, 1)).compute().all()
    assert np.array_equal(d.blocks[1, 1].compute(), VALUES[64:, 256:])


def test_chunks_have_mappings_of_their_own(path: Path) -> None:
    """So that the pages that were read of a chunk go with it."""
    a = sd.open(path, TILED)

    def mapping(block: Any) -> np.ndarray:
        return np.full((1, 1), block.buffer.__array_interface__["data"][0])

    # All in memory at once: no two at the same place.
    d = sddask.from_array(a, chunks=(64, 256)).persist(scheduler="sync")
    places = d.map_blocks(mapping, dtype=np.int64, chunks=(1, 1)).compute()
    assert len({*places.ravel().tolist(), a.buffer.__array_interface__["data"][0]}) == 5
    # Where the path leads to another file now, the mapping that there is goes on.
    d = sddask.from_array(a, chunks=(64, 256))
    path.unlink()
    path.write_bytes(bytes(a.buffer.nbytes))
    assert np.array_equal(d.compute(), VALUES)


@pytest.mark.parametrize("text", [TILED, "f32[100,300]{1,0}"])
def test_an_array_that_dask_copied_is_still_its_file(tmp_path: Path, text: str) -> None:
    array(text).buffer.tofile(tmp_path / "x")
    a = sd.open(tmp_path / "x", text)
    d = da.from_array(a, chunks=a.chunk_shape)
    for _ in range(2):
        assert len(pickle.dumps(d)) < 3000
        assert d.mean(dtype=np.float64).compute(scheduler="threads") == VALUES.mean(dtype=np.float64)
        assert da.from_array(a, chunks=a.chunk_shape).name == d.name
    assert (d + 1).sum().compute(scheduler="processes", num_workers=1) == (VALUES + 1).sum()


def test_small_elements_and_foreign_types() -> None:
    small = sd.LayoutArray.from_numpy(VALUES.astype(np.int8) % 8, "s4[100,300]{1,0:T(8,128)E(4)}")
    d = sddask.from_array(small, chunks=(40, 128))
    assert d.dtype == small.dtype
    assert int(d.astype(np.int64).sum().compute()) == int((VALUES.astype(np.int8) % 8).astype(np.int64).sum())
    brain = sddask.from_array(sd.LayoutArray.from_numpy(VALUES, "bf16[100,300]{1,0:T(8,128)(2,1)}"), chunks=(40, 128))
    assert float(brain.max().compute()) == 250


def test_processes_map_the_file_anew(path: Path) -> None:
    f, out = sd.open(path, TILED), path.with_name("out.bin")
    out.write_bytes(bytes(path.stat().st_size))
    d = sddask.from_array(f, chunks=(40, 128))
    assert len(pickle.dumps(d)) < f.buffer.nbytes / 8
    target = sd.open(out, TILED, mode="r+")
    with dask.config.set(scheduler="processes", num_workers=2):
        total, memory, _ = dask.compute(
            d.sum(dtype=np.float64),
            sddask.from_array(array(OTHER), chunks=(40, 128)).sum(axis=0),
            da.store(d * 2, target, compute=False),
        )
    assert total == VALUES.sum(dtype=np.float64)
    np.testing.assert_allclose(memory, VALUES.sum(axis=0))
    assert np.array_equal(sd.open(out, TILED), VALUES * 2)


@pytest.mark.filterwarnings("ignore")  # by a network of others
def test_workers_of_distributed_map_the_file_anew(path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    a = sd.open(path, TILED)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        for d in (sddask.from_array(a, chunks=(40, 128)), da.from_array(a, chunks=(40, 128))):
            assert d.sum(dtype=np.float64).compute() == VALUES.sum(dtype=np.float64)
            assert np.array_equal(d[5:, ::7].compute(), VALUES[5:, ::7])


# --- storing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", [True, False])
def test_store_into_an_array(lock: bool) -> None:
    target = sd.LayoutArray.from_numpy(np.zeros_like(VALUES), OTHER, padding=-1)
    padding = np.count_nonzero(target.buffer.view(np.float32) == -1)
    da.store(da.from_array(VALUES, chunks=(17, 33)), target, lock=lock)
    assert np.array_equal(target, VALUES)
    assert np.count_nonzero(target.buffer.view(np.float32) == -1) == padding


def test_store_into_a_file(path: Path) -> None:
    target = sd.open(path, TILED, mode="r+")
    da.store(sddask.from_array(array(OTHER), chunks=(40, 100)) + 1, target)
    del target
    assert np.array_equal(sd.open(path, TILED), VALUES + 1)


# --- larger than memory ---------------------------------------------------------------------------------------------

_LARGE = """
import os, sys, threading
import dask, numpy as np, strided as sd
from strided.interop.dask import from_array

def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

a = sd.open(sys.argv[1], sys.argv[2])
np.sum(a[:512])  # compiles
start, peak, done = anonymous(), 0, threading.Event()

def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
mean = from_array(a).mean(dtype=np.float64).compute(scheduler="threads")
done.set()
watcher.join()
print(mean * a.size, peak - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux how much memory is in use")
def test_mean_of_five_gigabytes(tmp_path: Path) -> None:
    """A sparse file, in memory that does not grow with it."""
    path, text = tmp_path / "large.bin", "f32[32768,38912]{1,0:T(8,128)}"
    assert sparse(path, text).buffer.nbytes > 5_000_000_000
    writable = sd.open(path, text, mode="r+")
    writable[0, 0], writable[20_000, 30_000], writable[-1, -1] = 1, 2, 4
    ran = subprocess.run([sys.executable, "-c", _LARGE, str(path), text], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    total, grown = ran.stdout.split()
    assert float(total) == pytest.approx(7)
    assert int(grown) < 300 << 20
