"""Finds the copies of a module that only change a layout."""

from __future__ import annotations

from typing import SupportsIndex

from strided.dumps.hlo import Module
from strided.memory.copies.causes import Causes
from strided.memory.copies.changes import Change, Changes
from strided.memory.copies.dataflow import Dataflow
from strided.memory.copies.executions import Executions, executions
from strided.memory.copies.layout_copy import LayoutCopies, LayoutCopy
from strided.memory.copies.traffic import byte_size, bytes_of_program
from strided.memory.copies.verify import verified
from strided.runtime.argument_checks import number, whole
from strided.tpu.default_layout import check_generation


def layout_copies(
    module: Module,
    *,
    before: Module | None = None,
    generation: str = "v5e",
    top: SupportsIndex | None = None,
    timeout: float = 120,
) -> LayoutCopies:
    """All instructions of a module that only change the layout of a value, the most expensive first.

    These are copies, asynchronous copies (``copy-start``), transposes and reshapes that move elements, and fusions of
    nothing else, but not changes of only the memory space. Those inside a fusion that does more are listed last: they
    cost no pass through memory.

    Parameters
    ----------
    module : Module
        After optimizations.
    before : Module, optional
        The same program before optimizations. With it the TPU compiler tries each cure: those that remove the copy
        become ``"verified"``, those that do not help are dropped. This needs jax and libtpu, but no TPU.
    generation : str
        The TPU that the compiler tries cures for: ``"v2"``, ``"v3"``, ``"v4"``, ``"v5e"``, ``"v5p"``, ``"v6e"`` or
        ``"tpu7x"``.
    top : int, optional
        Try only the cures of this many copies, the most expensive.
    timeout : float
        Seconds for each compilation.

    Returns
    -------
    LayoutCopies
        A tuple of `LayoutCopy`, each with bytes, executions, cause and cure. Prints as a report.

    Raises
    ------
    TypeError
        `module` or `before` is not a Module.
    UnsupportedError
        An unknown generation; or `before` is given, and jax or libtpu is not installed, or the compiler rejects the
        unchanged program.
    ValueError
        A negative timeout.

    >>> import strided as sd
    >>> module = sd.read_hlo('''
    ... HloModule jit_f
    ...
    ... ENTRY %main (x: f32[1024,4096]) -> f32[1024,4096] {
    ...   %x = f32[1024,4096]{1,0:T(8,128)} parameter(0), metadata={op_name="x"}
    ...   %copy = f32[1024,4096]{0,1:T(8,128)} copy(%x)
    ...   ROOT %r = f32[1024,4096]{0,1:T(8,128)} sort(%copy), dimensions={0}
    ... }
    ... ''')
    >>> print(sd.layout_copies(module)[0])
    copy: 33,554,432 bytes (50.0%)
      f32[1024,4096]{1,0:T(8,128)} -> f32[1024,4096]{0,1:T(8,128)}
      cause: x is passed as {1,0:T(8,128)}, but r takes {0,1:T(8,128)}
      cure (computed): pass x as
        Format(Layout(major_to_minor=(1, 0), tiling=((8, 128),)), sharding)
    """
    if not isinstance(module, Module):
        raise TypeError(f"layout_copies takes a Module, not {type(module).__name__}: strided.read_hlo reads one")
    if before is not None and not isinstance(before, Module):
        raise TypeError(f"before must be a Module, not {type(before).__name__}: strided.read_hlo reads one")
    if not number(timeout, "timeout") >= 0:
        raise ValueError(f"timeout must be 0 or more, not {timeout!r}")
    check_generation(generation)
    top = None if top is None else whole(top, "top", 0)
    found = _found(module)
    return found if before is None else verified(found, before, generation, _found, top=top, timeout=timeout)


def _found(module: Module) -> LayoutCopies:
    flow = Dataflow(module)
    runs = executions(flow)
    changes = Changes(flow).found
    causes = Causes(flow, changes)
    total = bytes_of_program(flow, runs)
    found = [
        _copy(change, runs.get(change.instruction.computation, Executions(1, False)), causes, total)
        for change in changes.values()
    ]
    found.sort(key=lambda copy: (not copy.materialized, copy.fusion is not None, -copy.total_bytes))
    return LayoutCopies(found, module.name, total)


def _copy(change: Change, runs: Executions, causes: Causes, total: int) -> LayoutCopy:
    moved = byte_size(change.before) + byte_size(change.after)
    own = change.materialized and change.fusion is None
    share = moved * runs.times / total if own and total else 0.0
    cause, cure = causes.of(change)
    return LayoutCopy(
        instruction=change.instruction,
        before=change.before,
        after=change.after,
        bytes=moved,
        times=runs.times,
        times_known=runs.known,
        share=share,
        fusion=change.fusion,
        materialized=change.materialized,
        cause=cause,
        cure=cure,
    )
