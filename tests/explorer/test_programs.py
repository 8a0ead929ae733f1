"""Pages of modules, reports, dumps and two runs in a real browser: search, keys, links, maps; names stay text."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.explorer import Page, explore
from strided.explorer import dumps as dump_pages
from tests import hlo_samples, paths
from tests.explorer.conftest import text_of, wait_until_drawn

pytestmark = pytest.mark.partners

SNAPSHOT = "module_0000.jit_prog_while_loop.snapshot.461367650.pb"
HOSTILE = "<img src=x onerror=alert(1)>"

MODULE = hlo_samples.text_path("control_flow_cond_switch_while")


def test_a_module(show: Any) -> None:
    module = sd.read_hlo(MODULE)
    shown = show(explore(module))
    insides = {
        callee.name for one in module.instructions if one.opcode == "fusion" for callee in one.called_computations
    }
    outside = [one for one in module.instructions if one.computation.name not in insides]
    count = "[role=status]"
    assert text_of(shown, count) == f"{len(outside)} instructions"
    shown.check("#fused")
    assert text_of(shown, count) == f"{len(module.instructions)} instructions"
    for words in ("while", "f32 parameter", "no such thing"):
        shown.fill("#find", words)
        wanted = [
            one
            for one in module.instructions
            if all(
                word in f"{one.name} {one.opcode} {one.shape} {one.metadata.get('op_name', '')}".lower()
                for word in words.split()
            )
        ]
        assert text_of(shown, count).split()[0] == str(len(wanted))
    shown.fill("#find", "")
    shown.select_option("#order", "bytes")
    largest = shown.locator(".list .row").first.inner_text().split("\n")[0]
    assert largest in {one.name for one in module.instructions}
    root = module.entry.root
    shown.select_option("#order", "program")
    shown.fill("#find", root.name)
    shown.locator(".list .row", has_text=root.name).first.click()
    assert text_of(shown, ".detail h2").startswith(root.name)
    assert "of which it is the result" in text_of(shown, ".detail")
    shown.click(f".detail .link >> text='{root.operands[0].name}' >> nth=-1")
    assert text_of(shown, ".detail h2").startswith(f"{root.operands[0].name}:")
    assert root.name in text_of(shown, ".detail dd >> nth=-1")
    shown.focus(".list")
    shown.keyboard.press("Home")
    assert text_of(shown, ".detail h2").startswith(f"{module.instructions[0].name}:")
    shown.keyboard.press("ArrowDown")
    assert text_of(shown, ".detail h2").startswith(f"{module.instructions[1].name}:")


def test_buffers_and_copies_lead_to_instructions(show: Any) -> None:
    with zipfile.ZipFile(paths.DATA / "memory" / "step.zip") as archive:
        module = sd.read_hlo(archive.read("step_dump/module_0000.jit_step.after_optimizations.txt"))
    shown = show(explore(module))
    report = sd.memory_report(module)
    assert shown.locator(".part svg").count() == 1
    titles = shown.locator(".part h2").all_inner_texts()
    assert titles[:2] == ["Memory at the peak", "Buffers"]
    assert "only to change a layout" in titles[-1]
    links = shown.locator(".part .link")
    assert links.count() > 0
    text = links.first.inner_text()
    assert any(f"{b.kind} {b.name}" == text for b in report.buffers)
    links.first.click()
    assert text_of(shown, ".detail h2").split(":")[0] in text
    assert text_of(shown, ".facts").startswith("module")


def test_a_report_of_the_compiler(show: Any) -> None:
    report = sd.memory_report(paths.DATA / "memory" / "hbm_attention_scores_v5e.report.txt.gz")
    shown = show(explore(report))
    assert "total" in text_of(shown, "header .facts")
    assert shown.locator(".part tbody tr").count() >= min(100, len(report.buffers))
    assert shown.locator("#find").count() == 0


def test_a_hundred_thousand_rows(show: Any) -> None:
    shown = show(explore(sd.read_hlo(MODULE)))
    shown.evaluate(
        """() => { const { rows } = window.strided.module;
                   rows.cells = (k) => [`n${k}`, "negate", "1", "1", "1", "f32[]"];
                   rows.show(Array.from({ length: 100_000 }, (_, k) => k)); }"""
    )
    for share in (0, 0.3, 0.31, 1):
        shown.evaluate(
            "share => { const { list } = window.strided.module.rows; list.scrollTop = share * list.scrollHeight; }",
            share,
        )
        wait_until_drawn(shown)
        rows = shown.locator(".list .row")
        assert rows.count() < 60
        places = [int(row.split("\n")[0][1:]) for row in rows.all_inner_texts()]
        assert places == list(range(places[0], places[0] + len(places)))
        assert abs(places[0] - share * 100_000) < 60
    assert places[-1] == 99_999


def test_names_of_a_module_are_text(show: Any) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    text = hlo_samples.module_text(f'ROOT p = f32[2] parameter(0), metadata={{op_name="{hostile}"}}')
    shown = show(explore(sd.read_hlo(text)))
    shown.locator(".list .row").first.click()
    assert hostile in text_of(shown, ".detail")
    assert shown.locator("img").count() == 0


def test_characters_that_do_not_print_are_seen(show: Any) -> None:
    made_by = "a\u202eb\u200bc \\u202e \U0001f600 \u00e9 \u0645"
    text = hlo_samples.module_text(f'ROOT p = f32[2] parameter(0), metadata={{op_name="{made_by}\\n{made_by}"}}')
    shown = show(explore(sd.read_hlo(text)))
    shown.locator(".list .row").first.click()
    said = shown.inner_text(".detail")
    assert "a\\u202eb\\u200bc" in said
    assert "\U0001f600 \u00e9 \u0645\\n" in said
    assert not re.search("[\u202e\u200b]", said)


def test_a_layout_opens_in_the_page_of_a_module(show: Any) -> None:
    text = hlo_samples.module_text(
        "p = bf16[17,300]{1,0:T(8,128)(2,1)} parameter(0)\n"
        "ROOT t = (bf16[17,300]{0,1:T(8,128)(2,1)}, f32[]) custom-call(p)"
    )
    shown = show(explore(sd.read_hlo(text)))
    rows = shown.locator(".list .row")
    for k, layout in enumerate(("{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}")):
        rows.nth(k).click()
        shown.locator(".detail .link", has_text=layout).click()
        assert text_of(shown, ".panel h2") == f"bf16[17,300]{layout}"
        for index in ((9, 200), (16, 299), (0, 1)):
            shown.fill("#search", f"{index[0]}, {index[1]}")
            offset = sd.parse_shape(f"bf16[17,300]{layout}").address_map.offset_of(index)
            assert f"= {offset:,}" in text_of(shown, ".panel .sum")
    shown.locator(".panel button").first.click()
    assert shown.locator(".panel").is_hidden()
    assert shown.evaluate("document.activeElement.className") == "link"
    rows.first.click()
    shown.focus(".list")
    shown.keyboard.press("l")
    assert text_of(shown, ".panel h2").endswith("{1,0:T(8,128)(2,1)}")
    shown.keyboard.press("Escape")
    assert shown.locator(".panel").is_hidden()
    rows.first.locator("a").click()
    assert shown.locator(".panel").is_visible()


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [paths.unpack_dump(folder) for folder in (tmp_path / "first", tmp_path / "second")]


def test_pictures_are_whole_on_a_telephone(show: Any) -> None:
    boxes = show(explore(sd.read_hlo(MODULE)), 400).locator(".part .strided-scroll:has(> svg)")
    assert boxes.count() == 1
    assert boxes.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_long_names_stay_in_their_cells(show: Any, width: int) -> None:
    body = f"p = f32[100,100]{{1,0:T(8,128)}} parameter(0)\n{'name' * 60} = f32[100,100]{{0,1:T(8,128)}} copy(p)"
    body += f"\nROOT r = f32[100,100]{{1,0:T(8,128)}} copy({'name' * 60})"
    shown = show(explore(sd.read_hlo(hlo_samples.module_text(body))), width)
    buttons = shown.locator("td .link")
    assert buttons.count() > 3
    for button in buttons.all():
        assert button.evaluate(
            "one => one.getBoundingClientRect().right <= one.closest('td').getBoundingClientRect().right"
        )


def test_names_are_whole_on_a_telephone(show: Any, folders: list[Path]) -> None:
    names = show(explore(sd.open_dump(folders[0])), 400).locator(".arrays .row[role=option] > span:nth-child(2)")
    assert names.count() > 5
    for name in names.all():
        assert name.evaluate("name => name.scrollHeight <= name.clientHeight + 1")


def test_a_dump(show: Any, folders: list[Path]) -> None:
    dump = sd.open_dump(folders[0])
    shown = show(explore(dump))
    assert text_of(shown, "h1") == "first"
    name = "jit_prog_while_loop/run0/argument0"
    values = np.asarray(dump[name])
    shown.fill("#find-array", "while run0/argument0")
    assert text_of(shown, "[role=status]") == "1 array"
    row = shown.locator(".arrays .row[role=option]")
    assert row.locator("canvas").count() == 1
    row.click()
    detail = text_of(shown, ".detail")
    for figure in (values.min(), values.max(), values.mean()):
        assert f"{figure:.6g}" in detail
    assert f"of {values.size} elements" in detail
    assert shown.locator(".map canvas").count() == 1
    shown.click(".detail .link >> nth=1")
    shown.fill("#search", "0, 0")
    found = np.float32(text_of(shown, ".panel .detail h2").partition(" = ")[2])
    assert found == values.reshape(-1)[0]


def test_arrays_and_instructions_of_a_dump_lead_to_each_other(show: Any, folders: list[Path]) -> None:
    dump = sd.open_dump(folders[0])
    shown = show(explore(dump))
    shown.fill("#find-array", "while run0/argument0")
    shown.focus(".arrays .list")
    shown.keyboard.press("Home")
    program = dump.program("jit_prog_while_loop")
    assert program.module is not None
    instruction = program.module.parameters[0].name
    shown.click(f".detail .link >> text='{instruction}'")
    shown.wait_for_selector(".instructions [aria-selected=true]")
    assert shown.evaluate("window.strided.dump.shown") == list(dump.programs).index(program)
    described = shown.locator(".detail").last
    assert f"{instruction}: parameter" in described.inner_text()
    described.locator(".link", has_text="run0/argument0").click()
    assert text_of(shown, ".arrays [aria-selected=true]").startswith(f"{program.label}/run0/argument0")


def test_the_programs_of_a_dump(show: Any, folders: list[Path]) -> None:
    dump = sd.open_dump(folders[0])
    shown = show(explore(dump))
    for number, program in enumerate(dump.programs):
        shown.select_option("#program", str(number))
        if program.module is None:
            continue
        shown.wait_for_selector(".instructions")
        assert shown.evaluate("window.strided.dump.module.module.names.length") == len(program.module.instructions)
        assert shown.locator(".program:visible").count() == 1
        assert shown.locator(".program:visible svg").count() >= 1
        for what, why in program.missing:
            assert f"missing: {what} ({why})" in shown.inner_text("#view")


def test_a_large_dump_is_shown_in_part(show: Any, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    dump = sd.open_dump(folders[0])
    everything = len(explore(dump).html)
    monkeypatch.setattr(dump_pages, "MOST_MODULES", 1)
    monkeypatch.setattr(dump_pages, "MOST_MAPS", 2)
    page = explore(dump)
    assert len(page.html) < everything
    sizes = [sum(file.size for file in program.files) for program in dump.programs]
    mapped = [array["program"] for array in _packed(page, "dump")["arrays"] if array.get("map")]
    assert mapped == [sizes.index(max(sizes))]
    shown = show(page)
    assert shown.locator("#program option", has_text="files only").count() == len(dump.programs) - 1
    assert shown.locator(".arrays canvas").count() <= 2
    shown.locator(".arrays .row[role=option]").last.click()
    assert "not in this page" in text_of(shown, ".detail")
    monkeypatch.setattr(dump_pages, "MOST_LISTED", 3)
    assert "are left out: the page lists 3" in explore(dump).html


def test_one_program_of_a_dump(folders: list[Path]) -> None:
    program = sd.open_dump(folders[0]).program("jit_prog_while_loop")
    page = explore(program)
    assert page.title == program.label
    assert [one["label"] for one in _packed(page, "dump")["programs"]] == [program.label]
    assert [one["name"] for one in _packed(page, "dump")["arrays"]] == list(program.arrays)


def test_another_layout_goes_with_one_array_alone() -> None:
    values = np.eye(3, dtype=np.float32)
    array = sd.LayoutArray.from_numpy(values, "{1,0}")
    for target, more in ((sd.read_hlo(MODULE), {}), (sd.diff(values, values), {}), (array, {"against": values})):
        with pytest.raises(TypeError, match="`to` goes with one shape or array"):
            explore(target, to="{0,1}", **more)


def test_a_folder_without_programs(tmp_path: Path) -> None:
    with pytest.raises(sd.DumpError, match="no program"):
        explore(sd.open_dump(tmp_path))


def test_a_damaged_dump(show: Any, folders: list[Path]) -> None:
    (folders[0] / SNAPSHOT).write_bytes(b"\x0a\xff\xff")
    module = folders[0] / "module_0000.jit_prog_spmd_4cpu.cpu_after_optimizations.hlo.pb"
    module.write_bytes(module.read_bytes()[:100])
    shown = show(explore(sd.open_dump(folders[0])))
    number = [program.name for program in sd.open_dump(folders[0]).programs].index("jit_prog_spmd_4cpu")
    shown.select_option("#program", str(number))
    assert "broken" in shown.inner_text("#view .wrong")


def test_a_snapshot(show: Any, folders: list[Path]) -> None:
    snapshot = sd.read_snapshot(folders[0] / SNAPSHOT)
    shown = show(explore(snapshot))
    assert text_of(shown, "h1") == SNAPSHOT
    assert text_of(shown, "[role=status]").startswith(f"{len(snapshot.arguments) + len(snapshot.results)} arrays")
    assert shown.locator(".instructions .row").count() > 5
    assert shown.locator("#program").is_hidden()


def rewrite(folder: Path, **changed: Any) -> None:
    """Write the snapshot again, with other arguments and results by name."""
    snapshot = sd.read_snapshot(folder / SNAPSHOT, mapped=False)
    parts = [[np.array(each) for each in values] for values in (snapshot.arguments, snapshot.results)]
    for name, change in changed.items():
        change(parts[name.startswith("result")][int(name[-1])])
    sd.write_snapshot(folder / SNAPSHOT, parts[0], tuple(parts[1]), module=snapshot.module_proto)


def test_two_runs(show: Any, folders: list[Path]) -> None:
    a, b = map(sd.open_dump, folders)
    shown = show(explore(a, against=b))
    assert text_of(shown, "[role=status]") == "0 of 15 values differ"
    assert shown.is_checked("#equal")
    assert "the modules are equal" in text_of(shown, ".facts")

    def everywhere(values: Any) -> None:
        values += 1

    def once(values: Any) -> None:
        values.reshape(-1)[0] += 1

    rewrite(folders[1], argument0=once, argument1=everywhere)
    shown = show(explore(a, against=sd.open_dump(folders[1])))
    assert text_of(shown, "[role=status]") == "2 of 15 values differ"
    names = [row.split("\n")[0] for row in shown.locator(".differences .row[role=option]").all_inner_texts()]
    assert [name.rpartition("/")[2] for name in names] == ["argument1", "argument0"]
    assert "all" in text_of(shown, ".differences .row[role=option]")
    assert "argument1" in text_of(shown, ".detail h2")
    shown.focus(".differences .list")
    shown.keyboard.press("ArrowDown")
    assert "1 of " in text_of(shown, ".detail")
    shown.select_option("#order", "program")
    assert shown.locator(".differences .row[role=option]").first.inner_text().split("\n")[0].endswith("argument0")
    shown.check("#equal")
    assert shown.locator(".differences .row[role=option]").count() == 15
    shown.fill("#find", "no such value")
    assert shown.locator(".differences .row[role=option]").count() == 0


def test_a_tolerance_goes_with_two() -> None:
    array = sd.LayoutArray.from_numpy(np.ones((3, 5), np.float32), "{1,0}")
    other = sd.LayoutArray.from_numpy(np.full((3, 5), 1.001, np.float32), "{1,0}")
    assert "all 15 elements are equal" not in _packed(explore(array, against=other), "runs")["difference"]["verdict"]
    assert (
        "all 15 elements are equal"
        in _packed(explore(array, against=other, rtol=0.01), "runs")["difference"]["verdict"]
    )
    with pytest.raises(TypeError, match="rtol"):
        explore(array, rtol=0.01)
    with pytest.raises(ValueError, match="shapes differ"):
        explore(array, against=np.ones((5, 3), np.float32))


def _packed(page: Page, name: str) -> Any:
    found = re.search(rf'"{name}":\{{"gzip":"([^"]*)"', page.html)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_two_arrays(show: Any) -> None:
    a = sd.LayoutArray.from_numpy(np.ones((24, 300), np.float32), "{1,0:T(8,128)}")
    b = sd.LayoutArray.from_numpy(np.ones((24, 300), np.float32), "{0,1:T(8,128)}")
    b[8:16, 128:256] = 2
    b[0, 0] = np.nan
    page = explore(a, against=b)
    shown = show(page)
    assert "1,025 of 7,200 elements differ" in text_of(shown, ".detail")
    data = _packed(page, "runs")["difference"]["map"]
    assert sum(data["counts"]) == 1025
    assert sum(data["nan"]) == 1
    assert sum(data["sizes"]) == 7200
    worst = shown.locator("ol li")
    assert "with NaN" in worst.first.inner_text()
    worst.nth(1).locator("button").click()
    said = text_of(shown, ".message")
    label = re.match(r"\[(\d+):(\d+), (\d+):(\d+)\]: (\d+) of \5 elements differ$", said) or re.match(
        r"\[(\d+), (\d+):(\d+)\]: (\d+) of \4 elements differ$", said
    )
    assert label is not None, said
    drawn = shown.locator(".map canvas")
    drawn.focus()
    shown.keyboard.press("Control+Home")
    assert "1 with NaN" in text_of(shown, ".message")
    drawn.hover(position={"x": 300, "y": 200})
    assert "elements differ" in text_of(shown, ".message")
    shown.locator("dd .link").last.click()
    assert text_of(shown, ".panel h2") == "f32[24,300]{0,1:T(8,128)}"


def every_kind(tmp_path: Path, folders: list[Path]) -> dict[str, Page]:
    """A page of each kind, with names that would be markup."""
    text = hlo_samples.module_text(
        f'ROOT p = f32[2] parameter(0), metadata={{op_name="{HOSTILE}"}}', f"HloModule {HOSTILE}"
    )
    hostile = [folder.with_name(f"{folder.name} {HOSTILE}") for folder in folders]
    for source, folder in zip(folders, hostile, strict=True):
        source.rename(folder)
        for file in [*folder.glob("*while*")]:
            file.rename(file.with_name(file.name.replace("while_loop", HOSTILE)))
    rewritten = next(hostile[1].glob("*.snapshot.461*"))
    rewritten.write_bytes(next(hostile[0].glob("*.snapshot.461*")).read_bytes()[:-7])
    files = [tmp_path / f"{letter}{HOSTILE}.npy" for letter in "ab"]
    for k, file in enumerate(files):
        np.save(file, np.full((3, 5), float(k)))
    try:
        module = sd.read_hlo(text)
    except sd.DumpError:
        module = sd.read_hlo(text.replace(f"HloModule {HOSTILE}", "HloModule m"))
    exhausted = (
        (paths.DATA / "memory" / "hbm_train_step_v4.txt").read_text(encoding="utf-8").replace("jit__lambda", HOSTILE)
    )
    dumps = [sd.open_dump(folder) for folder in hostile]
    return {
        "module": explore(module),
        "report": explore(sd.memory_report(exhausted)),
        "dump": explore(dumps[0]),
        "snapshot": explore(sd.read_snapshot(next(hostile[0].glob("*.snapshot.461*")))),
        "runs": explore(dumps[0], against=dumps[1]),
        "arrays": explore(files[0], against=files[1]),
    }


def test_every_kind(show: Any, tmp_path: Path, folders: list[Path]) -> None:
    """Names are text, nothing is wider than the page, controls have names, both themes and print."""
    for kind, page in every_kind(tmp_path, folders).items():
        assert "<img" not in page.html, kind
        shown = show(page)
        for rows in shown.locator(".list").all():
            rows.focus()
            shown.keyboard.press("End")
        assert shown.locator("img").count() == 0, kind
        if kind in ("dump", "runs", "snapshot", "arrays"):
            assert HOSTILE in shown.inner_text("body"), kind
        for width in (400, 2560):
            shown.set_viewport_size({"width": width, "height": 900})
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), (kind, width)
        unnamed = shown.evaluate(
            """() => [...document.querySelectorAll("input, select, button, [role=application], [role=listbox]")].filter(
                one => !(one.ariaLabel || one.labels?.length || one.textContent.trim())).map(one => one.outerHTML)"""
        )
        assert unnamed == [], kind
        repeated = shown.evaluate(
            "() => { const ids = [...document.querySelectorAll('[id]')].map(one => one.id);"
            " return ids.filter((id, k) => ids.indexOf(id) !== k); }"
        )
        assert repeated == [], kind
        for scheme in ("dark", "light"):
            shown.emulate_media(color_scheme=scheme)
            ink, paper = shown.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
            light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
            assert (light[0] > light[1]) == (scheme == "dark"), kind
        shown.emulate_media(media="print")
        useless = ".controls:not(:has(.ramp)), .controls :is(input, button)"
        assert not any(one.is_visible() for one in shown.locator(useless).all()), kind
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), kind


def _many_buffers() -> str:
    shape = "f32[2,2]{1,0:T(2,128)}"
    lines = [f"p{k} = {shape} parameter({k})" for k in range(400)]
    names = ", ".join(f"p{k}" for k in range(400))
    root = f"ROOT t = ({', '.join([shape] * 400)}) tuple({names})"
    return hlo_samples.module_text("\n".join([*lines, root]), "HloModule m, is_scheduled=true")


@pytest.mark.parametrize("text", [hlo_samples.text_of("control_flow_cond_switch_while"), _many_buffers()])
def test_a_page_is_not_much_larger_than_the_text(text: str) -> None:
    packed = gzip.compress(text.encode())
    assert len(explore(sd.read_hlo(text)).html.encode()) < 2 * len(packed) + 300_000
