"""Names of the parts of the package that have kernels, without importing them."""

from nearcast.index_names import INDEX_NAMES

FIRST = ("engine", "spark")
"""Parts that are built by default: the engine with its own index, and tasks on Spark."""

_INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "rarest-term", "scan")]
PARTS = (*FIRST, "spark-topk", "planning", "moving", "topk", *_INDEXES)
"""All parts: also top-k on many workers, planning, the compared designs for moving subscriptions
and for top-k, and each index of the papers."""
