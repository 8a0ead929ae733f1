"""Type aliases that several packages share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: A flat buffer.
Bytes: TypeAlias = npt.NDArray[np.uint8]
#: A table of offsets and counts, for kernels.
Table: TypeAlias = npt.NDArray[np.int64]
#: Element offsets.
Offsets: TypeAlias = npt.NDArray[np.int64]
#: A progress callback: called with the number of elements that were just read or written.
Progress: TypeAlias = Callable[[int], object]
