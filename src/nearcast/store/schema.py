"""The tables of the file, its version, and the upgrades from earlier versions.

Subscriptions are rows, so that they can be inspected with the `sqlite3` command. Messages of the
window and updates come and go by the million: they are stored in chunks of columns (`packing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sqlite3 import Connection

from nearcast.store.body_tables import BODY_TABLES

APPLICATION = 0x4E435354  # "NCST", where SQLite files say whose they are
VERSION = 3

WEBHOOK_TABLES = (
    """
CREATE TABLE webhook (
    subscription TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    place INTEGER NOT NULL          -- the id of the latest update that was delivered or given up
) WITHOUT ROWID
""",
    """
CREATE TABLE dead_letter (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription TEXT NOT NULL,
    update_id INTEGER NOT NULL,
    body BLOB NOT NULL,
    error TEXT NOT NULL,
    at REAL NOT NULL                -- seconds since 1970
)
""",
)

TABLES = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq INTEGER NOT NULL,           -- the number of the latest event that was accepted
    now REAL,                       -- its time; NULL before the first
    last_update INTEGER NOT NULL,   -- the id of the latest update
    points INTEGER NOT NULL,        -- how many messages have entered the window so far
    snapshot TEXT                   -- the name of the snapshot of the index, if there is one
)
""",
    "INSERT INTO state VALUES (1, 0, NULL, 0, 0, NULL)",
    """
CREATE TABLE subscription (
    id TEXT PRIMARY KEY,
    query NOT NULL,
    west REAL, south REAL, east REAL, north REAL,   -- of a box; twice the point of a top-k one
    region TEXT,                                    -- any other region, as JSON
    k INTEGER, alpha REAL
) WITHOUT ROWID
""",
    "CREATE INDEX ranked ON subscription (id) WHERE k IS NOT NULL",
    """
CREATE TABLE changed (              -- subscriptions that did since the snapshot
    id TEXT PRIMARY KEY
) WITHOUT ROWID
""",
    """
CREATE TABLE window_chunk (
    first INTEGER PRIMARY KEY,      -- the number of the first message's event
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- the time of its last one or, if the window is one by count,
                                    -- how many messages had entered it with the last one
    size INTEGER NOT NULL,          -- of the data when unpacked; 0 if it is not packed
    data BLOB NOT NULL,
    checksum INTEGER                -- CRC-32 of the data; NULL if it was written by version 1
)
""",
    """
CREATE TABLE lasting (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    text NOT NULL,
    at REAL NOT NULL,
    ttl REAL NOT NULL,
    ends REAL NOT NULL,
    lon REAL, lat REAL,
    west REAL, south REAL, east REAL, north REAL
)
""",
    "CREATE INDEX lasting_ends ON lasting (ends)",
    """
CREATE TABLE update_chunk (
    first INTEGER PRIMARY KEY,      -- the id of the first update
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- when it was written, in seconds since 1970
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER
)
""",
    """
CREATE TABLE remembered (
    key TEXT PRIMARY KEY,
    answer BLOB NOT NULL,
    at REAL NOT NULL                -- seconds since 1970
) WITHOUT ROWID
""",
    "CREATE INDEX remembered_at ON remembered (at)",
    *WEBHOOK_TABLES,
    *BODY_TABLES,
)

Migration = Callable[[Connection], None]


def _add_webhooks_and_checksums(connection: Connection) -> None:
    for statement in WEBHOOK_TABLES:
        connection.execute(statement)
    for table in ("window_chunk", "update_chunk"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")


def _add_bodies(connection: Connection) -> None:
    for statement in BODY_TABLES:
        connection.execute(statement)


MIGRATIONS: Mapping[int, Migration] = {1: _add_webhooks_and_checksums, 2: _add_bodies}
"""By version: the statements that upgrade a file of that version to the next. Never removed."""


def migrate(
    connection: Connection, found: int, wanted: int, migrations: Mapping[int, Migration]
) -> None:
    """Upgrade an open file from one version to another, in the open transaction."""
    for version in range(found, wanted):
        migrations[version](connection)
    connection.execute(f"PRAGMA user_version = {wanted:d}")
