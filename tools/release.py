"""Make the tag of a release, and its notes from the changelog.

    python tools/release.py 0.2.0 [--dry-run]

The tree has to be clean, and `_version.py` and `CHANGELOG.md` to have the version. Nothing is sent
anywhere: push the tag, and upload what `make dist` made, when all is well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTES = ROOT / "out" / "release-notes.md"


def main(arguments: list[str]) -> None:
    """Check, write the notes, tag."""
    dry = "--dry-run" in arguments
    versions = [each for each in arguments if each != "--dry-run"]
    if len(versions) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", versions[0]):
        raise SystemExit("give one version, such as 0.2.0")
    (version,) = versions
    stated = (ROOT / "src" / "nearcast" / "_version.py").read_text("utf-8")
    if f'"{version}"' not in stated:
        raise SystemExit(f"src/nearcast/_version.py has another version than {version}")
    notes = notes_of((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if not dry:
        if git("status", "--porcelain"):
            raise SystemExit("there are changes that are not committed")
        git("tag", "--annotate", f"v{version}", "--message", f"Nearcast {version}\n\n{notes}")
    NOTES.parent.mkdir(exist_ok=True)
    NOTES.write_text(notes, "utf-8")
    sys.stdout.write(f"{NOTES.relative_to(ROOT)}\n" + ("" if dry else f"tag v{version}\n"))


def notes_of(changelog: str, version: str) -> str:
    """The section of a version, which has to have a date."""
    pattern = rf"^## {re.escape(version)} \((.+?)\)\n+(.*?)(?=^## |\Z)"
    found = re.search(pattern, changelog, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section '## {version} (DATE)'")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", found[1]):
        raise SystemExit(f"CHANGELOG.md: {version} is {found[1]!r}; write the date, as 2027-01-31")
    return found[2].strip() + "\n"


def git(*arguments: str) -> str:
    """Run git in the checkout, and return what it says."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
