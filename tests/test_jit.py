"""Kernels are compiled by one process, however many start together."""

import subprocess
import sys
from pathlib import Path

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
    started = [
        subprocess.Popen(
            [sys.executable, module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
