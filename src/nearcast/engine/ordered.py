"""Names in alphabetical order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Int32s


def in_order(
    ids: list[str] | pa.Array, owners: Int32s, count: int
) -> tuple[pa.StringArray, Int32s]:
    """The ids of some owners, of `count`, in order, and the rank of each owner there."""
    names = pa.array(ids, pa.string()) if isinstance(ids, list) else ids.cast(pa.string())
    order = pc.sort_indices(names).to_numpy()
    rank = np.empty(count, np.int32)
    rank[owners[order]] = np.arange(len(owners), dtype=np.int32)
    return names.take(pa.array(order)), rank
