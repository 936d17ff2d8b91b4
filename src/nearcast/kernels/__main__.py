"""`python -m nearcast.kernels PART...`: compiles the kernels of parts and marks each as done."""

from __future__ import annotations

import gc
import sys


def main(parts: list[str]) -> None:
    """Compile parts without garbage collection: the process is short and allocates much."""
    gc.disable()
    from nearcast import _kernel_files
    from nearcast.kernels.parts import compile_part

    for part in parts:
        compile_part(part)
        _kernel_files.mark(part)


if __name__ == "__main__":
    main(sys.argv[1:])
