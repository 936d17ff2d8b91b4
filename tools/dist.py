"""Check what is to be published: the files in a folder, then each wheel in a fresh environment.

    python tools/dist.py dist

The tutorial is run as its page shows it, with the wheel and what it asks for installed and nothing
else but pytest. The clients alone have to stay small.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import sbom

ROOT = Path(__file__).parent.parent
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
CLIENT_BYTES = 30_000_000
"""How much `nearcast-client` and what it asks for may take on a disk."""


def main(folder: Path) -> None:
    """Check the metadata, the contents, and that it works."""
    (wheel,) = folder.glob("nearcast-*.whl")
    (client,) = folder.glob("nearcast_client-*.whl")
    (source,) = folder.glob("*.tar.gz")
    run("twine", "check", "--strict", str(wheel), str(client), str(source))
    # Kernels may be equal bytes (W002); the package and its laboratory are two (W009).
    run("check_wheel_contents", "--ignore", "W002,W009", str(wheel))
    run("check_wheel_contents", str(client))
    try_client(client)
    check_bill(wheel)
    with tempfile.TemporaryDirectory() as made:
        venv.create(made, with_pip=True)
        python = str(Path(made) / "bin" / "python")
        subprocess.run([python, *INSTALL, f"{wheel.resolve()}[server]", "pytest"], check=True)
        tests = ["tests/docs/test_pages.py", "-k", "tutorial"]
        alone = ["-c", "/dev/null", "--rootdir", str(ROOT), "--noconftest"]
        options = [*alone, "--import-mode=importlib", "-p", "no:cacheprovider"]
        # Helpers of the tests, and not the sources, which a path from outside may lead to.
        helpers = os.pathsep.join(str(ROOT / name) for name in ("tests/helpers", "tools"))
        subprocess.run(
            [python, "-m", "pytest", "-q", *options, *tests],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": helpers},
        )
    for file in (wheel, client, source):
        sys.stdout.write(f"{file}  {file.stat().st_size / 1e6:.1f} MB\n")


def try_client(wheel: Path) -> None:
    """Install the clients alone, import them, and add up what was installed."""
    with tempfile.TemporaryDirectory() as made:
        venv.create(Path(made) / "empty", with_pip=True)
        python = str(Path(made) / "empty" / "bin" / "python")
        target = Path(made) / "packages"
        subprocess.run([python, *INSTALL, "--target", str(target), str(wheel)], check=True)
        subprocess.run([python, "-c", "import nearcast_client"], check=True, cwd=target)
        size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    sys.stdout.write(f"nearcast-client installed: {size / 1e6:.1f} MB\n")
    if size > CLIENT_BYTES:
        raise SystemExit(f"nearcast-client takes more than {CLIENT_BYTES / 1e6:.0f} MB")


def check_bill(wheel: Path) -> None:
    """Check that the wheel has a bill of materials, which names its version."""
    _, version, *_ = wheel.name.split("-")
    name = f"nearcast-{version}.dist-info/sboms/{sbom.FILE}"
    with zipfile.ZipFile(wheel) as packed:
        bill = json.loads(packed.read(name))
    if bill["metadata"]["component"]["version"] != version:
        raise ValueError(f"{wheel.name}: {name} is of another version")


def run(module: str, *arguments: str) -> None:
    """Run a module of this environment."""
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
