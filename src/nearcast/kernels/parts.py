"""What makes each part of the package compile all its kernels."""

from __future__ import annotations


def compile_part(part: str) -> None:
    """Let a part meet everything once, on next to nothing."""
    match part:
        case "spark":
            from nearcast.spark.warm import warm_tasks

            warm_tasks()
        case "spark-topk":
            from nearcast.kernels.spark_topk import rehearse_mechanisms

            rehearse_mechanisms()
        case "planning":
            from nearcast_lab.rehearsal import rehearse_planning

            rehearse_planning()
        case "moving":
            from nearcast_lab.rehearsal import rehearse_moving

            rehearse_moving()
        case "topk":
            from nearcast_lab.rehearsal import rehearse_topk

            rehearse_topk()
        case _:
            from nearcast.kernels.rehearsal import rehearse

            rehearse("rarest-term" if part == "engine" else part)
