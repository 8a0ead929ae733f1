"""Windows of mapped files: only their pages are read."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.planning.plan import Storage
from strided.transfer import readahead
from strided.transfer.readahead import Mapping, _pages, mapping_of, sparse_access
from strided.transfer.region import Region
from tests.regions import map_of, window

pytestmark = pytest.mark.skipif(not hasattr(mmap.mmap, "madvise"), reason="this system takes no advice")

TEXT = "f32[4096,4096]{1,0:T(8,128)}"
#: Columns of a window of few pages: where these are larger than a tile, only one tile of a row is.
COLUMNS = slice(1000, 1300) if mmap.PAGESIZE <= 4096 else slice(1030, 1140)
few = pytest.mark.skipif(mmap.PAGESIZE > 16384, reason="each page holds half a row of tiles or more")


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(4096 * 4096 * 4)
    return path


class Recorder:
    """In place of a mapping: says what it is advised."""

    def __init__(self, size: int) -> None:
        self.size, self.advice = size, []  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return self.size

    def madvise(self, *arguments: Any) -> None:
        self.advice.append(arguments)


@few
def test_pages_are_those_of_the_elements() -> None:
    view = window(map_of(TEXT), slice(100, 300), COLUMNS)
    for start in (0, 24, 5000):
        found = _pages(view, Storage(32), start)
        assert found is not None
        offsets = start + 4 * view.offsets().reshape(-1)
        wanted = np.unique(np.concatenate([offsets // mmap.PAGESIZE, (offsets + 3) // mmap.PAGESIZE]))
        pages = np.concatenate([np.arange(low, high) for low, high in found])
        np.testing.assert_array_equal(pages, wanted)
        assert (found[1:, 0] > found[:-1, 1] - 1).all()


@pytest.mark.parametrize(
    "view",
    [
        map_of(TEXT),  # all of it
        window(map_of(TEXT), slice(0, 8), slice(0, 8)),  # one place
        window(map_of(TEXT), slice(None), slice(None, None, 3)),  # every page
        map_of("f32[64,30,60,500]{3,2,1,0:T(*,8,128)}"),
        map_of("f32[0,4096]{1,0}"),
    ],
)
def test_other_views_are_read_as_they_are(view: Any) -> None:
    assert _pages(view, Storage(32), 0) is None


@few
def test_advice_is_given_for_the_time_of_the_copy_alone() -> None:
    view = window(map_of(TEXT), slice(100, 300), COLUMNS)
    file = Recorder(4096 * 4096 * 4)
    region = Region(np.zeros(0, np.uint8), view, 32)
    with sparse_access(Mapping(file, 0), region):  # type: ignore[arg-type]
        assert file.advice[0][0] == mmap.MADV_RANDOM
        assert {advice for advice, *_ in file.advice[1:]} == {mmap.MADV_WILLNEED}
    assert file.advice[-1] == (mmap.MADV_NORMAL, *file.advice[0][1:])
    asked = [range(start, start + count) for _, start, count in file.advice[1:-1]]
    for offset in (4 * view.offsets().reshape(-1)).tolist():
        assert any(offset in part for part in asked)


def test_advice_stays_inside_the_file() -> None:
    view = window(map_of(TEXT), slice(4000, 4096), slice(3700, 4096))
    file = Recorder(4096 * 4096 * 4 - 100)
    with sparse_access(Mapping(file, 0), Region(np.zeros(0, np.uint8), view, 32)):  # type: ignore[arg-type]
        pass
    assert all(start + count <= len(file) for _, start, count in file.advice)


def test_mappings_are_found_behind_views(sparse: Path) -> None:
    array = sd.open(sparse, TEXT)
    found = mapping_of(array.buffer)
    assert found is not None
    assert found.start == 0
    later = mapping_of(array.buffer[100:][20:])
    assert later is not None
    assert later.start == 120
    assert mapping_of(np.zeros(10, np.uint8)) is None
    assert mapping_of(np.zeros(10, np.uint8)[2:]) is None
    assert mapping_of(np.frombuffer(bytes(10), np.uint8)) is None
    memory = np.memmap(sparse, np.uint8, "r", offset=mmap.ALLOCATIONGRANULARITY)
    behind = mapping_of(np.asarray(memory))
    assert behind is not None
    assert behind.start == 0
    part = mapping_of(np.frombuffer(behind.file, np.uint8, offset=100))
    assert part is not None
    assert part.start == 100


@pytest.mark.slow
@few
def test_windows_read_what_they_should(sparse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((4096, 4096), np.float32)
    sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}").buffer.tofile(sparse)
    array = sd.open(sparse, TEXT)
    seen: list[Any] = []
    real = readahead._pages
    monkeypatch.setattr(readahead, "_pages", lambda *arguments: seen.append(real(*arguments)) or seen[-1])
    for rows, columns in ((slice(100, 300), COLUMNS), (slice(5, 2000, 7), slice(4000, 4010))):
        np.testing.assert_array_equal(array[rows, columns].to_numpy(), values[rows, columns])
    assert all(pages is not None for pages in seen)
    np.testing.assert_array_equal(array.to_numpy(), values)
    assert seen[-1] is None
