"""What work costs a worker on Spark, in nanoseconds of CPU.

More than it costs its index alone (`partition.load`): rows lie in mapped files, what is found is
compared with sequence numbers and owners, and updates are written.
"""

from __future__ import annotations

from nearcast.partition.load import WorkCosts

COSTS = WorkCosts(check_ns=20.0, message_ns=500.0, operation_ns=5000.0, update_ns=250.0)
"""Fitted to the CPU of tasks, robustly: half of them are within 6 % of what these say.

Besides, a task takes 5 ms, whatever it does.
"""

FIRST = COSTS._replace(operation_ns=400.0)
"""For a first plan: the operations it is made from may be a population that comes only once."""
