"""The command line: one module for each command, which prints what the package returns.

The exit code is 0, 2 for every error, 130 after Ctrl-C, and 128 plus the number of any other signal. Errors are one or
two lines on standard error.
"""

from __future__ import annotations

from strided.cli.run import main

__all__ = ["main"]
