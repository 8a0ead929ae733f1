"""Names for types that several packages share: kinds of ndarrays, and what is told of progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: A flat buffer.
Bytes: TypeAlias = npt.NDArray[np.uint8]
#: Offsets and counts, for kernels.
Table: TypeAlias = npt.NDArray[np.int64]
#: Offsets of elements, in elements.
Offsets: TypeAlias = npt.NDArray[np.int64]
#: Called with the number of elements that have just been read or written.
Progress: TypeAlias = Callable[[int], object]
