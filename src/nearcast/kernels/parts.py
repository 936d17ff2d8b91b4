"""What makes each part of the package compile all its kernels."""

from __future__ import annotations

from nearcast.kernels.rehearsal import rehearse


def compile_part(part: str) -> None:
    """Let a part meet everything once, on next to nothing."""
    if part == "spark":
        from nearcast.spark.warm import warm_tasks

        warm_tasks()
    else:
        rehearse("rarest-term" if part == "engine" else part)
