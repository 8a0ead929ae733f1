"""`strided info --ranges`: which bytes a window takes, in words and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner, Result

from strided.cli.group import commands
from strided.diagnosis.window import window

SHAPE = "bf16[17,300]{1,0:T(8,128)(2,1)}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["info", *arguments])


@pytest.mark.parametrize(
    ("key", "elements"),
    [((), 17 * 300), ((9, slice(200, 204)), 4), ((3, -1), 1), ((slice(2, 2),), 0), ((None, [0, 0], [[1], [2]]), 4)],
)
def test_wanted_bytes_are_those_of_the_selected_elements(key: object, elements: int) -> None:
    assert np.empty((17, 300))[key].size == elements
    assert window(SHAPE, key).wanted_bytes == 2 * elements


def test_the_command_counts_and_lists() -> None:
    found = run(SHAPE, "--ranges", "9, 200:204").output
    assert "8 read for 8 wanted" in found
    assert "4 ranges, not in one piece" in found
    assert "8482:8484" in found
    assert "14 read for 8 wanted, 1.75 times as many" in run(SHAPE, "--ranges", "9, 200:204", "--gap", "2").output
    assert "in one piece" in run("f32[4,8]", "--ranges", "1:3").output
    assert "0 ranges" in run(SHAPE, "--ranges", "3:3").output


def test_many_ranges_are_cut_short_in_words_alone() -> None:
    found = run("f32[100,100]", "--ranges", ":, 7")
    assert "and 88 more" in found.output
    content = json.loads(run("f32[100,100]", "--ranges", ":, 7", "--json").output)
    assert content["count"] == len(content["ranges"]) == 100
    assert (content["read_bytes"], content["wanted_bytes"], content["is_one_piece"]) == (400, 400, False)


def test_a_gap_needs_ranges() -> None:
    assert run(SHAPE, "--gap", "4").exit_code == 2


@pytest.mark.parametrize("index", ["17", "0, 300", "0, 0, 0"])
def test_an_index_outside_is_refused(index: str) -> None:
    assert isinstance(run(SHAPE, "--ranges", index).exception, IndexError)
