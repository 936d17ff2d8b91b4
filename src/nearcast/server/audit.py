"""The audit log: who did what to the server itself, a line of JSON each, in `DIR/audit.jsonl`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger("nearcast")
NAME = "audit.jsonl"


class AuditLog:
    """Appends to the audit log of a server; without a folder it keeps nothing."""

    def __init__(self, data: Path | None) -> None:
        self._path = None if data is None else data / NAME

    def write(self, act: str, by: str, tenant: str, **more: object) -> None:
        """Add an act; each is one write, so that several processes may append."""
        if self._path is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = msgspec.json.encode({"at": at, "act": act, "by": by, "tenant": tenant, **more})
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            log.error("act is not audited", act=act, by=by, reason=str(error))
