"""Names for kinds of ndarrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: A flat buffer.
Bytes: TypeAlias = npt.NDArray[np.uint8]
#: Offsets and counts, for kernels.
Table: TypeAlias = npt.NDArray[np.int64]
#: Offsets of elements, in elements.
Offsets: TypeAlias = npt.NDArray[np.int64]
