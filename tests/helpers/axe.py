"""axe-core, the checker of accessibility: fetched from the npm registry once, and kept."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page

_URL = "https://registry.npmjs.org/axe-core/-/axe-core-4.14.0.tgz"
_SHA_512 = (
    "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
)
_KEPT = Path(__file__).parents[2] / "out" / "axe-4.14.0.min.js"


def axe_source() -> str:
    """The program; without a copy or a registry the test is skipped."""
    if not _KEPT.exists():
        try:
            packed = httpx.get(_URL, timeout=20.0).raise_for_status().content
        except httpx.HTTPError as error:
            pytest.skip(f"axe-core cannot be fetched: {error}")
        assert base64.b64encode(hashlib.sha512(packed).digest()).decode() == _SHA_512
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            _KEPT.parent.mkdir(parents=True, exist_ok=True)
            _KEPT.write_bytes(member.read())
    return _KEPT.read_text("utf-8")


def violations(page: Page) -> list[str]:
    """What axe has against a page as it is now: the rule, and the elements."""
    page.evaluate(axe_source())
    found: dict[str, Any] = page.evaluate("() => axe.run()")
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        + "; ".join(node["html"][:120] for node in each["nodes"])
        for each in found["violations"]
    ]
