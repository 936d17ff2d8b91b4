"""Kernels are compiled by one process, however many start together, and not more than needed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from nearcast._jit import inner, kernel, read_only

_MODULE = """
import sys

import numpy as np

from nearcast._jit import kernel


@kernel
def sorted_sum(values):
    return np.sort(values)[: len(values) // 2].sum()


sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
sorted_sum(np.arange(10.0))
sys.stdout.write(f"{sum(sorted_sum.stats.cache_misses.values())}\\n")
"""


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    """One compiles it, the others wait and read what it wrote."""
    module = tmp_path / "some_kernels.py"
    module.write_text(_MODULE)
    environment = os.environ | {"NEARCAST_KERNELS": str(tmp_path / "kernels")}
    started = [
        subprocess.Popen(
            [sys.executable, module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    compiled = [int(process.communicate()[0]) for process in started]
    assert sorted(compiled) == [0, 0, 1]


@kernel
def _added(values: Any, more: int) -> float:
    return float(values[0] + more)


@inner
def _by_flag(more: int, twice: bool) -> int:
    return 2 * more if twice else more


@kernel
def _calling(values: Any) -> float:
    once = _by_flag(3, False) + _by_flag(4, False)
    return _added(values, 1) + _added(values, 2) + once + _by_flag(5, True)


def test_constants_are_values_like_any_other_where_kernels_call_kernels() -> None:
    """One version is compiled for all of them, but of `inner` functions one for each flag."""
    calling, added, by_flag = cast("Any", (_calling, _added, _by_flag))
    assert _calling(np.zeros(1)) == 20.0
    calling.recompile()  # found on the disk, it would come without those that it calls
    assert (len(added.signatures), len(by_flag.signatures)) == (1, 2)


def test_arrays_of_any_kind_become_one_kind() -> None:
    """A kernel is compiled once for what can be written, what cannot, and what has gaps."""
    plain = np.arange(4.0)
    frozen, gaps = np.frombuffer(plain.tobytes()), np.arange(8.0)[::2]
    for given in (plain, frozen, gaps):
        assert read_only(given).tolist() == given.tolist()
        assert _calling(read_only(given)) == 20.0 + 2 * given[0]
    signatures = cast("Any", _calling).signatures
    assert len([each for each in signatures if not each[0].mutable]) == 1
    with pytest.raises(ValueError, match="read-only"):
        read_only(plain)[0] = 1.0
    plain[0] = 5.0  # whoever has it may still write
