"""Recorded programs with layout copies: before optimizations, and what the TPU compiler made of them."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import strided as sd
from strided.memory.ahead_of_time import Compiled
from tests import paths


def case(name: str) -> dict[str, Any]:
    """The text of a program before optimizations, and its texts after, by the layouts that were asked for."""
    found: dict[str, Any] = json.loads(gzip.decompress((paths.DATA / "copies" / f"{name}.json.gz").read_bytes()))
    return found


def layouts_asked_for(text: str) -> str:
    return "|".join(re.findall(r'(?:arg|out)_layout_modes="([^"]*)"', text.partition("\n")[0]))


def compiled_as(recorded: dict[str, Any]) -> str:
    """The program after optimizations, in the layouts that JAX asked for."""
    text: str = recorded["compiled"][layouts_asked_for(recorded["before"])]
    return text


class RecordedCompiler:
    """A compiler that knows recorded programs, and refuses all others."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def compile_hlo(self, text: str, generation: str, *, timeout: float, dump_to: str) -> Compiled:
        assert generation == "v5e"
        if (asked := layouts_asked_for(text)) not in self.known:
            raise sd.UnsupportedError(f"not recorded: {asked}")
        return Compiled(self.known[asked], {})
