"""`python -m nearcast.kernels PART`: compile what a part needs, and note that it is done."""

from __future__ import annotations

import gc
import sys


def main(part: str) -> None:
    """Rehearse a part with the garbage collector off: a compiler makes much, and ends soon."""
    gc.disable()
    from nearcast import _kernel_files
    from nearcast.kernels.parts import compile_part

    compile_part(part)
    _kernel_files.mark(part)


if __name__ == "__main__":
    main(sys.argv[1])
