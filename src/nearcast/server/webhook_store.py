"""Webhooks and dead letters, in `DIR/webhooks.db`.

Each webhook has a place in the log of updates: updates after it are still to be delivered. After
a crash an update may be delivered twice, under the same `webhook-id`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from nearcast.errors import SourceError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS webhooks (
    tenant TEXT NOT NULL, subscription TEXT NOT NULL, url TEXT NOT NULL, secret TEXT NOT NULL,
    place INTEGER NOT NULL, PRIMARY KEY (tenant, subscription)
) STRICT;
CREATE TABLE IF NOT EXISTS letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, subscription TEXT NOT NULL,
    update_id INTEGER NOT NULL, body BLOB NOT NULL, error TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS letters_of ON letters (tenant, id);
"""


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address for the updates of a subscription; all up to `place` have been delivered."""

    tenant: str
    subscription: str
    url: str
    secret: str
    place: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An update that could not be delivered."""

    id: int
    subscription: str
    update_id: int
    body: bytes
    error: str
    at: float


class WebhookStore:
    """All webhooks of a server, and its dead letters."""

    def __init__(self, path: Path | None) -> None:
        try:
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, check_same_thread=False, isolation_level=None
            )
            if path is not None:
                path.chmod(0o600)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise SourceError(f"{path}: cannot keep webhooks here ({error})") from None
        self._lock = Lock()

    def all(self) -> list[Webhook]:
        """Every webhook of every tenant."""
        return [
            Webhook(*row)
            for row in self._run("SELECT tenant, subscription, url, secret, place FROM webhooks")
        ]

    def find(self, tenant: str, subscription: str) -> Webhook | None:
        """The webhook of a subscription."""
        rows = self._run(
            "SELECT tenant, subscription, url, secret, place FROM webhooks "
            "WHERE tenant = ? AND subscription = ?",
            (tenant, subscription),
        )
        return Webhook(*rows[0]) if rows else None

    def put(self, hook: Webhook) -> None:
        """Add a webhook, or replace the one of its subscription."""
        row = (hook.tenant, hook.subscription, hook.url, hook.secret, hook.place)
        self._run("INSERT OR REPLACE INTO webhooks VALUES (?, ?, ?, ?, ?)", row)

    def remove(self, tenant: str, subscription: str) -> bool:
        """Remove a webhook, and return whether there was one."""
        return bool(
            self._run(
                "DELETE FROM webhooks WHERE tenant = ? AND subscription = ? RETURNING 1",
                (tenant, subscription),
            )
        )

    def delivered(self, hook: Webhook, place: int) -> None:
        """Record that all updates up to this one have been delivered, or given up."""
        self._run(
            "UPDATE webhooks SET place = ? WHERE tenant = ? AND subscription = ?",
            (place, hook.tenant, hook.subscription),
        )

    def add_dead_letter(
        self, hook: Webhook, place: int, body: bytes, error: str, at: float
    ) -> None:
        """Store an update that could not be delivered."""
        self._run(
            "INSERT INTO letters (tenant, subscription, update_id, body, error, at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (hook.tenant, hook.subscription, place, body, error, at),
        )

    def letters(self, tenant: str, after: int, limit: int) -> list[DeadLetter]:
        """Dead letters after one, oldest first."""
        rows = self._run(
            "SELECT id, subscription, update_id, body, error, at FROM letters "
            "WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
            (tenant, after, limit),
        )
        return [DeadLetter(*row) for row in rows]

    def discard(self, tenant: str, id: int) -> bool:
        """Remove a dead letter, and return whether there was one."""
        return bool(
            self._run("DELETE FROM letters WHERE tenant = ? AND id = ? RETURNING 1", (tenant, id))
        )

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _run(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()
