"""Seeded generators of event logs, one for each kind of experiment in the papers."""

from nearcast_lab.workloads.base import Workload
from nearcast_lab.workloads.registry import WORKLOADS, generate

__all__ = ["WORKLOADS", "Workload", "generate"]
