"""Inspect arrays: where an element lies, what is padding, what a layout looks like, what the values are."""

from __future__ import annotations

from strided.diagnosis.byte_ranges import byte_ranges
from strided.diagnosis.identification import Candidate, Identification, identify
from strided.diagnosis.padding import Match, Padding, PaddingRegion, padding
from strided.dumps.hlo.largest import Value, largest
from strided.inspect.describe import describe, facts
from strided.inspect.explain import Explanation, Part, explain, explain_byte
from strided.inspect.index_text import parse_index
from strided.inspect.plans import compiled_kernels, plan_between
from strided.inspect.statistics import Statistics, statistics
from strided.layout.sizes import Sizes, sizes
from strided.pictures.picture import captioned_picture, picture
from strided.pictures.svg import svg

__all__ = [
    "Candidate",
    "Explanation",
    "Identification",
    "Match",
    "Padding",
    "PaddingRegion",
    "Part",
    "Sizes",
    "Statistics",
    "Value",
    "byte_ranges",
    "captioned_picture",
    "compiled_kernels",
    "describe",
    "explain",
    "explain_byte",
    "facts",
    "identify",
    "largest",
    "padding",
    "parse_index",
    "picture",
    "plan_between",
    "sizes",
    "statistics",
    "svg",
]


def __dir__() -> list[str]:
    return list(__all__)
