"""Build a wheel that includes its kernels, compiled for this platform and this Python.

    python tools/wheel.py [FOLDER]

Kernels are compiled in a separate folder, for each level of the processor family that this machine
can run: on a processor with AVX-512 for those with it and for those without. The wheel has a bill
of materials too (PEP 770).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path

import sbom
from nearcast import _kernel_files
from nearcast.kernels.names import FIRST

ROOT = Path(__file__).parent.parent


def main(target: Path) -> None:
    """Compile kernels and pack them."""
    with tempfile.TemporaryDirectory() as folder:
        made, packed = Path(folder) / "made", Path(folder) / "packed"
        for environment in [level.environment for level in _kernel_files.levels()] or [{}]:
            run(
                [sys.executable, "-m", "nearcast", "kernels", "build", *FIRST],
                NEARCAST_KERNELS=str(made),
                **environment,
            )
        pick(made / _kernel_files.stamp(), packed / "kernels" / _kernel_files.stamp())
        about = {
            "tag": numba_tag(),
            "dependencies": [f"{name}=={version(name)}" for name in ("numba", "llvmlite")],
        }
        (packed / "wheel.json").write_text(json.dumps(about))
        sbom.write(packed / sbom.FILE)
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "-w",
                str(target),
                str(ROOT),
            ],
            NEARCAST_WHEEL=str(packed),
        )
    for wheel in target.glob("*.whl"):
        sys.stdout.write(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB\n")


def pick(made: Path, packed: Path) -> None:
    """Take the kernels and what is said of them, without locks."""
    packed.mkdir(parents=True)
    for path in made.iterdir():
        if path.suffix in (_kernel_files.ENDING, _kernel_files.MARK, ".json"):
            shutil.copy(path, packed / path.name)


def numba_tag() -> str:
    """The Python and the platforms that the installed numba is for: kernels need it."""
    lines = (distribution("numba").read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")]
    python, abi, _ = tags[0].split("-")
    return "-".join([python, abi, ".".join(sorted(tag.split("-")[2] for tag in tags))])


def run(command: list[str], **environment: str) -> None:
    """Run a command with some variables set; what it says is shown."""
    subprocess.run(command, check=True, env=os.environ | environment)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute())
