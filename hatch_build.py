"""Lets a wheel bring compiled kernels and a bill of materials, as `make wheel` has made them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface[Any]):
    """Packs the kernels of the folder that NEARCAST_WHEEL names; without one, the wheel is plain.

    Such a wheel is for one Python and one platform, and asks for the numba that made its kernels.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernels, the tag, the exact dependencies and the bill of materials."""
        del version
        named = os.environ.get("NEARCAST_WHEEL")
        if not named or self.target_name != "wheel":
            return
        folder = Path(named)
        about = json.loads((folder / "wheel.json").read_text())
        build_data["pure_python"] = False
        build_data["tag"] = about["tag"]
        build_data["dependencies"] = about["dependencies"]
        build_data["sbom_files"] += [str(path) for path in folder.glob("*.cdx.json")]
        build_data["force_include"][str(folder / "kernels")] = "nearcast/_kernels"
