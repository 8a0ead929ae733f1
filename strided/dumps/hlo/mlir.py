"""Refuse MLIR, which JAX's ``lower`` prints and dumps contain besides HLO: it has neither layouts nor a schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable

from strided.errors import DumpError

#: The first bytes of bytecode, as from `jax.export`.
_BYTECODE = b"ML\xefR"
#: Prefixes of operations of StableHLO and related dialects, and operations that define functions.
_WORDS = ("stablehlo.", "mhlo.", "chlo.", "vhlo.", "func.func", "builtin.module")
#: The beginning of MLIR's first line that is neither blank, a comment, nor an alias. No HLO computation begins like
#: this, although an MLIR loop's region looks like one: ``do {``.
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
    """Raise DumpError for lines that begin like MLIR."""
    first = next((line for line in map(str.lstrip, lines) if line and not line.startswith(("#", "!", "//"))), "")
    if _BEGINNING.match(first):
        raise _error(path)


def refuse_mlir(lines: Iterable[str], path: str | None) -> None:
    """Raise DumpError if lines without an HLO computation are MLIR."""
    if any(word in line for line in lines for word in _WORDS):
        raise _error(path)


def _error(path: str | None) -> DumpError:
    return DumpError(_MESSAGE.format("StableHLO or other MLIR"), path=path)
