"""Refuses MLIR, which JAX's ``lower`` gives and dumps hold beside HLO: it has neither layouts nor a schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable

from strided.errors import DumpError

#: How bytecode begins, as that of `jax.export` does.
_BYTECODE = b"ML\xefR"
#: What the operations of StableHLO and its kin begin with, and what defines functions.
_WORDS = ("stablehlo.", "mhlo.", "chlo.", "vhlo.", "func.func", "builtin.module")
#: How the first line begins that is neither blank, a comment, nor the name of an attribute or a type. No computation of
#: HLO begins so, although the region of a loop in MLIR does look like one: ``do {``.
_BEGINNING = re.compile(
    r"(?:builtin\.)?module\s+(?:@|attributes\b)|\"builtin\.module\"|func\.func\s+(?:(?:public|private)\s+)?@"
)
_MESSAGE = (
    "this is {}, not HLO: jax.jit(f).lower(x).compile().as_text() gives the HLO, with layouts; "
    'jax.jit(f).lower(x).as_text("hlo") that before optimizations'
)


def refuse_bytecode(data: memoryview, path: str | None) -> None:
    """Raise DumpError for the bytecode of MLIR."""
    if bytes(data[: len(_BYTECODE)]) == _BYTECODE:
        raise DumpError(_MESSAGE.format("MLIR bytecode"), path=path)


def refuse_mlir_module(lines: Iterable[str], path: str | None) -> None:
    """Raise DumpError for lines that begin as MLIR does."""
    first = next((line for line in map(str.lstrip, lines) if line and not line.startswith(("#", "!", "//"))), "")
    if _BEGINNING.match(first):
        raise _error(path)


def refuse_mlir(lines: Iterable[str], path: str | None) -> None:
    """Raise DumpError if lines without an HLO computation are MLIR."""
    if any(word in line for line in lines for word in _WORDS):
        raise _error(path)


def _error(path: str | None) -> DumpError:
    return DumpError(_MESSAGE.format("StableHLO or other MLIR"), path=path)
