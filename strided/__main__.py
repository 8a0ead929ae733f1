"""``python -m strided`` is the command ``strided``."""

from __future__ import annotations

from strided.cli import main

main()
