"""The tables of bodies and `meta`; see `bodies.py`."""

BODY_TABLES = (
    """
CREATE TABLE body_chunk (           -- messages that have updates of their own event
    first INTEGER PRIMARY KEY,      -- the number of the first message's event
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- the number of the last one's
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER
)
""",
    """
CREATE TABLE earlier_body (         -- messages that other events brought up again
    message TEXT,
    seq INTEGER,                    -- the first event after which it was like this
    last INTEGER NOT NULL,          -- the latest event that brought it up
    body BLOB NOT NULL,             -- as JSON
    PRIMARY KEY (message, seq)
) WITHOUT ROWID
""",
    "CREATE INDEX earlier_body_last ON earlier_body (last)",
    """
CREATE TABLE meta_chunk (           -- of subscriptions that have one
    first INTEGER PRIMARY KEY,      -- the id of the first update
    count INTEGER NOT NULL,
    mark REAL NOT NULL,             -- the id of the last one
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER
)
""",
)
