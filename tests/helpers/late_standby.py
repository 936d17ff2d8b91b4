"""A standby by hand: it gets every commit of a primary, and confirms when it is told to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from websockets.sync.client import ClientConnection, connect

from nearcast.server.standby.records import decode_commits
from patience import PATIENCE_S
from served import Served

_ID = "late"


class LateStandby:
    """Follows the tenant `default`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def receive(self) -> int:
        """Wait for commits, and return the number of the last one."""
        data = self._socket.recv(PATIENCE_S)
        assert isinstance(data, bytes)
        return decode_commits(data)[-1].position

    def confirm(self, position: int) -> None:
        """Say that a commit, and all before it, are on the disk."""
        self._socket.send(str(position))


@contextmanager
def late_standby(primary: Served, folder: Path) -> Iterator[LateStandby]:
    """A standby that has a copy of the file and follows from there."""
    given: dict[str, str | int] = {"follower": _ID, "url": "http://late.example", "term": 1}
    assert primary.http.get("/v1/replication", params=given).status_code == 200
    copy = folder / "copy.nearcast"
    answer = primary.http.get("/v1/replication/copy", params={"tenant": "default"})
    copy.write_bytes(answer.content)
    with closing(sqlite3.connect(copy)) as database:
        about = dict(database.execute("SELECT key, value FROM about"))
        seq, last = database.execute("SELECT seq, last_update FROM state").fetchone()
    place, _, mark = about["position"].partition(" ")
    hello = {"follower": _ID, "position": int(place), "mark": mark, "seq": seq, "last": last}
    url = f"ws{primary.url.removeprefix('http')}/v1/replication/ws?tenant=default"
    with connect(url) as socket:
        socket.send(msgspec.json.encode(hello | {"terms": msgspec.json.decode(about["terms"])}))
        assert msgspec.json.decode(socket.recv(PATIENCE_S))["do"] == "follow"
        yield LateStandby(socket)
