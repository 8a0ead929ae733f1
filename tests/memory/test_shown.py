"""How reports show themselves: tables, bars, pictures and pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import strided as sd
from strided.memory.buffers import Buffer
from strided.memory.report import MemoryReport
from tests.memory.samples import HLO, MATMUL, OLD, REPORTS
from tests.paths import DATA


def test_buffers_are_in_the_order_of_what_they_waste_at_the_peak() -> None:
    for source in (HLO, MATMUL[:2], *REPORTS):
        report = sd.memory_report(source)
        wasted = [b.wasted_bytes for b in report.buffers]
        least = report.peak_bytes / 1000
        telling = [size for size in wasted if size > least]
        assert telling == sorted(telling, reverse=True) == wasted[: len(telling)]
        others = [(not b.is_at_peak, -b.bytes) for b in report.buffers[len(telling) :]]
        assert others == sorted(others)


def test_a_report_shows_itself() -> None:
    report = sd.memory_report(MATMUL[:2])
    shown = str(report)
    assert "203.5KiB in hbm" in shown
    assert "argument b" in shown
    assert "░" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "<svg" in report._repr_html_()
    assert "argument b" in report._repr_html_()
    data = json.loads(json.dumps(report.to_dict()))
    assert data["total_bytes"] == 208384
    assert data["buffers"][0]["source"] == {"argument": "b"}
    assert report == sd.memory_report(MATMUL[:2])


def test_the_bar_shows_data_and_padding_in_proportion() -> None:
    from strided.memory.pictures import bar

    half = sd.memory_report(HLO)
    cells = bar(half, 1000)
    assert len(cells) == 1000
    assert abs(cells.count("░") - 1000 * half.padding_bytes / half.peak_bytes) <= len(half.buffers)


def test_the_picture_shows_where_memory_ends() -> None:
    message = sd.memory_report(DATA / "memory" / "hbm_train_step_v4.txt")
    assert "no buffers are listed" in message.svg()
    assert "capacity 15.25GiB" in message.svg()
    assert "of it padding" in sd.memory_report(MATMUL[:2]).svg()
    assert "capacity" not in sd.memory_report(MATMUL[:2]).svg()


def test_a_program_that_fits_is_not_too_much() -> None:
    report = MemoryReport(total_bytes=600, peak_bytes=600, padding_bytes=0, capacity=1024, excess=0)
    assert "\ncapacity 1.0KiB\n" in str(report)
    assert "\ncapacity 512B, too much by 88B\n" in str(replace(report, capacity=512, excess=88))


def test_the_legend_names_what_the_bar_has() -> None:
    half = Buffer(name="x", bytes=600, unpadded_bytes=300)
    whole = MemoryReport(total_bytes=600, peak_bytes=600, padding_bytes=300, buffers=(half,)).svg()
    part = MemoryReport(total_bytes=1000, peak_bytes=1000, padding_bytes=300, buffers=(half,)).svg()
    none = sd.memory_report(DATA / "memory" / "hbm_train_step_v4.txt").svg()
    known = [
        [word for word in ("data", "padding", "not known") if f">{word}<" in drawn] for drawn in (whole, part, none)
    ]
    assert known == [["data", "padding"], ["data", "padding", "not known"], ["not known"]]


def test_the_label_of_the_capacity_stands_beside_the_legend() -> None:
    for share in (0.01, 0.3, 0.45, 0.55, 0.7, 0.9, 0.999):
        half = Buffer(name="x", bytes=600 << 20, unpadded_bytes=300 << 20)
        report = MemoryReport(
            total_bytes=1000 << 20,
            peak_bytes=1000 << 20,
            padding_bytes=300 << 20,
            buffers=(half,),
            capacity=int(share * (1000 << 20)),
        )
        drawn = report.svg()
        known = re.search(r"<text x='([\d.]+)' [^>]*>not known<", drawn)
        found = re.search(r"<text x='([\d.]+)' [^>]*text-anchor='(\w+)'>(capacity [^<]*)<", drawn)
        assert known is not None
        assert found is not None
        left = float(found[1]) - (found[2] == "end") * 7.3 * len(found[3])
        assert left >= float(known[1]) + 7.3 * len("not known")
        assert left + 7.3 * len(found[3]) <= 720


def test_memory_in_use_has_a_colour_of_its_own() -> None:
    drawn = sd.memory_report(HLO).svg()
    fills = re.findall(r"<rect [^>]*fill='(#\w+)' fill-opacity='0.3'", drawn)
    assert len(re.findall(r"<path d='M[^']*Z'", drawn)) == 1
    padded = sum(b.is_at_peak and b.bytes > 0 for b in sd.memory_report(HLO).buffers)
    assert len(fills) <= padded + 1  # of the bar and of the legend, none of the memory in use


def test_the_picture_says_what_is_a_bound_and_cuts_names_alone() -> None:
    peak = {"total_bytes": 1 << 30, "peak_bytes": 1 << 30, "padding_bytes": 1 << 20}
    report = MemoryReport(module="a_name" * 30, bounds=frozenset({"peak_bytes", "padding_bytes"}), **peak)
    first = re.findall(r"<text [^>]*>([^<]*)<", report.svg())[0]
    assert "at most 1.00GiB at the peak, no buffers are listed" in first
    assert len(first) <= 74


def test_the_picture_of_many_buffers_is_small() -> None:
    buffers = tuple(Buffer(name=f"b{k}", bytes=1024, unpadded_bytes=16) for k in range(10_000))
    report = MemoryReport(total_bytes=1024 * 10_000, peak_bytes=1024 * 10_000, padding_bytes=0, buffers=buffers)
    assert "10,000 smaller buffers, 9.77MiB" in report.svg()
    assert len(report.svg()) < 10_000


def test_pages_and_terminals_say_alike_that_a_total_is_rounded() -> None:
    report = sd.memory_report(OLD)
    assert str(report).startswith("the program: about 18.81GiB")
    assert "about 18.81GiB" in report._repr_html_()
