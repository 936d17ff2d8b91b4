"""The parts of the package that kernels are built for, by name; this loads nothing of them."""

from nearcast.engine.names import INDEX_NAMES

FIRST = ("engine", "spark")
"""What people use unless they ask for more: the engine with its own index, and tasks on Spark."""

_INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "rarest-term", "scan")]
PARTS = (*FIRST, "spark-topk", "planning", "moving", "topk", *_INDEXES)
"""All of them: beside these, what spreads top-k over many workers, what plans, designs that are
compared for moving subscriptions and for top-k, and each index of the papers."""
