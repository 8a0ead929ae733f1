"""What does a program copy only to change layouts, why, and what would avoid it?

for copy in sd.layout_copies(sd.read_hlo("module_0000.jit_f.after_optimizations.txt")):
    print(copy)
"""

from __future__ import annotations

from strided.memory.copies.layout_copy import Cause, Cure, LayoutCopies, LayoutCopy
from strided.memory.copies.search import layout_copies

__all__ = ["Cause", "Cure", "LayoutCopies", "LayoutCopy", "layout_copies"]
