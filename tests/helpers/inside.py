"""Calls from tests to functions that only kernels can call."""

from __future__ import annotations

from typing import Any, cast

import numba

from nearcast._compiler import OUTER


def from_python(function: Any) -> Any:
    """A kernel, compiled for this process alone, that passes all it gets to `function`."""
    njit = cast("Any", numba).njit(no_cfunc_wrapper=True, pipeline_class=OUTER)
    return njit(lambda *given: function(*given))
