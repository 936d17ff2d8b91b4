"""Whether a server is the primary or a standby, kept in `DIR/role.json` across restarts.

Each promotion has a number, the term. A primary that learns of a higher one is fenced: it never
accepts a change again, unless it is promoted itself.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from time import monotonic

import msgspec

from nearcast.errors import DamagedStoreError, StoreError
from nearcast.server.problems import Problem
from nearcast.store.connect import to_disk

PRIMARY, STANDBY, FENCED = "primary", "standby", "fenced"
NAME = "role.json"
_GONE_S = 5.0  # a standby that was silent for so long may be replaced by another


class RoleRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is kept: `primary` is followed, or was promoted instead of this server.

    `follower` is the address of the standby of this server; `unfenced` is that of a primary that
    has to learn that this server was promoted.
    """

    id: str
    role: str = PRIMARY
    term: int = 1
    primary: str | None = None
    follower: str | None = None
    follower_id: str | None = None
    unfenced: str | None = None


class ServerRole:
    """The role of a server, and what it refuses because of it."""

    def __init__(self, data: Path | None) -> None:
        self._path = None if data is None else data / NAME
        found = self._read()
        self.is_new = found is None
        self.record = RoleRecord(id=secrets.token_hex(8)) if found is None else found
        self._written = found
        self.is_checked = self.record.follower is None
        self.caller: str | None = None  # the id of the standby that called last
        self._url = ""
        self._seen = -_GONE_S

    def _read(self) -> RoleRecord | None:
        try:
            return None if self._path is None else _decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DamagedStoreError(
                f"{self._path}: cannot be read ({error}); it says whether this server was "
                "replaced by its standby. If it was not, remove the file"
            ) from None

    def assume(self, **fields: object) -> None:
        """Change the record in memory; `keep` writes it."""
        self.record = msgspec.structs.replace(self.record, **fields)
        self.is_new = False

    def keep(self) -> None:
        """Write the record, if it is not on the disk as it is."""
        if self.record != self._written:
            self.change()

    def change(self, **fields: object) -> None:
        """Change the record, on the disk first."""
        changed = msgspec.structs.replace(self.record, **fields)
        if self._path is not None:
            made = self._path.with_name(f"{NAME}.unfinished")
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                made.write_bytes(msgspec.json.format(msgspec.json.encode(changed)))
                made.chmod(0o600)
                to_disk(made)
                made.replace(self._path)
                to_disk(self._path.parent)
            except OSError as error:
                raise StoreError(f"{self._path}: cannot be written ({error.strerror})") from None
        self.record = self._written = changed
        self.is_new = False

    @property
    def is_primary(self) -> bool:
        """Whether this server is the primary, as far as it knows."""
        return self.record.role == PRIMARY

    @property
    def is_standby(self) -> bool:
        """Whether this server follows another."""
        return self.record.role == STANDBY

    def check_changes(self) -> None:
        """Raise a problem if this server accepts no changes."""
        record = self.record
        if self.is_primary and self.is_checked:
            return
        if self.is_primary:
            raise Problem(
                503,
                "not-checked",
                f"this server has a standby, {record.follower}, which may have been promoted and "
                "cannot be reached; start it, or 'nearcast promote' this server",
                headers={"Retry-After": "1"},
            )
        where = f"send changes to {record.primary}" if record.primary else "send changes there"
        if self.is_standby:
            detail = f"this server is a standby of {record.primary}; {where}"
        else:
            detail = f"another server was promoted in term {record.term}; {where}"
        raise Problem(409, record.role, detail, primary=record.primary)

    def shown(self) -> dict[str, object]:
        """What everyone may know; nothing for a server that never had a standby."""
        return {} if self.is_new else {"role": self.record.role, "term": self.record.term}

    def welcome(self, id: str, url: str) -> None:
        """Note a standby that calls; a second one is refused while the first is there."""
        now = monotonic()
        if id == self.record.follower_id:
            self.is_checked = True  # it follows, so it was not promoted
        elif not self.is_checked:
            self.check_changes()
        if id != self.caller and now - self._seen < _GONE_S:
            raise Problem(409, "has-a-standby", f"another standby follows already: {self._url}")
        self.caller, self._url, self._seen = id, url, now

    def adopt(self) -> None:
        """Keep the standby that calls, as it is about to have data that it can be promoted with."""
        found, kept = (self.caller, self._url), (self.record.follower_id, self.record.follower)
        if self.caller is not None and found != kept:
            self.change(follower_id=self.caller, follower=self._url)


def _decode(data: bytes) -> RoleRecord:
    record = msgspec.json.decode(data, type=RoleRecord)
    if record.role not in (PRIMARY, STANDBY, FENCED):
        raise ValueError(f"role {record.role!r}")
    return record
