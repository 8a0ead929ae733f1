"""Assertions on the memory of a program."""

from __future__ import annotations

from typing import Any

from strided.memory.memory_report import memory_report
from strided.memory.report import check_expansion
from strided.runtime.argument_checks import number
from strided.wording import size_text


def assert_memory(
    module: Any,
    max_expansion: float | None = None,
    max_bytes: int | None = None,
    *,
    generation: str | None = None,
    space: int | str = 0,
) -> None:
    """Raise AssertionError if a program takes more memory than it should.

    Parameters
    ----------
    module : path, str, buffer, Module, or the result of ``jax.jit(f).lower(x).compile()``
        As for `strided.memory_report`, which reads it.
    max_expansion : float, optional
        The largest allowed ratio of a buffer's size to its size without padding. Buffers that waste at most 1 % of the
        peak are ignored.
    max_bytes : int, optional
        The most bytes that may be in use at the peak.
    generation, space
        As for `strided.memory_report`.

    Raises
    ------
    AssertionError
        A limit is exceeded. The message names the buffers, their source, and what would take less.
    ValueError
        Neither limit is given, or one is negative or not a number.
    OSError, UnsupportedError
        As for `strided.memory_report`.
    DumpError
        As for `strided.memory_report`; also if `max_expansion` is given for a text that lists no buffers.

    Examples
    --------
    >>> hlo = '''HloModule f, is_scheduled=true
    ...
    ... ENTRY %main (x: f32[1000,2]) -> f32[1000,2] {
    ...   ROOT %x = f32[1000,2]{1,0:T(8,128)} parameter(0)
    ... }
    ... '''
    >>> assert_memory(hlo, max_bytes=512_000)
    >>> assert_memory(hlo, max_expansion=1.5)
    Traceback (most recent call last):
    AssertionError: 1 buffer expands more than 1.5 times
    x: f32[1000,2]{1,0:T(8,128)}, 512,000 bytes, 64 x  argument x
      layout: f32[1000,2]{1,0:T(8,128)} -> f32[1000,2]{0,1:T(2,128)} saves 492.0KiB (computed): jax.jit(f, ...
    """
    if max_expansion is None and max_bytes is None:
        raise ValueError("nothing to assert: give max_expansion, max_bytes or both")
    if max_expansion is not None:
        check_expansion(max_expansion)
    if max_bytes is not None and not number(max_bytes, "max_bytes") >= 0:
        raise ValueError(f"max_bytes must be a number of at least 0, not {max_bytes}")
    report = memory_report(module, generation=generation, space=space)
    problems = []
    if max_bytes is not None and report.peak_bytes > max_bytes:
        bound = " at most" if "peak_bytes" in report.bounds else ""
        problems.append(
            f"the peak is{bound} {report.peak_bytes:,} bytes ({size_text(report.peak_bytes)}), not {max_bytes:,}"
        )
    if max_expansion is not None and (expanded := report.expanded(max_expansion)):
        count = "1 buffer expands" if len(expanded) == 1 else f"{len(expanded)} buffers expand"
        problems.append(f"{count} more than {max_expansion:g} times")
        for buffer in expanded:
            problems += [str(buffer), *(f"  {cure}" for cure in buffer.cures[:1])]
    if problems:
        raise AssertionError("\n".join(problems))
