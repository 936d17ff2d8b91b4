"""Run tests with the lowest version of everything that pyproject.toml asks for.

    python tools/lowest.py [PYTEST ARGUMENTS]

They are installed into a fresh environment, with the package from its sources. Kernels are compiled
for that numba, in a folder of their own. Without arguments all tests are run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    """Install, say what was installed, and test it; returns the exit code of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "venv"
        venv.create(made, with_pip=True)
        python = str(made / "bin" / "python")
        install(python, Path(folder) / "lowest.txt")
        environment = os.environ | {
            "NEARCAST_KERNELS": str(Path(folder) / "kernels"),
            "PYTHONPATH": str(ROOT / "src"),
        }
        run([python, "-m", "nearcast", "kernels", "build", "--all"], environment)
        tests = [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode


def install(python: str, lowest: Path) -> None:
    """Find the lowest versions that go together, and install them."""
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "uv"])
    uv = [python, "-m", "uv", "pip"]
    extras = ["--extra", "dev", "--extra", "otel"]
    found = ["--resolution", "lowest-direct", "--no-annotate", "--no-header", "--quiet"]
    run([*uv, "compile", "pyproject.toml", *extras, *found, "--output-file", str(lowest)])
    sys.stdout.write(lowest.read_text())
    sys.stdout.flush()
    run([*uv, "install", "--quiet", "--python", python, "--requirement", str(lowest)])


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command in the folder of the sources."""
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
