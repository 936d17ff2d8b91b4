"""`DIR/webhooks.db`, where earlier releases kept the webhooks of all tenants.

What it has of a tenant goes into the tenant's own file when that is opened. The file is removed
when it is empty.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nearcast.engine import Engine
from nearcast.errors import SourceError
from nearcast.store.webhooks import DeadLetter, Webhook


class EarlierWebhooks:
    """The webhooks and dead letters that are still in the file of an earlier release."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def tenants(self) -> list[str]:
        """The tenants that have something in it."""
        if self._path is None or not self._path.is_file():
            return []
        try:
            with closing(self._open()) as database:
                rows = database.execute(
                    "SELECT tenant FROM webhooks UNION SELECT tenant FROM letters"
                )
                return [tenant for (tenant,) in rows]
        except sqlite3.Error as error:
            raise self._problem(error) from None

    def move(self, tenant: str, engine: Engine) -> None:
        """Put what belongs to a tenant into the file of its engine."""
        if tenant not in self.tenants():
            return
        try:
            with closing(self._open()) as database:
                hooks = database.execute(
                    "SELECT subscription, url, secret, place FROM webhooks WHERE tenant = ?",
                    (tenant,),
                )
                letters = database.execute(
                    "SELECT id, subscription, update_id, body, error, at FROM letters "
                    "WHERE tenant = ?",
                    (tenant,),
                )
                engine.webhooks.adopt(
                    [hook for row in hooks if engine.get((hook := Webhook(*row)).subscription)],
                    [DeadLetter(*row) for row in letters],
                )
                database.execute("DELETE FROM webhooks WHERE tenant = ?", (tenant,))
                database.execute("DELETE FROM letters WHERE tenant = ?", (tenant,))
        except sqlite3.Error as error:
            raise self._problem(error) from None
        if self._path is not None and not self.tenants():
            for beside in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + beside).unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        assert self._path is not None  # noqa: S101 - asked before
        return sqlite3.connect(self._path, isolation_level=None)

    def _problem(self, error: sqlite3.Error) -> SourceError:
        return SourceError(f"{self._path}: webhooks cannot be read ({error}); check the file")
