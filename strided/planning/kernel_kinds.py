"""What plans know of each kernel: why it is chosen, which tables it follows, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto


class Form(Enum):
    """The tables that a kernel follows, besides that of the outer axes."""

    #: None, not even that one: one run of bytes. Runs of short rows that are evenly spaced.
    RUN, RUNS = auto(), auto()
    #: Rows and pieces of the lanes; the same with blocks of both; with rows that are words of the target; and with rows
    #: that are those of a square of words.
    ROWS, BLOCKS, WORDS, EXCHANGE = auto(), auto(), auto(), auto()
    #: Rows and runs of each side: the target is contiguous along the rows instead of the lanes.
    TRANSPOSITION = auto()
    #: Pieces of two axes.
    NEST = auto()


@dataclass(frozen=True, slots=True)
class Kind:
    """What plans know of one kernel.

    Attributes
    ----------
    reason : str
        Why it is chosen.
    form : Form
        The tables that it follows.
    cost : float
        Time in the cache for each bit on its wider side, that of `rows` being 1. Measured: see docs/maintainers.md.
    bits : int
        Bits of the elements that it is made for; 0 for any.
    packed : int
        Which side has packed elements while the other has bytes: 0 none, 1 the source, 2 the target.
    squares : bool
        Whether it turns squares, or rows of few elements instead.
    free_rows : bool
        Whether its rows may be any axis.
    """

    reason: str
    form: Form
    cost: float = 1.0
    bits: int = 0
    packed: int = 0
    squares: bool = False
    free_rows: bool = False


def _each(name: str, kind: Kind, costs: Mapping[int, float]) -> dict[str, Kind]:
    """Kernels that are alike but for the bits of their elements, on which their costs depend."""
    return {f"{name}{bits}": replace(kind, bits=bits, cost=cost) for bits, cost in costs.items()}


_TAKEN = Kind("rows share each word of the source", Form.BLOCKS)
_PUT = Kind("rows share each word of the target", Form.BLOCKS)
_EXCHANGED = Kind("rows share each word of the source, and others each word of the target", Form.EXCHANGE)
_SQUARES = Kind("neighbours in the source lie apart in the target", Form.TRANSPOSITION, squares=True)
_FEW = replace(_SQUARES, reason="elements of two to four rows take turns in the other buffer")
_WORDS = Kind("words that rows share in the source are rows of such words in the target", Form.TRANSPOSITION)
_RUNS = Kind("short runs that are neighbours in the source lie apart in the target", Form.TRANSPOSITION, 1.5)
_CUT = "words that rows share in the source are rows of the target, which end inside of a word"
_PACKED = "packed elements, side by side in both"
_NEST = Kind("any regular layout", Form.NEST)
_SQUARE_COSTS = {8: 1.85, 16: 1.55, 32: 1.5, 64: 1.15}

#: Every kernel that a step may name.
KINDS = {
    "copy": Kind("one contiguous run on both sides", Form.RUN),
    "rows": Kind("neighbours in one buffer are neighbours in the other", Form.BLOCKS, free_rows=True),
    "short_rows": Kind("rows of few bytes, evenly spaced in both buffers", Form.RUNS, free_rows=True),
    **_each("deinterleave", _TAKEN, {8: 1.15, 16: 1.0}),
    "deinterleave_bits": replace(_TAKEN, cost=1.2, packed=1),
    **_each("interleave", _PUT, {8: 1.3, 16: 1.0}),
    "interleave_bits": replace(_PUT, packed=2),
    **_each("exchange", _EXCHANGED, {1: 2.0, 2: 1.6, 4: 1.3, 8: 1.2, 16: 1.1}),
    **_each("transpose", _SQUARES, _SQUARE_COSTS),
    **_each("transpose_few", _FEW, _SQUARE_COSTS),
    **_each("transpose_words", _WORDS, {1: 1.4, 2: 1.3, 4: 1.3, 8: 1.2, 16: 1.6}),
    "transpose_pairs": replace(_WORDS, cost=1.2, bits=16, squares=True),
    "transpose_runs": _RUNS,
    "transpose_cut32": replace(_SQUARES, reason=_CUT, bits=32, cost=_SQUARE_COSTS[32]),
    "unpack": Kind(_PACKED, Form.ROWS, 1.05, packed=1),
    "pack": Kind(_PACKED, Form.ROWS, packed=2, free_rows=True),
    "pack_words": Kind(f"{_PACKED}, in runs that fill words of the target", Form.WORDS, packed=2),
    "fill": Kind("one value, wherever it goes", Form.ROWS),
    **{f"nest{bits}": _NEST for bits in (8, 16, 32, 64)},
    "nest_bits": Kind("any regular layout of elements below eight bits", Form.NEST),
}
