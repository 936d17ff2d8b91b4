"""The parts of the package that kernels are built for, by name; this loads nothing of them."""

from nearcast.engine.names import INDEX_NAMES

FIRST = ("engine", "spark")
"""What people use unless they ask for more: the engine with its own index, and tasks on Spark."""

PARTS = (*FIRST, *(name for name in INDEX_NAMES if name not in ("auto", "rarest-term", "scan")))
"""All of them: beside these, each index of the papers."""
