"""Bytecode that was cut off as it was written: where the disk was full, Python keeps what it had room for.

It is read before its source is, until somebody removes it.
"""

from __future__ import annotations


def cut_off(error: BaseException) -> str | None:
    """What is said of an error if an import raised it because of such a file, which is named; else None."""
    trace = error.__traceback__ if isinstance(error, EOFError) else None
    while trace is not None:
        if path := trace.tb_frame.f_locals.get("bytecode_path"):  # importlib's, which tells in no other way
            return f"Python wrote only a part of {path!r}, as on a full disk: remove it"
        trace = trace.tb_next
    return None
