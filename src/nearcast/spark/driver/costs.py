"""What work costs a worker on Spark, in nanoseconds of CPU.

It is more than the index alone costs (`partition.load`): rows are in mapped files, matches are
compared with sequence numbers and owners, and updates are written.
"""

from __future__ import annotations

from nearcast.partition.load import WorkCosts

COSTS = WorkCosts(check_ns=20.0, message_ns=500.0, operation_ns=5000.0, update_ns=250.0)
"""Fitted robustly to the CPU time of tasks: half of them are within 6 % of this model.

In addition a task takes 5 ms, whatever it does.
"""

FIRST = COSTS._replace(operation_ns=400.0)
"""For a first plan: its operations may be an initial population that is never repeated."""
