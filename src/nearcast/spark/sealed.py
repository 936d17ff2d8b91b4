"""Small JSON files that carry a checksum: what was damaged is not taken for something else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

_CHECK = "check"


def seal(facts: Mapping[str, Any]) -> bytes:
    """Write facts as JSON, with the checksum of what they are without it."""
    text = json.dumps(facts)
    return json.dumps(dict(facts) | {_CHECK: zlib.crc32(text.encode())}).encode()


def unseal(data: bytes) -> dict[str, Any]:
    """Read what `seal` wrote; a ValueError says what is wrong with anything else."""
    facts = json.loads(data)
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    if facts.pop(_CHECK, None) != zlib.crc32(json.dumps(facts).encode()):
        raise ValueError("its checksum is wrong")
    return facts
