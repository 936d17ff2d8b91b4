"""`python -m nearcast.kernels PART...`: compiles the kernels of parts and marks each as done.

With `--shared=FOLDER` first, processes that name the same folder divide the parts among them.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

_SHARED = "--shared="


def main(arguments: list[str]) -> None:
    """Compile parts without garbage collection: the process is short and allocates much.

    For the same reason it ends at once, without taking apart what it allocated.
    """
    gc.disable()
    from nearcast import _kernel_files
    from nearcast.kernels.parts import compile_part

    shared = [Path(each.removeprefix(_SHARED)) for each in arguments if each.startswith(_SHARED)]
    for part in arguments[len(shared) :]:
        if all(_taken(folder, part) for folder in shared):
            compile_part(part)
            _kernel_files.mark(part)


def _taken(folder: Path, part: str) -> bool:
    """Take a part, unless another process has; who has it is written down."""
    try:
        with (folder / part).open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)
