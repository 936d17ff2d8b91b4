"""The process that Spark forks its Python workers from, with everything loaded.

Set as `spark.python.daemon.module`. PySpark starts it once on a machine and forks a worker from it
whenever it needs one, so whatever is loaded here is there from a worker's first task on, and its
memory is shared. PySpark also collects garbage after every task, which walks over every object
that any library has made; what is frozen here is left out of that.

In a session that was started without it, `settle` does the same for one process, once.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module

_LIBRARIES = ("numpy", "pandas", "pyarrow.parquet", "numba", "msgspec", "pyspark.worker")
_SECONDS_FOR_THREADS = 5.0
_settled = False


def _warm_tasks() -> None:
    """Load kernels; if there are none, a task gets them, which knows where to look."""
    from nearcast._kernel_files import at_hand
    from nearcast.spark.warm import warm_tasks

    if at_hand("spark"):
        warm_tasks()


STEPS: list[Callable[[], object]] = [_warm_tasks]
"""What is done once, so that its kernels are loaded: each on its own, in this order.

None may run a kernel on OpenMP threads, which do not work in a fork of a process that had them.
"""


def warm() -> list[str]:
    """Load and compile what tasks need; return the errors, which a task will meet again."""
    troubles = []
    loading: list[Callable[[], object]] = [partial(import_module, name) for name in _LIBRARIES]
    for step in loading + STEPS:
        try:
            step()
        except (Exception, SystemExit):
            troubles.append(traceback.format_exc())
    return troubles


def freeze() -> None:
    """Collect garbage, and exclude all remaining objects from later collections."""
    gc.collect()
    gc.freeze()


def settle() -> None:
    """Warm up and freeze, once in a process; at no cost where the daemon has done it."""
    global _settled
    if not _settled:
        _settled = True
        warm()
        freeze()


@contextmanager
def _standard_output_kept() -> Iterator[None]:
    """Send what is printed meanwhile to standard error: Spark reads a port from standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _wait_for_threads() -> None:
    """Let threads end that warming up has started: a fork takes none of them along."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(_SECONDS_FOR_THREADS)


def _tidy(pid: int) -> None:
    """Remove what workers kept on this node, when Spark stops or is gone."""
    if os.getpid() == pid:  # and not one of the workers, which end by the same way
        from nearcast.spark.workers.node_folders import remove_what_children_made

        remove_what_children_made()


def main() -> None:
    """Warm up, freeze, and fork workers for Spark until it says to stop."""
    from pyspark.daemon import manager

    with _standard_output_kept():
        # the copy of this module that tasks import, which is not the one that runs as a program
        from nearcast.spark import daemon as ours

        for trouble in ours.warm():
            sys.stderr.write(f"nearcast: a Python worker could not be warmed up:\n{trouble}")
        ours._settled = True
        _wait_for_threads()
    freeze()
    try:
        manager()
    finally:
        _tidy(os.getpid())


if __name__ == "__main__":
    main()
