"""Reads the compiler's texts about the memory usage of a program.

- The *memory usage report*, in a dump or in the log of a program that does not fit (`tables`).
- The message of an exception (`messages`).
- The list of the largest allocations that compilers printed until about 2025, and that of XLA for GPU (`largest`).

Numbers such as "22.39G" are rounded; they are stored with the range of exact values (`values`). `logs` extracts such a
text from a log.
"""

from __future__ import annotations

from strided.memory.usage_text.messages import is_of_runtime
from strided.memory.usage_text.read import read_usage_text, usage_in
from strided.memory.usage_text.values import SPACES, Row, Size, Space, UsageText

__all__ = ["SPACES", "Row", "Size", "Space", "UsageText", "is_of_runtime", "read_usage_text", "usage_in"]
