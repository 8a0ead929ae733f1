"""Windows and dimension labels of convolutions, as XLA prints them.

::

    window={size=3x3 stride=2x2 pad=1_1x0_1 lhs_dilate=2x1 rhs_dilate=1x2 rhs_reversal=1x0}
    dim_labels=b01f_01io->b01f

A dimension that is neither batch nor feature nor spatial has the label ``?``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strided.dumps.hlo.header import in_braces

#: The most dimensions that are labelled.
MAX_RANK = 1000

#: The parts of a window: name, text for one dimension, and the default, which is not printed.
_PARTS: tuple[tuple[str, Callable[[Mapping[str, Any]], str], str], ...] = (
    ("size", lambda d: str(d.get("size", 0)), ""),
    ("stride", lambda d: str(d.get("stride", 0)), "1"),
    ("pad", lambda d: f"{d.get('padding_low', 0)}_{d.get('padding_high', 0)}", "0_0"),
    ("lhs_dilate", lambda d: str(d.get("base_dilation", 0)), "1"),
    ("rhs_dilate", lambda d: str(d.get("window_dilation", 0)), "1"),
    ("rhs_reversal", lambda d: str(int(d.get("window_reversal", False))), "0"),
)


def window(dimensions: Sequence[Mapping[str, Any]]) -> str:
    """The text of a Window message's dimensions.

    >>> plain = {"size": 3, "stride": 1, "base_dilation": 1, "window_dilation": 1}
    >>> window([plain, {**plain, "padding_high": 1}])
    '{size=3x3 pad=0_0x0_1}'
    """
    parts = []
    for name, show, silent in _PARTS:
        values = [show(dimension) for dimension in dimensions]
        if any(value != silent for value in values):
            parts.append(f"{name}={'x'.join(values)}")
    return in_braces(parts, " ")


def dim_labels(message: Mapping[str, Any]) -> str:
    """The text of a ConvolutionDimensionNumbers message: a label for each dimension of input, kernel and output.

    >>> dim_labels({"input_feature_dimension": 1, "kernel_output_feature_dimension": 1, "output_feature_dimension": 1})
    'bf_io->bf'
    """
    sides = []
    for side, letters in (
        ("input", {"b": "input_batch_dimension", "f": "input_feature_dimension"}),
        ("kernel", {"i": "kernel_input_feature_dimension", "o": "kernel_output_feature_dimension"}),
        ("output", {"b": "output_batch_dimension", "f": "output_feature_dimension"}),
    ):
        labels = {message.get(field, 0): letter for letter, field in letters.items()}
        labels.update({dimension: str(n) for n, dimension in enumerate(message.get(f"{side}_spatial_dimensions", ()))})
        last = max(labels)
        if min(labels) < 0 or last >= MAX_RANK:
            return f"/* no dimensions: {sorted(labels)} */"
        sides.append("".join(labels.get(n, "?") for n in range(last + 1)))
    return f"{sides[0]}_{sides[1]}->{sides[2]}"
