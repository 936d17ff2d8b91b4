"""Seeded generators of event logs, one for each kind of experiment in the papers."""

from nearcast.workloads.base import Workload
from nearcast.workloads.registry import WORKLOADS, generate

__all__ = ["WORKLOADS", "Workload", "generate"]
