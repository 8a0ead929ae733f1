"""HLO modules: `read_hlo` opens what XLA prints or serialises.

    module = sd.read_hlo("module_0000.jit_f.after_optimizations.txt")
    module.parameters, module.results
    module.find(opcode="fusion", memory_space=1)
    module.instruction("fusion.3").operands

Text and protos give the same values; `module` defines these, `text` and `proto` read them.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from strided.dumps.hlo.computation import Computation
from strided.dumps.hlo.header import Alias, Donor, EntryLayout, Frame, SourceTables, Unparsed
from strided.dumps.hlo.instruction import Instruction
from strided.dumps.hlo.mlir import refuse_bytecode
from strided.dumps.hlo.module import Module
from strided.dumps.hlo.proto import read_proto
from strided.dumps.hlo.text import read_lines, read_text
from strided.dumps.source import (
    is_contents,
    is_text,
    lines_of,
    naming_in_dump_errors,
    open_source,
    refuse_short_lines,
    refuse_utf16,
)
from strided.errors import DumpError
from strided.runtime.argument_checks import whole

__all__ = [
    "Alias",
    "Computation",
    "Donor",
    "EntryLayout",
    "Frame",
    "Instruction",
    "Module",
    "SourceTables",
    "Unparsed",
    "read_hlo",
]


def read_hlo(source: Any, *, index: SupportsIndex | None = None, max_bytes: SupportsIndex | None = None) -> Module:
    """Read an HLO module from a file, text or bytes.

    Parameters
    ----------
    source : path, str, or buffer
        The path of a text (``.txt``, ``.hlo``) or a proto (``.hlo.pb``: HloModuleProto, HloProto, HloSnapshot), which
        may be compressed by gzip or Zstandard; HLO text itself; or the bytes of any of these. The content decides.
    index : int, optional
        Which module of a text that holds several, counted from 0.
    max_bytes : int, optional
        Limit for decompressed contents; by default 1 GiB for text, 2 GiB for anything else. By default, a text of more
        than two million lines that are shorter than 225 bytes on average is refused, too, because it would take more
        than three times its size in memory; with `max_bytes`, it is read.

    Returns
    -------
    Module

    Raises
    ------
    DumpError
        The contents are no HLO module (but StableHLO, for example), are truncated, or define a name twice; the message
        gives the line and column, or the byte. Several modules without an `index`, or an `index` out of range.
    OSError
        A file that cannot be opened.

    Warns
    -----
    DumpWarning
        Lines could not be parsed; they are kept as text (`Module.unread`).

    >>> module = read_hlo('''
    ... HloModule scale, entry_computation_layout={(f32[8,128]{1,0:T(8,128)})->f32[8,128]{1,0:T(8,128)}}
    ...
    ... ENTRY %main (x: f32[8,128]) -> f32[8,128] {
    ...   %x = f32[8,128]{1,0:T(8,128)} parameter(0)
    ...   ROOT %y = f32[8,128]{1,0:T(8,128)} add(%x, %x), metadata={op_name="add"}
    ... }
    ... ''')
    >>> module.entry.root.operands
    (<Instruction x: f32[8,128]{1,0:T(8,128)} parameter>, <Instruction x: f32[8,128]{1,0:T(8,128)} parameter>)
    >>> [i.name for i in module.find(shape="f32[8,128]", opcode="add")]
    ['y']
    """
    index = None if index is None else whole(index, "index")
    max_bytes = None if max_bytes is None else whole(max_bytes, "max_bytes")
    if isinstance(source, str) and is_contents(source, lambda line: "{" in line or not line.strip()):
        if max_bytes is None:
            refuse_short_lines(max(source.count("\n"), source.count("\r")), len(source))
        return read_text(source, index=index)
    view, path = open_source(source, max_bytes=max_bytes)
    if not is_text(view):
        if index not in (None, 0):
            raise DumpError(f"there is no module {index}: a proto holds one", path=path)
        refuse_bytecode(view, path)
        refuse_utf16(view, path)
        with naming_in_dump_errors(path):
            return read_proto(view, path)
    lines = lines_of(view, path, max_bytes)
    del view  # free decompressed bytes, which the lines replace
    return read_lines(lines, path, index)
