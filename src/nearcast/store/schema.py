"""The tables of the file, and its version.

Subscriptions are rows, so that they can be inspected with the `sqlite3` command. Messages of the
window and updates come and go by the million: they are stored in chunks of columns (`packing.py`).
"""

from __future__ import annotations

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

WITHDRAWN_TABLE = """
CREATE TABLE withdrawn (            -- messages of the window that were retracted or replaced
    seq INTEGER PRIMARY KEY,        -- the number of the event that did it
    id TEXT NOT NULL
)
"""
SUBSCRIPTION_INDEX = "CREATE INDEX attributed ON subscription (id) WHERE more IS NOT NULL"
LASTING_INDEX = "CREATE INDEX lasting_id ON lasting (id)"

STATE_TABLE = """
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq INTEGER NOT NULL,           -- the number of the latest event that was accepted
    now REAL,                       -- its time; NULL before the first
    last_update INTEGER NOT NULL,   -- the id of the latest update
    snapshot TEXT,                  -- the name of the snapshot of the index, if there is one
    oldest TEXT                     -- the id of the oldest message in the window; NULL if it is
                                    -- empty, or if an earlier version wrote the file
)
"""
WINDOW_TABLE = """
CREATE TABLE window_chunk (
    first INTEGER PRIMARY KEY,      -- the number of the first message's event
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- the time of its last one
    size INTEGER NOT NULL,          -- of the data when unpacked; 0 if it is not packed
    data BLOB NOT NULL,
    checksum INTEGER NOT NULL       -- CRC-32 of the data
)
"""

TABLES = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    STATE_TABLE,
    "INSERT INTO state VALUES (1, 0, NULL, 0, NULL, NULL)",
    """
CREATE TABLE subscription (
    id TEXT PRIMARY KEY,
    query NOT NULL,                                 -- empty if there is none
    west REAL, south REAL, east REAL, north REAL,   -- of a box; twice the point of a top-k one
    region TEXT,                                    -- any other region, as JSON
    k INTEGER, alpha REAL,
    more TEXT                                       -- whatever else it has, as JSON
) WITHOUT ROWID
""",
    SUBSCRIPTION_INDEX,
    "CREATE INDEX ranked ON subscription (id) WHERE k IS NOT NULL",
    """
CREATE TABLE changed (              -- subscriptions that did since the snapshot
    id TEXT PRIMARY KEY
) WITHOUT ROWID
""",
    WINDOW_TABLE,
    WITHDRAWN_TABLE,
    """
CREATE TABLE lasting (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    text NOT NULL,
    at REAL NOT NULL,
    ttl REAL NOT NULL,
    ends REAL NOT NULL,
    lon REAL, lat REAL,
    west REAL, south REAL, east REAL, north REAL,
    more TEXT                       -- its properties, and an area that is no box, as JSON
)
""",
    LASTING_INDEX,
    "CREATE INDEX lasting_ends ON lasting (ends)",
    """
CREATE TABLE update_chunk (
    first INTEGER PRIMARY KEY,      -- the id of the first update
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- when it was written, in seconds since 1970
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER                -- NULL if it was written by version 1
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
