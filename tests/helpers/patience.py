"""How tests wait for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 180.0
"""More means that it hangs: a busy machine with all kernels still to compile is no defect."""

_PAUSE_S = 0.01  # asking without a pause takes the processor from what is waited for


def wait_until(there: Callable[[], object], what: str | Callable[[], str]) -> None:
    """Ask until something is there; `what` it is, or what to report if it does not come."""
    until = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > until:
            missing = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {PATIENCE_S:.0f} s: {missing}")
        time.sleep(_PAUSE_S)
