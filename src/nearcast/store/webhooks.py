"""Webhooks of subscriptions, and updates that no webhook took (dead letters).

They are in the file of the engine, so that a webhook ends in the same commit as its subscription.
Each has a place in the log of updates: updates after it are still to be delivered.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcast.errors import StoreError
from nearcast.store.connect import open_reader, transaction
from nearcast.store.schema import WEBHOOK_TABLES

STATEMENTS = {
    "put webhook": "INSERT OR REPLACE INTO webhook VALUES (?, ?, ?, ?)",
    "adopt webhook": "INSERT OR IGNORE INTO webhook VALUES (?, ?, ?, ?)",
    "remove webhook": "DELETE FROM webhook WHERE subscription = ?",
    "reach": "UPDATE webhook SET place = max(place, ?) WHERE subscription = ?",  # in old archives
    "reach by": "UPDATE webhook SET place = max(place, ?) "
    "WHERE subscription = ? AND url = ? AND secret = ?",
    "adopt letter": "INSERT OR IGNORE INTO dead_letter VALUES (?, ?, ?, ?, ?, ?)",
    "put letter": "INSERT INTO dead_letter (subscription, update_id, body, error, at) "
    "VALUES (?, ?, ?, ?, ?)",
    "discard letter": "DELETE FROM dead_letter WHERE id = ?",
}
"""What changes webhooks and dead letters other than the end of a subscription."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address for the updates of a subscription; all up to `place` have been delivered."""

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


class WebhookTable:
    """The webhooks and dead letters of one engine; used by the thread that uses the engine."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        commit: Callable[[], AbstractContextManager[None]],
        run: Callable[[str, Iterable[Sequence[Any]]], int],
    ) -> None:
        self._connection = connection
        self._commit = commit
        self._run = run
        self._ended: list[str] = []

    def all(self) -> list[Webhook]:
        """Every webhook."""
        rows = self._connection.execute("SELECT subscription, url, secret, place FROM webhook")
        return [Webhook(*row) for row in rows]

    def count(self) -> int:
        """How many webhooks there are."""
        return int(self._connection.execute("SELECT count(*) FROM webhook").fetchone()[0])

    def find(self, subscription: str) -> Webhook | None:
        """The webhook of a subscription."""
        row = self._connection.execute(
            "SELECT subscription, url, secret, place FROM webhook WHERE subscription = ?",
            (subscription,),
        ).fetchone()
        return None if row is None else Webhook(*row)

    def put(self, hook: Webhook) -> None:
        """Add a webhook, or replace the one of its subscription."""
        with self._commit():
            self._run("put webhook", [(hook.subscription, hook.url, hook.secret, hook.place)])

    def adopt(self, hooks: Iterable[Webhook], letters: Iterable[DeadLetter]) -> None:
        """Add webhooks and dead letters that were kept elsewhere; those that are here stay."""
        with self._commit():
            self._run(
                "adopt webhook",
                [(hook.subscription, hook.url, hook.secret, hook.place) for hook in hooks],
            )
            self._run(
                "adopt letter",
                [
                    (each.id, each.subscription, each.update_id, each.body, each.error, each.at)
                    for each in letters
                ],
            )

    def remove(self, subscription: str) -> bool:
        """Remove a webhook, and return whether there was one."""
        with self._commit():
            return self._run("remove webhook", [(subscription,)]) > 0

    def end(self, subscriptions: Collection[str]) -> None:
        """Remove the webhooks of subscriptions in the open transaction."""
        if subscriptions and self.count():
            for subscription in subscriptions:
                found = self._connection.execute(STATEMENTS["remove webhook"], (subscription,))
                if found.rowcount:
                    self._ended.append(subscription)

    def take_ended(self) -> list[str]:
        """Give, once, the subscriptions whose webhooks `end` has removed."""
        ended, self._ended = self._ended, []
        return ended

    def reach(self, places: Iterable[tuple[Webhook, int]]) -> None:
        """Record the updates up to which webhooks have delivered, unless others replaced them."""
        with self._commit():
            self._run("reach by", [_reached(hook, place) for hook, place in places])

    def give_up(self, hook: Webhook, place: int, body: bytes, error: str, at: float) -> None:
        """Store an update that could not be delivered, and go on after it."""
        with self._commit():
            self._run("put letter", [(hook.subscription, place, body, error, at)])
            self._run("reach by", [_reached(hook, place)])

    def letters(self, after: int, limit: int) -> list[DeadLetter]:
        """Dead letters after one, oldest first."""
        rows = self._connection.execute(
            "SELECT id, subscription, update_id, body, error, at FROM dead_letter "
            "WHERE id > ? ORDER BY id LIMIT ?",
            (after, limit),
        )
        return [DeadLetter(*row) for row in rows]

    def discard(self, id: int) -> bool:
        """Remove a dead letter, and return whether there was one."""
        with self._commit():
            return self._run("discard letter", [(id,)]) > 0


def _reached(hook: Webhook, place: int) -> tuple[int, str, str, str]:
    return place, hook.subscription, hook.url, hook.secret


def may_have_webhooks(path: Path) -> bool:
    """Whether the file of an engine has webhooks, or cannot be read."""
    try:
        with closing(open_reader(path)) as connection:
            query = "SELECT count(*) FROM sqlite_schema WHERE name = 'webhook'"
            if not connection.execute(query).fetchone()[0]:
                return not path.stat().st_size  # of an earlier version, or empty: damaged
            return connection.execute("SELECT 1 FROM webhook LIMIT 1").fetchone() is not None
    except (OSError, sqlite3.Error, StoreError):
        return True


def webhooks_in_memory() -> WebhookTable:
    """The webhooks of an engine in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in WEBHOOK_TABLES:
        connection.execute(statement)

    def run(name: str, rows: Iterable[Sequence[Any]]) -> int:
        return connection.executemany(STATEMENTS[name], rows).rowcount

    return WebhookTable(connection, lambda: transaction(connection), run)
