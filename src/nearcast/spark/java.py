"""Where Java is, which Spark runs on.

`python -m nearcast.spark.java` shows what was found, or says how to get it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nearcast.errors import SetupError

LOWEST = 17
_TRIED_LONGEST = (17, 21)
"""Of several in the usual places these come first: all releases of Spark run on them."""

_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_WAYS = {
    "Debian or Ubuntu": "apt install openjdk-17-jre-headless",
    "macOS": "brew install openjdk@17",
    "elsewhere": "sdk install java 17.0.15-tem (sdkman.io)",
}
_SECONDS_TO_ANSWER = 30


class Java(NamedTuple):
    """One installation: its folder, as in JAVA_HOME, and its version, such as 17."""

    home: Path
    version: int


def _feature_version(text: str) -> int | None:
    """Read 17 from `17.0.15`, 8 from `1.8.0_292`."""
    found = re.search(r'"?(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    return int(second) if first == 1 and second else first


def _version(home: Path) -> int | None:
    """Read the version from the file that says it, or else ask the program itself."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r'^JAVA_VERSION="?([^"\n]+)', text, re.MULTILINE)
    if found:
        return _feature_version(found[1])
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the Java that was asked about
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return _feature_version(found[1]) if found else None


def _installed(home: Path) -> Java | None:
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    version = _version(home)
    return None if version is None else Java(home, version)


def _on_path(environment: Mapping[str, str]) -> Path | None:
    program = shutil.which("java", path=environment.get("PATH", ""))
    return None if program is None else Path(program).resolve().parent.parent


def _in_usual_places(places: Iterable[str]) -> list[Java]:
    """Give what is there, what Spark has been run on the longest first."""
    found: dict[Path, Java] = {}
    for place in places:
        pattern = Path(place).expanduser()
        for home in sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))):
            java = _installed(home)
            if java is not None:
                found.setdefault(home.resolve(), java)
    return sorted(found.values(), key=lambda java: (java.version not in _TRIED_LONGEST, java))


def _candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Java]:
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    program = _on_path(environment)
    if program is not None:
        homes.append(program)
    for home in homes:
        java = _installed(home)
        if java is not None:
            yield java
    yield from _in_usual_places(places)


def find_java(
    environment: Mapping[str, str] | None = None, places: Iterable[str] = _USUAL_PLACES
) -> Java:
    """Find Java 17 or newer: in JAVA_HOME, on the PATH, or in the usual places.

    One that is too old is passed over.
    """
    too_old: list[str] = []
    for java in _candidates(os.environ if environment is None else environment, places):
        if java.version >= LOWEST:
            return java
        too_old.append(f"Java {java.version} in {java.home}")
    ways = "; ".join(f"{system}: {command}" for system, command in _WAYS.items())
    found = f"found only {', '.join(dict.fromkeys(too_old))}" if too_old else "found none"
    raise SetupError(
        f"Spark needs Java {LOWEST} or newer; {found} (looked in JAVA_HOME, on the PATH and in the "
        f"usual places); install it ({ways}), or set JAVA_HOME to where it is"
    )


def use_java() -> Java:
    """Find Java and let the Spark that this process will start run on it."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def main() -> int:
    """Show which Java would be used, or how to get one."""
    try:
        java = find_java()
    except SetupError as error:
        sys.stderr.write(f"nearcast: {error}\n")
        return 2
    sys.stdout.write(f"Java {java.version} in {java.home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
