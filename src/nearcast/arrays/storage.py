"""Arrays on disk: a folder of `.npy` files with a description, read back by memory-mapping."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.errors import SourceError

_ABOUT = "about.json"


def save_arrays(
    folder: Path, kind: str, version: int, about: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and their description, and then let them take the place of what was there."""
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(fresh / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
    described = {"kind": kind, "version": version, "arrays": sorted(arrays), "about": dict(about)}
    (fresh / _ABOUT).write_text(json.dumps(described))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def load_arrays(
    folder: Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read a description and map its arrays; changes to them stay in this process."""
    try:
        described = json.loads((folder / _ABOUT).read_text())
        found = (described["kind"], described["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{folder}: not a saved {kind} ({error}); save it again") from None
    if found != (kind, version):
        raise SourceError(
            f"{folder}: holds {found[0]} of version {found[1]}, this reads {kind} of version "
            f"{version}; rebuild it from the subscriptions"
        )
    try:
        about: dict[str, Any] = described["about"]
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in described["arrays"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{folder}: damaged ({error}); rebuild it") from None
    return about, arrays
