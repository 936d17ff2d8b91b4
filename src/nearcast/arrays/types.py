"""Names for kinds of numpy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Shorts = npt.NDArray[np.uint16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Float32s = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
