"""Workloads, benchmarks, experiments, simulators, and designs that are only compared."""
