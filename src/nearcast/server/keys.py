"""API keys with their tenant, scopes and rate limit. Only hashes are stored.

A key is 32 random bytes and cannot be guessed, so a single SHA-256 is enough. `nearcast keys`
may change the file while a server reads it.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

from nearcast.errors import InvalidValue, SourceError, StateError, StoreError
from nearcast.store.connect import store_error

DEFAULT = "default"
"""The tenant of requests without a key."""
SCOPES = ("publish", "subscribe", "admin")
_PREFIX = "nck_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    hash BLOB PRIMARY KEY, name TEXT UNIQUE NOT NULL, tenant TEXT NOT NULL, scopes TEXT NOT NULL,
    rate REAL, body_bytes INTEGER, created REAL NOT NULL, expires REAL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret: `rate` is in events a second, None for no limit.

    `expires` is when it stops working, in seconds since 1970; None for never.
    """

    name: str
    tenant: str
    scopes: frozenset[str]
    rate: float | None = None
    body_bytes: int | None = None
    created: float = 0.0
    expires: float | None = None


def check_name(value: str, field: str) -> str:
    """Return the name of a key or tenant if it is valid: it is used in file names and logs."""
    if not _NAME.fullmatch(value):
        raise InvalidValue(
            field, value, "1 to 64 letters, digits, dots, dashes or underscores, no dot in front"
        )
    return value


class KeyStore:
    """The keys of a server, in `DIR/keys.db`."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = Lock()
        self._known: dict[bytes, ApiKey] = {}
        self._version = -1
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            path.chmod(0o600)
            self._database.execute("PRAGMA busy_timeout = 5000")
            self._database.execute(_SCHEMA)
            self._upgrade()
        except (OSError, sqlite3.Error) as error:
            raise SourceError(f"{path}: cannot keep keys here ({error}); choose another") from None
        self.refresh()

    def _upgrade(self) -> None:
        """Add what files of earlier releases do not have."""
        names = {row[1] for row in self._database.execute("PRAGMA table_info(keys)")}
        if "expires" not in names:
            self._database.execute("ALTER TABLE keys ADD COLUMN expires REAL")

    def refresh(self) -> None:
        """Load the keys again if another process has changed them."""
        with self._lock:
            (version,) = self._database.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._version = version
                self._load()

    def _load(self) -> None:
        rows = self._database.execute(
            "SELECT hash, name, tenant, scopes, rate, body_bytes, created, expires FROM keys"
            " ORDER BY name"
        )
        self._known = {
            hash: ApiKey(name, tenant, frozenset(scopes.split()), *others)
            for hash, name, tenant, scopes, *others in rows
        }

    def __len__(self) -> int:
        return len(self._known)

    def find(self, token: str) -> ApiKey | None:
        """Look up the key of a token; one that has expired is not found."""
        key = self._known.get(_hash(token))
        expired = key is not None and key.expires is not None and key.expires <= self._clock()
        return None if expired else key

    def all(self) -> list[ApiKey]:
        """Every key, by name."""
        return list(self._known.values())

    def add(
        self,
        name: str,
        *,
        tenant: str = DEFAULT,
        scopes: Iterable[str] = ("publish", "subscribe"),
        rate: float | None = None,
        body_bytes: int | None = None,
        valid_s: float | None = None,
    ) -> str:
        """Create a key and return its token, which is not stored.

        It is valid for `valid_s` seconds, or until it is removed.
        """
        check_name(name, "name")
        check_name(tenant, "tenant")
        chosen = frozenset(scopes)
        if not chosen or not chosen <= set(SCOPES):
            raise InvalidValue("scopes", sorted(chosen), f"one or more of {', '.join(SCOPES)}")
        if rate is not None and not rate > 0:
            raise InvalidValue("rate", rate, "more than 0 events a second")
        token, now = _PREFIX + secrets.token_urlsafe(32), self._clock()
        expires = None if valid_s is None else now + valid_s
        scope = " ".join(sorted(chosen))
        row = (_hash(token), name, tenant, scope, rate, body_bytes, now, expires)
        with self._lock:
            try:
                self._database.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise StateError(f"name: there is a key {name!r} already; choose another") from None
            except sqlite3.Error as error:
                raise self._trouble(error) from None
            self._load()
        return token

    def rotate(self, name: str, grace_s: float) -> str:
        """Give a key a new token, and return it; the old one is valid for `grace_s` more.

        Meanwhile the old one has another name, under which it can be removed. A key that was
        valid for some time is so again.
        """
        key = next((each for each in self.all() if each.name == name), None)
        if key is None:
            raise StateError(f"name: there is no key {name!r}; see 'nearcast keys list'")
        token, now = _PREFIX + secrets.token_urlsafe(32), self._clock()
        until = now + grace_s if key.expires is None else min(key.expires, now + grace_s)
        expires = None if key.expires is None else now + key.expires - key.created
        aside = f"{name}.old-{secrets.token_hex(4)}"
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            old = "DELETE FROM keys WHERE expires <= ? AND name != ?"
            self._database.execute(old, (now, name))
            self._database.execute(
                "UPDATE keys SET name = ?, expires = ? WHERE name = ?", (aside, until, name)
            )
            self._database.execute(
                "INSERT INTO keys SELECT ?, ?, tenant, scopes, rate, body_bytes, ?, ?"
                " FROM keys WHERE name = ?",
                (_hash(token), name, now, expires, aside),
            )
        with self._lock:
            self._load()
        return token

    def remove(self, name: str) -> None:
        """Remove a key: requests with it are refused from now on."""
        with self._lock:
            try:
                found = self._database.execute("DELETE FROM keys WHERE name = ?", (name,)).rowcount
            except sqlite3.Error as error:
                raise self._trouble(error) from None
            if not found:
                raise StateError(f"name: there is no key {name!r}; see 'nearcast keys list'")
            self._load()

    def _trouble(self, error: sqlite3.Error) -> StoreError:
        return store_error(self._path, error)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()
