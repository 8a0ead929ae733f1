"""The command line: one module for each command.

The exit code is 0 for success, 1 for a negative answer (such as a mismatch that `diff` finds), 2 for an error, 130
after Ctrl-C, and 128 plus its number for any other signal. An error takes one or two lines on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from strided.cli.interruption import interruptible
from strided.runtime.command_start import import_problem
from strided.runtime.missing import advising

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (by default `sys.argv`) and end the process."""
    with interruptible():
        try:
            with advising("the command line"):
                from strided.cli.run import run  # here, because Ctrl-C may arrive during the import
        except Exception as error:
            if (problem := import_problem(error)) is None:
                raise
            if sys.stderr is not None:
                sys.stderr.write(f"strided: {problem}\n")
            sys.exit(2)
        run(arguments)
