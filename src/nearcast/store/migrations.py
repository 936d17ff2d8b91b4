"""The upgrades of files that earlier versions wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from sqlite3 import Connection
from unicodedata import normalize

from nearcast.store.body_tables import BODY_TABLES
from nearcast.store.packing import MESSAGES, checksum, decode_text, encode_text, pack, unpack
from nearcast.store.schema import (
    LASTING_INDEX,
    STATE_TABLE,
    SUBSCRIPTION_INDEX,
    WEBHOOK_TABLES,
    WINDOW_TABLE,
    WITHDRAWN_TABLE,
)

Migration = Callable[[Connection], None]


def migrate(
    connection: Connection, found: int, wanted: int, migrations: Mapping[int, Migration]
) -> None:
    """Upgrade an open file from one version to another, in the open transaction."""
    for version in range(found, wanted):
        migrations[version](connection)
    connection.execute(f"PRAGMA user_version = {wanted:d}")


def _add_webhooks_and_checksums(connection: Connection) -> None:
    for statement in WEBHOOK_TABLES:
        connection.execute(statement)
    for table in ("window_chunk", "update_chunk"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")


def _make_room_for_more(connection: Connection) -> None:
    connection.execute("ALTER TABLE subscription ADD COLUMN more TEXT")
    connection.execute("ALTER TABLE lasting ADD COLUMN more TEXT")
    for statement in (SUBSCRIPTION_INDEX, LASTING_INDEX, WITHDRAWN_TABLE, *BODY_TABLES):
        connection.execute(statement)
    _add_oldest(connection)
    _add_properties(connection)
    _rewrite_queries(connection)


def _add_oldest(connection: Connection) -> None:
    """Give the state its new columns; the index, of another analyser, is built again."""
    kept = connection.execute("SELECT only, seq, now, last_update, NULL, NULL FROM state")
    rows = kept.fetchall()
    connection.execute("DROP TABLE state")
    connection.execute(STATE_TABLE)
    connection.executemany("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("DELETE FROM changed")


def _add_properties(connection: Connection) -> None:
    """Write the messages of the window with a column for their properties."""
    connection.execute("ALTER TABLE window_chunk RENAME TO old_chunk")
    connection.execute(WINDOW_TABLE)
    stored = "SELECT first, count, size, data, checksum FROM old_chunk ORDER BY first"
    for first, count, *packed in connection.execute(stored):
        batch = unpack(MESSAGES, *packed)
        mark = batch.column("at")[len(batch) - 1].as_py()
        size, data = pack(batch)
        connection.execute(
            "INSERT INTO window_chunk VALUES (?, ?, ?, ?, ?, ?)",
            (first, count, mark, size, data, checksum(data)),
        )
    connection.execute("DROP TABLE old_chunk")


def _rewrite_queries(connection: Connection) -> None:
    rows = connection.execute("SELECT id, query, k FROM subscription").fetchall()
    changed = [
        (encode_text(now), id)
        for id, query, k in rows
        if (now := words_only(before := decode_text(query), k is not None)) != before
    ]
    connection.executemany("UPDATE subscription SET query = ? WHERE id = ?", changed)


_PIECES = re.compile(r"[()]|[^\s()]+")
_SIGNS = re.compile(r'[":*]+')
_OPERATORS = frozenset(["AND", "OR", "NOT", "(", ")"])
# An operand that meant nothing is written as `( )`, and then taken out with its operator.
_NOTHING = "( ) "
_WRAPPED = re.compile(r"\( \( \) \) ")
_LEFT_OVER = re.compile(
    r"(?<![^ ])NOT \( \) |(?<!NOT )(?:(?<!\( )\( \) |\( \) (?!\) ))"
    r"|(?<![^ ])AND (?=\)|OR |AND |$)|(?:^|(?<=\( )|(?<=OR ))AND "
)


def words_only(query: str, is_bag: bool = False) -> str:
    """Write a query so that what was only punctuation up to version 2 has no meaning now.

    Then a query had words, AND, OR, NOT and parentheses: `price:5` meant both words, and a word
    without a letter or digit meant nothing. The query of a top-k subscription, a bag, had words.
    """
    pieces: list[str] = []
    same = True
    for piece in _PIECES.findall(query):
        words = [piece] if piece in _OPERATORS else _words(piece)
        same &= words == [piece]
        pieces += words if is_bag or len(words) == 1 else ["(", *words, ")"]
    if same:
        return query
    spaced = " ".join([*pieces, ""])
    while (shorter := _LEFT_OVER.sub("", _WRAPPED.sub(_NOTHING, spaced))) != spaced:
        spaced = shorter
    return spaced.rstrip()


def _words(piece: str) -> list[str]:
    """The parts of a word that have a letter or digit, without signs before them."""
    parts = (part.lstrip("-!") for part in _SIGNS.split(piece))
    words = (part.lower() if part in _OPERATORS else part for part in parts)
    return [word for word in words if any(map(str.isalnum, normalize("NFKC", word)))]


MIGRATIONS: Mapping[int, Migration] = {1: _add_webhooks_and_checksums, 2: _make_room_for_more}
"""By version: what upgrades a file of that version to the next. Never removed."""
