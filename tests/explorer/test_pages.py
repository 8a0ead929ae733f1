"""Pages in a real browser: hover, keys, search; no console message, no request, no markup from names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.explorer import explore
from strided.inspect import plan_between
from tests.explorer.conftest import text_of, wait_until, wait_until_drawn

pytestmark = pytest.mark.partners

SHAPE = "bf16[17,300]{1,0:T(8,128)(2,1)}"


def test_an_index_a_slice_a_byte(show: Any) -> None:
    shown = show(explore(SHAPE))
    assert text_of(shown, "h1") == SHAPE
    shown.fill("#search", "9, 200")
    detail = text_of(shown, ".detail")
    for words in ("element [9, 200]", "d1 // 128 1 of 3 × 1,024 = 1,024", "= 4,241", "bytes 8,482 to 8,483"):
        assert words in detail
    shown.fill("#search", "9, 200:204")
    assert "4 runs of bytes, 8 bytes between byte 8,482 and 8,495" in text_of(shown, ".detail")
    shown.fill("#search", "byte 8482")
    assert "element [9, 200]" in text_of(shown, ".detail")
    shown.fill("#search", "byte 18431")
    assert "padding of dimension 0, which ends at 17" in text_of(shown, ".detail")
    for wrong, words in (
        ("17, 0", "17 is outside"),
        ("1,2,3", "3 indices"),
        ("x", "no index"),
        ("byte 99999", "behind"),
    ):
        shown.fill("#search", wrong)
        assert words in text_of(shown, ".message")
        assert text_of(shown, ".detail") == ""  # nothing of what was typed before


def test_runs_of_bytes_are_worded_well(show: Any) -> None:
    shown = show(explore("u8[40,50000]{1,0}"))
    for key, words in (
        ("1, 7:10", "3 elements 1 run of 3 bytes: bytes 50,007 to 50,009"),
        ("0:2, 7:8", "2 elements 2 runs of bytes, 2 bytes between byte 7 and 50,007 (under 0.01% of them) 7 50,007"),
    ):
        shown.fill("#search", key)
        assert text_of(shown, ".detail") == words
    shown.fill("#search", ":, 7:9")
    assert len(shown.locator(".detail li").all()) == 24
    assert text_of(shown, ".detail").endswith("1,150,007 to 1,150,008 and 16 more")
    assert text_of(shown, ".detail li:last-child") == "1,150,007 to 1,150,008"
    packed = show(explore("s4[2,8]{1,0:E(4)}"))
    packed.fill("#search", "1, 2:4")
    assert text_of(packed, ".detail") == "2 elements 1 run of 1 byte: byte 5"


def test_pointing_at_either_side_lights_the_other(show: Any) -> None:
    shown = show(explore(SHAPE))
    show.expected = "willReadFrequently"
    array, memory = shown.locator("canvas").all()

    def blue(canvas: Any) -> int:
        """Pixels in the colour of marks."""
        count: int = canvas.evaluate(
            """canvas => {
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                let count = 0;
                for (let k = 0; k < data.length; k += 4)
                    if (data[k] < 150 && data[k + 2] > 190 && data[k + 1] < 160) count++;
                return count;
            }"""
        )
        return count

    before = blue(array), blue(memory)
    array.hover(position={"x": 100, "y": 60})
    wait_until_drawn(shown)
    assert blue(array) > before[0] + 200
    assert blue(memory) > before[1] + 200
    assert "element [" in text_of(shown, ".detail")
    array.click(position={"x": 60, "y": 40})
    assert text_of(shown, ".detail h2") == "element [0, 0]"
    memory.click(position={"x": 150, "y": 30})
    assert text_of(shown, ".detail h2") in ("element [1, 0]", "element [0, 1]")


@pytest.mark.parametrize("key", ["9, 200:204", "byte 14338", "9, 200"])
def test_pointing_leaves_what_was_asked_for(show: Any, key: str) -> None:
    shown = show(explore(SHAPE))
    shown.fill("#search", key)
    said = text_of(shown, ".detail")
    shown.locator("canvas").first.hover(position={"x": 100, "y": 60})
    wait_until_drawn(shown)
    assert text_of(shown, ".detail") == said


def test_keys_alone(show: Any) -> None:
    shown = show(explore(SHAPE))
    shown.fill("#search", "9, 200")
    shown.locator("canvas").first.focus()
    for key, index in (
        ("ArrowRight", "9, 201"),
        ("ArrowDown", "10, 201"),
        ("Home", "10, 0"),
        ("ArrowUp", "9, 0"),
        ("Control+Home", "0, 0"),
        ("ArrowUp", "0, 0"),
        ("End", "0, 299"),  # not the padding behind it
        ("Control+End", "16, 299"),
    ):
        shown.keyboard.press(key)
        assert text_of(shown, ".detail h2") == f"element [{index}]"
    shown.locator("#search").focus()
    shown.keyboard.press("Escape")
    assert text_of(shown, ".detail") == ""
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.tagName") == "CANVAS"


def test_values_are_those_of_the_array(show: Any) -> None:
    values = np.random.default_rng(0).normal(size=(17, 300)).astype(np.float32)
    values[2, 3], values[2, 4], values[2, 5] = np.nan, -np.inf, 0
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{0,1:T(8,128)}")))
    for index in ((0, 0), (16, 299), (9, 200), (2, 3), (2, 4), (2, 5)):
        shown.fill("#search", f"{index[0]}, {index[1]}")
        title = text_of(shown, ".detail h2")
        found = np.float32(title.partition(" = ")[2])
        assert np.array_equal(found, values[index], equal_nan=True), title


@pytest.mark.parametrize(
    ("dtype", "texts"),
    [
        (np.int64, ["-9223372036854775808", "9223372036854775807"]),
        (np.uint64, ["0", "18446744073709551615"]),
        (np.bool_, ["False", "True"]),
        (np.complex64, ["(1-2j)", "0j"]),
    ],
)
def test_values_of_wide_and_other_types(show: Any, dtype: Any, texts: list[str]) -> None:
    values = {
        np.int64: np.array([-(2**63), 2**63 - 1]),
        np.uint64: np.array([0, 2**64 - 1], np.uint64),
        np.bool_: np.array([False, True]),
        np.complex64: np.array([1 - 2j, 0], np.complex64),
    }[dtype]
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{0:T(128)}")))
    for k, text in enumerate(texts):
        shown.fill("#search", str(k))
        assert text_of(shown, ".detail h2") == f"element [{k}] = {text}"


def test_a_map_of_the_values(show: Any) -> None:
    values = np.add.outer(np.arange(600.0), np.zeros(900)).astype(np.float32)
    values[100:110] = np.nan
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}")))
    assert "as a map" in text_of(shown, ".facts")
    assert text_of(shown, ".scale") == "3.5 to 595.5"
    drawn = shown.locator("canvas").last
    drawn.scroll_into_view_if_needed()
    drawn.focus()
    shown.keyboard.press("Control+Home")
    assert shown.locator(".message").last.inner_text() == "[0:8, 0:4]: mean 3.5, least 0, largest 7"
    for _ in range(13):
        shown.keyboard.press("ArrowDown")
    assert "24 NaN or Inf" in shown.locator(".message").last.inner_text()
    shown.select_option("#plane", "not finite")
    assert text_of(shown, ".scale") == "0 to 24"


def test_the_map_zooms(show: Any) -> None:
    values = np.add.outer(np.arange(600.0), np.zeros(900)).astype(np.float32)
    values[300, 100] = np.nan
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}")))
    assert text_of(shown, ".window") == "rows 0 to 599, columns 0 to 899"
    drawn = shown.locator("canvas").last
    drawn.scroll_into_view_if_needed()
    drawn.focus()

    def window() -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text_of(shown, ".window"))]

    for zooms, closer in enumerate(("+", "button", "+", "button"), 1):
        drawn.press("+") if closer == "+" else shown.get_by_label("zoom in").click()
        top, bottom, left, right = window()
        assert 0 <= top <= 300 <= bottom <= 599
        assert 0 <= left <= 450 <= right <= 899
        assert bottom - top < 1.1 * 600 / 2**zooms
        assert right - left < 1.1 * 900 / 2**zooms
    assert shown.get_by_label("zoom in").is_disabled()
    drawn.focus()
    for _ in range(8):
        shown.keyboard.press("ArrowLeft")
    message = shown.locator(".message").last.inner_text()
    assert re.match(r"\[\d+:\d+, \d+\]: mean about \d+.* \(in \[\d+:\d+, \d+:\d+\]: mean .*, largest \d+\)", message)
    shown.select_option("#plane", "not finite")
    assert "finer cells have the mean alone" in text_of(shown, ".window")
    drawn.focus()
    shown.keyboard.press("0")
    assert window() == [0, 599, 0, 899]
    assert shown.get_by_label("zoom out").is_disabled()
    shown.keyboard.press("-")
    drawn.dblclick(position={"x": 400, "y": 200})
    assert window()[3] - window()[2] < 500
    drawn.hover(position={"x": 300, "y": 100})
    shown.keyboard.down("Control")
    shown.mouse.wheel(0, 100)
    shown.keyboard.up("Control")
    wait_until(shown, "document.querySelector('.window').textContent === 'rows 0 to 599, columns 0 to 899'")


@pytest.mark.parametrize("width", [400, 2560])
def test_the_map_shows_all_at_first(show: Any, width: int) -> None:
    values = np.random.default_rng(0).normal(size=(3, 200, 900)).astype(np.float32)
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{2,1,0}")), width)
    assert re.fullmatch(r"rows \[0,0:\d+\] to \[2,\d+:200\], columns 0 to 899", text_of(shown, ".window"))
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_coarse_cell_is_named_if_there_is_one(show: Any) -> None:
    shown = show(explore(sd.LayoutArray.from_numpy(np.ones((300, 300), np.float32), "{1,0}")))
    drawn = shown.locator("canvas").last
    for key in ("+", "Control+Home"):
        drawn.press(key)
    words = shown.locator(".message").last
    assert words.inner_text().startswith(
        "[0:2, 0]: mean about 1, least about 1, largest about 1 (in [0:3, 0:2]: mean 1"
    )
    drawn.press("ArrowDown")
    assert words.inner_text() == "[2:4, 0]: mean about 1, least about 1, largest about 1"


def test_a_map_of_single_elements_does_not_zoom(show: Any) -> None:
    shown = show(explore(sd.LayoutArray.from_numpy(np.eye(20, 30, dtype=np.int8), "{1,0}")))
    assert shown.locator(".ramp").count() == 1
    assert shown.get_by_label("zoom in").count() == 0


def test_a_print_is_light_in_both_themes(show: Any) -> None:
    page = explore("bf16[17,300]{1,0:T(8,128)(2,1)}")
    drawings = []
    for scheme in ("dark", "light"):
        shown = show(page, scheme=scheme)
        shown.emulate_media(media="print")
        wait_until_drawn(shown)
        drawn = shown.locator("canvas").first
        drawings.append(drawn.evaluate("canvas => canvas.toDataURL()"))
        assert drawn.evaluate("canvas => canvas.height === Math.round(canvas.getBoundingClientRect().height)")
        shown.emulate_media(media="screen")
        wait_until_drawn(shown)
        drawings.append(drawn.evaluate("canvas => canvas.toDataURL()"))
    assert drawings[0] == drawings[2]
    assert drawings[1] != drawings[3]


def test_more_dimensions_and_another_layout(show: Any) -> None:
    shape, other = "s4[3,20,200]{2,1,0:T(8,128)(8,1)E(4)}", "{1,2,0}"
    shown = show(explore(shape, to=other))
    shown.fill("#search", "2, 9, 190")
    assert shown.input_value("#at0") == "2"
    detail = text_of(shown, ".detail")
    for words in ("= 15,857", "byte 7,928, bits 4 to 7", "= 11,809", "7 6 5 4 3 2 1 0"):
        assert words in detail
    shown.select_option("#rows", "0")
    shown.fill("#at1", "7")
    shown.locator("canvas").first.click(position={"x": 60, "y": 60})
    assert re.match(r"element \[\d, 7, \d+\]", text_of(shown, ".detail h2"))
    shown.select_option("#columns", "0")
    assert shown.input_value("#rows") != "0"
    assert text_of(shown, "pre.plan") == re.sub(r"\s+", " ", str(plan_between(shape, f"s4[3,20,200]{other}")))
    shown.evaluate(
        """() => { const message = document.querySelector(".message");
                   const listen = () => window.said.push(message.textContent);
                   window.said = [];
                   new MutationObserver(listen).observe(message, { childList: true }); }"""
    )
    shown.click("text=play one block")
    assert shown.locator("button:disabled").count() == 1
    wait_until(shown, "window.said.length >= 3")
    assert shown.evaluate("window.said[2]").startswith("slot 2 of the target takes element [0, 2, 0]")


def test_no_animation_for_those_who_want_none(show: Any) -> None:
    shown = show(explore("f32[20,40]{1,0:T(8,128)}", to="{0,1}"), reduced_motion="reduce")
    shown.click("text=play one block")
    assert text_of(shown, ".message") == "the marked 64 slots of the source become the first 64 of the target"
    assert shown.evaluate("window.strided.layout.selected.size") == 64
    assert shown.locator("button:disabled").count() == 0


@pytest.mark.parametrize("width", [400, 1400])
def test_rows_of_memory_fit(show: Any, width: int) -> None:
    shown = show(explore(SHAPE), width)
    shown.fill("#search", "9, 200")
    assert shown.get_by_label("scroll columns").nth(1).is_hidden()
    assert "element [9, 200]" in text_of(shown, ".detail")


@pytest.mark.parametrize(
    "shape",
    [
        "f32[]",
        "f32[0,3]",
        "f32[7]{0:T(8)}",
        "bf16[24,256]{1,0:T(8,128)(2,1,1,1)}",
        "f32[3,5]{1,0:T(*,4)}",
        "u1[2,1,3,1,2,1,2,9]{7,6,5,4,3,2,1,0:E(1)}",
        "f32[<=5,7]{1,0:T(8,128)S(5)M(64)}",
        "f32[1048576,1048576]{1,0:T(8,128)}",
    ],
)
def test_unusual_shapes(show: Any, shape: str) -> None:
    shown = show(explore(shape))
    shown.fill("#search", "byte 0")
    assert text_of(shown, "h1") == str(sd.parse(shape))
    shown.fill("#search", ", ".join(["0"] * 9))
    assert f"9 indices for an array of {sd.parse_shape(shape).rank} dimension" in text_of(shown, ".message")


def test_a_large_array_moves_at_once(show: Any) -> None:
    shown = show(explore("f32[100000,100000]{1,0:T(8,128)}"))
    shown.fill("#search", "99999, 99999")
    assert "= 10,009,599,903" in text_of(shown, ".detail")
    took = shown.evaluate(
        """() => { const view = window.strided.layout; const start = performance.now();
                   for (let k = 0; k < 20; k++) { view.array.scrollTo(k * 1000, k * 900); view.array.paint(); }
                   return performance.now() - start; }"""
    )
    assert took < 20_000  # it draws what is in view, not ten billion cells


@pytest.mark.parametrize("width", [400, 800, 1400, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_and_theme(show: Any, width: int, scheme: str) -> None:
    shown = show(explore(SHAPE, to="{0,1:T(8,128)(2,1)}"), width, scheme)
    shown.fill("#search", "9, 130:140")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ink, paper = shown.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (light[0] > light[1]) == (scheme == "dark")


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ("f32[3,5]{0,1}", "on the other side."),
        ("f32[3,5]{1,0:T(2,2)}", "on the other side. Colours tell tiles apart. Hatching is padding."),
        (SHAPE, "tiles apart. Thin lines enclose words that rows share. Hatching is padding."),
        ("f32[]", "on the other side."),
    ],
)
def test_a_page_says_what_is_drawn_and_what_to_type(show: Any, shape: str, key: str) -> None:
    shown = show(explore(shape), 400)
    assert text_of(shown, ".key").endswith(key)
    for example in shown.get_attribute("#search", "placeholder").split(" or "):
        shown.fill("#search", example)
        assert text_of(shown, "[role=status]") == ""
        assert shown.locator(".detail h2").count() == 1


@pytest.mark.parametrize("width", [320, 400, 600, 1400])
def test_what_to_type_is_whole(show: Any, width: int) -> None:
    for shape in (SHAPE, "bf16[17,300]{1,0:T(8,128)(2,1)}", "f32[64,128,300]{2,1,0}"):
        shown = show(explore(shape), width)
        room, wanted = shown.evaluate(
            """() => {
                const box = document.querySelector("#search"), style = getComputedStyle(box);
                const pen = document.createElement("canvas").getContext("2d");
                pen.font = style.font;
                const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
                return [box.clientWidth - padding, pen.measureText(box.placeholder).width];
            }"""
        )
        assert wanted <= room
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_small_array_takes_little_of_the_page(show: Any) -> None:
    shown = show(explore("f32[3,5]{0,1}"))
    assert shown.locator(".grid").first.bounding_box()["height"] < 120
    assert show(explore(SHAPE)).locator(".grid").first.bounding_box()["height"] > 400


def test_every_control_has_a_name(show: Any) -> None:
    shown = show(explore("f32[3,4,5]"))
    unnamed = shown.evaluate(
        """() => [...document.querySelectorAll("input, select, button, canvas")].filter(one =>
            !(one.ariaLabel || one.labels?.length || one.textContent.trim())).map(one => one.outerHTML)"""
    )
    assert unnamed == []


def test_names_are_text_and_nothing_may_be_loaded(show: Any) -> None:
    page = explore(SHAPE)
    assert "default-src 'none'" in page.html
    assert "unsafe" not in page.html
    assert page.html.count("<script") == 2
    assert not re.search(r"(?:src|href)=", page.html)
    shown = show(page)
    show.expected = "Content Security Policy"
    refused = shown.evaluate(
        """() => { const one = document.createElement("script"); one.textContent = "window.bad = 1";
                   document.body.append(one); return window.bad; }"""
    )
    assert refused is None


def test_a_selection_that_is_not_whole_is_called_so(show: Any) -> None:
    shown = show(explore("u8[100000,10000]{1,0}"))
    shown.fill("#search", ":, :")
    said = text_of(shown, ".detail")
    assert said == "the first 1,048,576 of 1,000,000,000 elements 1 run of 1,048,576 bytes: bytes 0 to 1,048,575"


@pytest.mark.parametrize(
    ("values", "letters"),
    [
        (np.array([[1.5 - 2.25j, 1000.5 + 3.125j]], np.complex64), 13),
        (np.array([[-(2**63), 2**63 - 1]], np.int64), 20),
        (np.array([[-8, 7]], np.int8), 2),
    ],
)
def test_cells_have_room_for_values(show: Any, values: np.ndarray, letters: int) -> None:
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{1,0}")))
    array, memory = shown.evaluate("[strided.layout.array.model.width, strided.layout.memories[0].model.width]")
    assert array >= 6.6 * letters
    assert memory >= 6.6 * letters
    if letters == 2:
        assert array == 30


def test_an_empty_array_has_no_padding(show: Any) -> None:
    shown = show(explore("f32[4,0,3]{2,1,0:T(8,128)}"))
    assert shown.evaluate("strided.layout.array.model.cell(0, 5)") is None
    assert text_of(shown, ".key") == "The array has no elements."
    assert "padding" not in text_of(shown, ".facts").replace("no padding", "")


def test_examples_fit_their_field(show: Any) -> None:
    for text in (SHAPE, "f32[2,3,2,3,2,3,4,5]", "f32[100000,10000]"):
        shown = show(explore(text))
        example = shown.get_attribute("#search", "placeholder")
        assert len(example) <= 33
        shown.fill("#search", example.split(" or ")[0])
        assert "wrong" not in shown.get_attribute(".message", "class")
        assert "element" in text_of(shown, ".detail h2")


def test_a_grid_at_its_end_lets_the_page_move(show: Any) -> None:
    shown = show(explore(SHAPE))
    shown.set_viewport_size({"width": 1280, "height": 400})
    shown.locator("canvas").first.hover(position={"x": 100, "y": 60})
    shown.mouse.wheel(0, 100)
    wait_until(shown, "strided.layout.array.top > 0")
    assert shown.evaluate("scrollY") == 0
    shown.evaluate("strided.layout.array.scrollTo(1000, 0)")
    shown.mouse.wheel(0, 100)
    wait_until(shown, "scrollY > 0")


def test_touch_moves_the_page_where_the_grid_has_no_more(show: Any) -> None:
    shown = show(explore("f32[2,300]{1,0}"), 400)
    wait_until_drawn(shown)
    actions = shown.evaluate("[...document.querySelectorAll('canvas')].map((one) => getComputedStyle(one).touchAction)")
    assert actions == ["pan-y", "pan-x"]


def test_the_frame_of_the_chosen_cell_is_drawn_inside_the_grid(show: Any) -> None:
    shown = show(explore(SHAPE))
    shown.fill("#search", "1, 1")
    shown.locator("canvas").first.focus()
    wait_until_drawn(shown)
    shown.evaluate(
        """() => {
            window.frames_drawn = [];
            const draw = CanvasRenderingContext2D.prototype.strokeRect;
            CanvasRenderingContext2D.prototype.strokeRect = function (...box) {
                if (this.lineWidth === 2) window.frames_drawn.push(box);
                draw.apply(this, box);
            };
        }"""
    )
    shown.evaluate("strided.layout.array.scrollTo(0, 0)")
    wait_until(shown, "window.frames_drawn.length === 1")
    shown.evaluate("strided.layout.array.scrollTo(0, 2)")
    wait_until_drawn(shown)
    assert shown.evaluate("window.frames_drawn.length") == 1
    shown.evaluate("strided.layout.array.scrollTo(0, 0)")
    wait_until(shown, "window.frames_drawn.length === 2")
    shown.locator("#search").focus()  # and not drawn anew
    wait_until_drawn(shown)
    assert shown.evaluate("window.frames_drawn.length") == 2


@pytest.mark.parametrize("strange", [1.0, np.nan])
def test_the_map_says_what_hatching_and_colours_are_on_paper_too(show: Any, strange: float) -> None:
    values = np.arange(600.0, dtype=np.float32).reshape(20, 30)
    values[3, 4] = strange
    shown = show(explore(sd.LayoutArray.from_numpy(values, "{1,0}")))
    for medium in ("screen", "print"):
        shown.emulate_media(media=medium)
        assert shown.locator(".ramp").is_visible()
        assert ("hatched: some are NaN or Inf" in text_of(shown, ".legend")) == (strange != 1)
    assert not shown.locator("#search").is_visible()


def test_in_a_notebook(show: Any, tmp_path: Path) -> None:
    from strided.explorer.page import Page

    shown = show(explore(SHAPE))
    both = explore(SHAPE)._repr_html_() + explore("f32[17,300]{0,1}")._repr_html_()
    shown = show(Page("a notebook", f"<!doctype html><html class='ready'><body>{both}"))
    for frame in shown.frames[1:]:
        frame.wait_for_selector("html.ready")
        frame.fill("#search", "9, 200")
        assert "element [9, 200]" in frame.inner_text(".detail")
    titles = [frame.inner_text("h1") for frame in shown.frames[1:]]
    assert titles == [SHAPE, "f32[17,300]{0,1}"]


def test_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    explore(SHAPE).save(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"; overwrite=True replaces it: .*x\.html"):
        explore("f32[3]").save(path, overwrite=False)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError, match=r"none.*x\.html"):
        explore(SHAPE).save(tmp_path / "none" / "x.html")


def test_reprs_have_no_control_characters() -> None:
    from strided.explorer.page import Page

    page = Page("a\x1b[31mb", "<p>")
    for text in (repr(page), page._repr_html_()):
        assert "\x1b" not in text
        assert "[31mb" in text
