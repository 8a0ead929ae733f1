"""What padding holds: every kind of contents in layouts of every kind, and scrubbing."""

from __future__ import annotations

import json
import os
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.cli.group import commands
from strided.diagnosis.padding import areas, scan
from strided.diagnosis.padding.scrub import scrub_file
from strided.inspect import Padding, padding
from strided.io.raw_format import RawFormat
from strided.layout import Layout, Shape
from tests import oracle
from tests.arrays.test_buffer_spec import ScaleFactors
from tests.cases import Case, some_values
from tests.checks import encoded, shape_of
from tests.strategies import cases
from tests.windows import as_on_windows

TILED = "bf16[17,300]{1,0:T(8,128)(2,1)}"
LAYOUTS = [
    TILED,
    "f32[33,130]{0,1:T(8,128)}",
    "f32[2,17,300]{2,1,0:T(8,128)}",
    "s32[20,2,90]{0,2,1:T(8,128)}",
    "f8e4m3fn[40,300]{1,0:T(8,128)(4,1)}",
    "f64[9,130]{1,0:T(8,128)}",
    "c128[9,30]{1,0:T(8,128)}",
    "bf16[3,5]{1,0:T(8,128)(2,1)}",
]


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 40).astype(dtype)


def padded(text: str, fill: float = 0) -> tuple[np.ndarray, tuple[slice, ...]]:
    """An array with its padding as an ndarray, and where in it the data lies."""
    shape = sd.parse(text)
    whole = np.full(sd.inspect.sizes(shape).padded_dimensions, fill).astype(shape.dtype)
    data = tuple(slice(n) for n in shape.dimensions)
    whole[data] = numbers(shape.dimensions, shape.dtype)
    return whole, data


def laid_out(whole: np.ndarray, text: str) -> sd.LayoutArray:
    """The array whose padding is that of `whole`."""
    return sd.LayoutArray(sd.LayoutArray.from_numpy(whole, text[text.index("{") :]).buffer, text)


def found(report: Padding, contents: str) -> int:
    """Bits of regions of this kind."""
    return sum(region.bits for region in report.regions if region.contents == contents)


@given(cases(), st.sampled_from(["zero", "one", "unknown"]), st.booleans())
def test_all_padding_is_in_a_region(case: Case, fill: str, high_first: bool) -> None:
    """The oracle knows how much there is; the data is never taken for padding, nor changed."""
    buffer = bytearray(encoded(case, some_values(case), high_first=high_first))
    array = sd.LayoutArray(buffer, shape_of(case), bitorder="big" if high_first else "little")
    if fill != "unknown":
        array.fill_padding(fill)
    before = bytes(buffer)
    report = padding(array)
    free = sum(index is None for index in oracle.slots(case.spec)) * case.bits
    assert report.bytes == free // 8
    assert sum(r.bits for r in report.regions if r.kind != "bits") == free
    assert {r.bits for r in report.regions if r.kind == "bits"} <= {-(len(oracle.slots(case.spec)) * case.bits) % 8}
    assert bytes(buffer) == before
    if fill == "zero":
        assert {region.contents for region in report.regions} <= {"zero"}
    if fill != "unknown":
        assert report.is_clean
        assert report.leaks == 0


FILLS = [(0, "zero"), (7, "constant"), (np.nan, "nan"), ("noise", "noise"), ("numbers", "finite")]


@pytest.mark.parametrize(
    ("text", "fill", "contents"),
    [(text, *fill) for text in LAYOUTS for fill in FILLS if fill[1] != "nan" or not text.startswith("s")],
)
def test_one_kind_of_contents(text: str, fill: float | str, contents: str) -> None:
    whole, data = padded(text, 0 if isinstance(fill, str) else fill)
    if isinstance(fill, str):
        raw = np.random.default_rng(1).integers(0, 256, whole.nbytes, np.uint8).view(whole.dtype).reshape(whole.shape)
        kept, whole = whole[data].copy(), raw if fill == "noise" else numbers(whole.shape, whole.dtype, 5)
        whole[data] = kept
    report = padding(laid_out(whole, text))
    assert found(report, contents) >= 0.99 * 8 * report.bytes
    assert report.is_clean == (contents in ("zero", "constant", "nan"))
    if contents == "finite":
        assert report.leaks >= 0.95 * report.bytes  # a number may be zero
    if contents == "constant":
        assert {np.asarray(region.value).astype(complex).item() for region in report.regions} == {7}


@pytest.mark.parametrize(
    ("text", "d"),
    [
        (text, d)
        for text in LAYOUTS
        for d, n in enumerate(sd.inspect.sizes(text).padded_dimensions)
        if n > sd.parse(text).dimensions[d]
    ],
)
def test_a_stale_row_or_column_is_named(text: str, d: int) -> None:
    shape = sd.parse(text)
    whole, data = padded(text)
    n = shape.dimensions[d]
    at, source = list(data), list(data)
    at[d], source[d] = slice(n, n + 1), slice(5, 6) if n > 5 else slice(1, 2)
    whole[tuple(at)] = whole[tuple(source)]
    report = padding(laid_out(whole, text))
    (stale,) = [region for region in report.regions if region.contents == "stale"]
    assert (stale.kind, stale.dimension, stale.start, stale.stop) == ("dimension", d, n, n + 1)
    assert stale.bits == whole[tuple(source)].size * shape.element_bits
    assert report.leaks == stale.bytes
    assert not report.is_clean
    for match in stale.matches:
        places = [tuple(slice(*ends) for ends in ranges) for ranges in (match.padding, match.data)]
        assert whole[places[0]].tobytes() == whole[places[1]].tobytes()
        assert places[1][d] == source[d]
    assert str(stale.matches[0]) in " ".join(str(report).split())


def test_rows_that_follow_on_from_each_other_are_one_match() -> None:
    whole, _ = padded(TILED)
    whole[18:21, :300] = whole[3:6, :300]
    (match,) = [match for region in padding(laid_out(whole, TILED)).regions for match in region.matches]
    assert str(match) == "[18:21, 0:300] equals [3:6, 0:300]"


def test_what_another_tile_held_is_stale() -> None:
    """The end of a tile may hold what lay there when the memory held another tile."""
    whole, _ = padded(TILED)
    whole[0:8, 300:384] = whole[8:16, 172:256]
    whole[17:24, 256:300] = whole[1:8, 0:44]
    report = padding(laid_out(whole, TILED))
    assert found(report, "stale") == 16 * (8 * 84 + 7 * 44)
    assert "[17:24, 256:300] equals [1:8, 0:44]" in " ".join(str(report).split())
    vector = np.arange(2048, dtype=np.float32)
    vector[2000:] = vector[976:1024]
    report = padding(laid_out(vector, "f32[2000]{0:T(1024)}"))
    assert str(report.regions[0].matches[0]) == "[2000:2048] equals [976:1024]"


def test_a_leak_is_counted_to_the_byte() -> None:
    whole, _ = padded(TILED)
    whole[20, 100:110] = 3.5 + np.arange(10)
    whole[3, 310] = 8
    report = padding(laid_out(whole, TILED))
    assert report.leaks == 22
    assert not report.is_clean
    assert report.map.flags.sum() == 11
    assert "perhaps" in report.verdict
    assert found(report, "stale") == 0


def test_numbers_among_nans_are_leaks() -> None:
    whole, _ = padded(TILED, np.nan)
    whole[20, 100:110] = 3
    report = padding(laid_out(whole, TILED))
    assert (report.leaks, report.is_clean) == (20, False)
    assert found(report, "nan") == 8 * report.bytes


def test_half_zero_half_constant() -> None:
    whole, _ = padded(TILED)
    whole[20:] = -2
    report = padding(laid_out(whole, TILED))
    assert [(r.contents, r.dimension, r.start, r.stop, r.value) for r in report.regions] == [
        ("zero", 0, 17, 20, None),
        ("constant", 0, 20, 24, -2),
        ("zero", 1, 300, 384, None),
    ]
    assert report.is_clean


def test_many_constants_are_numbers() -> None:
    whole, _ = padded(TILED)
    whole[:17, 300:] = np.arange(84)
    report = padding(laid_out(whole, TILED))
    assert not report.is_clean
    assert report.leaks >= 83 * 17 * 2


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("f32[5]{0:T(8,128)}", {"dimension", "tile"}),
        ("f32[3,5]{0,1:T(1)L(128)}", {"tail"}),
        ("f32[40,39]{1,0:T(10,10)(3,3)}", {"tile"}),
        ("s4[7]{0:E(4)}", {"bits"}),
        ("f32[3,5]", set()),
        ("f32[0,5]{1,0:T(2,2)}", set()),
    ],
)
def test_origins_of_padding(text: str, kinds: set[str]) -> None:
    for fill, contents in ((0, "zero"), (-1, "constant")):
        array = sd.LayoutArray(np.full(sd.parse(text).buffer_byte_size, fill, np.int8).view(np.uint8), text)
        report = padding(array)
        assert {region.kind for region in report.regions} == kinds
        assert {region.contents for region in report.regions} <= {contents, "nan"}
        assert report.is_clean
        assert str(report).count("\n") >= 2 - (not kinds)


def test_other_specs_have_padding_too() -> None:
    spec = ScaleFactors((131, 7), np.dtype(ml_dtypes.bfloat16))
    report = padding(sd.LayoutArray.from_numpy(np.ones((131, 7), ml_dtypes.bfloat16), spec, padding=2))
    assert report.bytes == 2 * (spec.slots - 131 * 7)
    assert [(region.kind, region.contents, region.value) for region in report.regions] == [("tile", "constant", 2)]
    assert report.map is None
    assert report.svg() == ""
    assert "one value: 2" in report._repr_html_()


def test_blocks_and_pieces_of_lines_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "f32[3,17,300]{2,1,0:T(8,128)}"
    whole, _ = padded(text)
    whole[1, 18, :300] = whole[2, 4, :300]
    whole[2, 3, 300:] = whole[0, 1, 172:256]
    array = laid_out(whole, text)
    expected = padding(array)
    monkeypatch.setattr(areas, "BLOCK_ELEMENTS", 512)
    monkeypatch.setattr(scan, "BLOCK_ELEMENTS", 512)
    monkeypatch.setattr(areas, "LINE_ELEMENTS", 128)
    again = padding(array)
    assert again.to_dict() == expected.to_dict()
    assert np.array_equal(again.map.flags, expected.map.flags)


def test_padding_written_to_a_private_copy_of_a_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_RELEASED_ELEMENTS", 1)
    whole, _ = padded(TILED)
    laid_out(whole, TILED).buffer.tofile(tmp_path / "x.bin")
    array = sd.open(tmp_path / "x.bin", TILED, mode="c")
    array.buffer.view(np.float32)[-1] = 7
    for _ in range(2):
        assert padding(array).leaks == 2


def test_memory_is_bounded() -> None:
    array = sd.LayoutArray(np.zeros(1 << 26, np.uint8), "f32[16384,8,100]{2,1,0:T(8,128)}")
    tracemalloc.start()
    report = padding(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.bytes == 16384 * 8 * 28 * 4
    assert peak < 1 << 25


def test_a_report_prints_itself() -> None:
    whole, _ = padded(TILED)
    whole[18, :300] = whole[3, :300]
    report = padding(laid_out(whole, TILED))
    assert report == padding(laid_out(whole, TILED))
    for width in (40, 80):
        assert max(map(len, report.text(width).splitlines())) <= width
    assert json.loads(json.dumps(report.to_dict()))["regions"][1]["matches"] == [
        {"padding": "18, 0:300", "data": "3, 0:300"}
    ]
    page = ET.fromstring(report._repr_html_())
    assert page.find(".//{http://www.w3.org/2000/svg}svg") is not None
    assert "looks like data" in report.svg()
    assert report.share == report.bytes / report.total_bytes
    with pytest.raises(AttributeError, match="bytes"):
        report.bytes = 0


def test_a_small_share_is_not_rounded_to_nothing() -> None:
    shape = "f32[2047,1024]{1,0:T(8,128)}"
    found = padding(sd.LayoutArray(np.zeros(2048 * 1024 * 4, np.uint8), shape))
    assert "4,096 of 8,388,608 bytes (under 0.1%)" in str(found)
    assert "(under 0.1%)" in found._repr_html_()


def test_a_view_is_refused() -> None:
    array = sd.LayoutArray(bytes(18432), TILED)
    for view in (array[1:], array.T, array.view(np.uint16)):
        with pytest.raises(ValueError, match="a view of"):
            padding(view)
    with pytest.raises(TypeError, match="LayoutArray"):
        padding(np.zeros(3))


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    whole, _ = padded(TILED)
    whole[18, :300] = whole[3, :300]
    path = tmp_path / "dirty.bin"
    path.write_bytes(b"head" * 4 + laid_out(whole, TILED).buffer.tobytes() + b"tail")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["padding", *map(str, arguments)])


def test_the_command_reports_and_scrubs(dirty: Path) -> None:
    clean, before = dirty.with_name("clean.bin"), dirty.read_bytes()
    result = run(dirty, TILED, "--offset", 16, "--json", "--scrub", clean)
    content, _ = json.JSONDecoder().raw_decode(result.stdout)  # old versions of click have both streams in it
    assert (content["leaks"], content["is_clean"]) == (600, False)
    assert dirty.read_bytes() == before
    assert len(clean.read_bytes()) == len(before)
    assert clean.read_bytes()[:16] + clean.read_bytes()[-4:] == before[:16] + before[-4:]
    arrays = [sd.open(path, TILED, offset=16) for path in (dirty, clean)]
    assert arrays[0].to_numpy().tobytes() == arrays[1].to_numpy().tobytes()
    assert "clean: zero" in run(clean, TILED, "--offset", 16).output
    assert sorted(os.listdir(dirty.parent)) == ["clean.bin", "dirty.bin"]


def test_the_copy_takes_its_name_on_windows(dirty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file that is mapped is renamed or removed there."""
    as_on_windows(monkeypatch)
    for overwrite in (False, True):
        scrub_file(dirty, dirty.with_name("clean.bin"), sd.parse_shape(TILED), RawFormat(16), overwrite=overwrite)
    assert sorted(os.listdir(dirty.parent)) == ["clean.bin", "dirty.bin"]


def test_the_command_never_writes_its_input(dirty: Path) -> None:
    before = dirty.read_bytes()
    link = dirty.with_name("link.bin")
    link.symlink_to(dirty)
    for target in (dirty, link):
        for force in ([], ["--force"]):  # which would not help
            result = run(dirty, TILED, "--offset", 16, "--scrub", target, *force)
            assert isinstance(result.exception, OSError)
            assert "same file" in str(result.exception)
    other = dirty.with_name("other.bin")
    other.write_bytes(b"mine")
    assert isinstance(run(dirty, TILED, "--offset", 16, "--scrub", other).exception, FileExistsError)
    assert other.read_bytes() == b"mine"
    assert dirty.read_bytes() == before
    assert run(dirty, TILED, "--offset", 16, "--scrub", other, "--force").exit_code == 0
    assert len(other.read_bytes()) == len(before)


def test_an_empty_file_has_too_few_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty.bin").touch()
    with pytest.raises(sd.BufferSizeError, match=r"empty\.bin: .* takes 18432 bytes, but the buffer has 0$"):
        scrub_file(tmp_path / "empty.bin", tmp_path / "clean.bin", sd.parse_shape(TILED))
    assert os.listdir(tmp_path) == ["empty.bin"]


def test_an_array_without_elements_is_scrubbed_too(tmp_path: Path) -> None:
    padded = Shape("u8", (0, 5), Layout((1, 0), padded_dimensions=(2, 5)))
    (tmp_path / "a.bin").write_bytes(b"leftovers!")
    scrub_file(tmp_path / "a.bin", tmp_path / "clean.bin", padded)
    assert (tmp_path / "clean.bin").read_bytes() == bytes(10)
    with pytest.raises(sd.BufferSizeError, match="takes 0 bytes"):
        scrub_file(tmp_path / "a.bin", tmp_path / "b.bin", sd.parse_shape("u8[0,5]"))
    (tmp_path / "none.bin").touch()
    assert scrub_file(tmp_path / "none.bin", tmp_path / "b.bin", sd.parse_shape("u8[0,5]")) == 0


def test_the_command_wants_a_shape(dirty: Path) -> None:
    assert "give the shape" in str(run(dirty, "--scrub", "x").exception)
    assert run().exit_code == 2


def test_reprs_say_whether_it_is_clean() -> None:
    a = sd.LayoutArray.from_numpy(np.ones((3, 3), np.float32), "{1,0:T(2,128)}")
    assert repr(padding(a)) == (
        "<Padding of f32[3,3]{1,0:T(2,128)}: 2,012 of 2,048 bytes (98.2%), clean: zero, and nothing else>"
    )


@pytest.mark.parametrize("text", ["f32[2,3]{1,0:T(*,2)}", "u64[7,4,3]{1,2,0:T(*,3)}", "c128[8,3]{1,0:T(*,8)}"])
def test_layouts_of_unusual_tiles_without_padding_have_none(text: str) -> None:
    found = padding(sd.LayoutArray(bytes(sd.parse(text).byte_size), text))
    assert (found.bytes, found.is_clean) == (0, True)


def test_buffers_of_other_specs_have_padding_as_these_say() -> None:
    spec = ScaleFactors((128, 8), np.dtype(np.uint8))
    found = padding(sd.LayoutArray(bytes(spec.buffer_byte_size), spec))
    assert (found.bytes, found.is_clean) == (0, True)
    with pytest.raises(sd.UnsupportedError, match="no XLA shape: a page shows"):
        sd.explore(sd.LayoutArray(bytes(spec.buffer_byte_size), spec))


def test_lines_of_small_whole_floats_are_stale_only_where_data_equals_them() -> None:
    # They differ in high bits alone, which a sum of products does not carry into the low ones.
    whole = np.zeros((256, 128), np.float32)
    whole[:, :16] = np.random.default_rng(0).integers(0, 4, (256, 16))
    array = sd.LayoutArray(sd.LayoutArray.from_numpy(whole, "{1,0:T(8,128)}").buffer, "f32[256,8]{1,0:T(8,128)}")
    pieces = whole[:, :16].reshape(32, 8, 16).transpose(2, 0, 1)
    data = {piece.tobytes() for piece in pieces[:8].reshape(-1, 8)}
    stale = [piece for piece in pieces[8:].reshape(-1, 8) if piece.tobytes() in data]
    found = [region.leaks for region in padding(array).regions if region.contents == "stale"]
    assert sum(found) == 32 * len(stale)


def test_bits_of_the_last_byte_are_padding_too() -> None:
    array = sd.LayoutArray(bytes(203), "s2[3,1,9,16]{0,3,1,2:T(3,5)E(2)}")  # 810 slots, and four bits
    found = padding(array)
    assert found.bytes == sum(region.bits for region in found.regions) // 8 == 95


def test_padding_in_front_of_a_tile_is_not_said_to_be_the_data_that_it_equals() -> None:
    array = sd.LayoutArray(bytearray(2048), "f16[40]{0:T(1024)(128)(2,1)}")
    values = np.arange(1, 41, dtype=np.float16)
    array[...] = values
    array.buffer.view(np.float16)[1:81:2] = values  # the other member of each word
    (region,) = (each for each in padding(array).regions if each.contents == "stale")
    assert (region.kind, region.leaks, region.matches) == ("tile", 80, ())
