"""Compiles all kernels of a part of the package, by running it once."""

from __future__ import annotations


def compile_part(part: str) -> None:
    """Run everything that a part does once, on tiny data, so that its kernels are compiled."""
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
