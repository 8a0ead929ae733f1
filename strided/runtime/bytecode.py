"""Truncated bytecode files. If the disk is full, Python writes a truncated ``.pyc`` file.

Imports then fail until the file is removed, because Python reads it instead of the source.
"""

from __future__ import annotations


def cut_off(error: BaseException) -> str | None:
    """The message for an error that an import raised because of such a file; None for other errors."""
    trace = error.__traceback__ if isinstance(error, EOFError) else None
    while trace is not None:
        if path := trace.tb_frame.f_locals.get("bytecode_path"):  # a local of importlib; the error has no path
            return f"Python wrote only a part of {path!r}, as on a full disk: remove it"
        trace = trace.tb_next
    return None
