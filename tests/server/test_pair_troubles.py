"""The servers of a pair while something goes wrong between them, or is not finished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import pytest
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect

from nearcast.errors import StoreError
from nearcast.server.config import Config
from nearcast.server.keys import KeyStore
from nearcast.server.standby import follower
from nearcast.server.standby.peers import PeerServer
from nearcast.server.standby.stream import CommitStream
from nearcast.store.lineage import Lineage
from patience import PATIENCE_S
from served import NDJSON, serving

HELLO = {"follower": "one", "position": 0, "mark": "", "terms": [], "seq": 0, "last": 0}


def test_who_follows_has_all_that_waits_for_confirmation() -> None:
    """A primary was cut off, and another promoted that has its last commits: those are told."""

    async def follow() -> list[str]:
        done: list[str] = []
        stream = CommitStream(asyncio.get_running_loop(), 60.0, 4)

        def done_with(what: str) -> Callable[[], None]:
            return lambda: done.append(what)

        stream.hold(5, done_with("five"), done_with("refused"))
        stream.hold(7, done_with("seven"), done_with("refused"))
        stream.follow(5)
        stream.check_settled()
        return done

    assert asyncio.run(follow()) == ["five"]


def test_a_standby_that_cannot_be_served_is_told_by_the_end_of_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the disk is full; make room and try again")

    with serving(tmp_path) as server:
        asked = "/v1/replication?follower=one&url=http://one.example&term=1"
        assert server.http.get(asked).status_code == 200
        monkeypatch.setattr(Lineage, "begin", fail)
        url = f"ws{server.url.removeprefix('http')}/v1/replication/ws?tenant=default"
        with connect(url) as socket:
            socket.send(msgspec.json.encode(HELLO))
            with pytest.raises(ConnectionClosedOK):
                socket.recv(PATIENCE_S)


def test_a_copy_that_takes_the_place_of_a_file_does_so_before_a_promotion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the file would be opened while it is replaced."""

    class Socket:
        """A primary that has other commits."""

        def __init__(self, *_: object, **__: object) -> None:
            pass

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def send(self, data: bytes) -> None:
            pass

        async def recv(self) -> bytes:
            return b'{"do": "copy", "position": 3}'

    class Peer(PeerServer):
        async def status(self, **_: str | int) -> dict[str, Any]:
            return {"role": "primary", "term": 1, "tenants": {"red": 3}}

        async def copy(self, tenant: str, target: Path) -> None:
            assert tenant == "red"
            target.write_bytes(b"copied")

    async def stop_in_between() -> str:
        begun, going_on = asyncio.Event(), asyncio.Event()

        async def replace(_: str, copy: Path, aside: Path | None) -> None:
            assert aside is None
            begun.set()
            await going_on.wait()
            copy.replace(tmp_path / "tenants" / "red.nearcast")

        role = SimpleNamespace(record=SimpleNamespace(id="one", term=1), keep=lambda: None)
        state: Any = SimpleNamespace(
            config=Config(data=tmp_path),
            role=role,
            tenants=SimpleNamespace(stored=list, replace=replace),
        )
        one = follower.Follower(state, Peer("http://two.example", None))
        await begun.wait()
        stopping = asyncio.ensure_future(one.stop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        going_on.set()
        await stopping
        return (tmp_path / "tenants" / "red.nearcast").read_text()

    monkeypatch.setattr(follower, "connect", Socket)
    assert asyncio.run(stop_in_between()) == "copied"


def test_a_tenant_that_is_opened_after_a_promotion_delivers_what_it_has(tmp_path: Path) -> None:
    """Its standby is gone for good, and somebody decided that this server goes on alone."""
    keys = KeyStore(tmp_path / "keys.db")
    admin = keys.add("admin", tenant="default", scopes=("admin",))
    red = keys.add("red", tenant="red", scopes=("subscribe",))
    keys.close()
    role = {"id": "one", "follower": "http://127.0.0.1:9", "follower_id": "two"}
    (tmp_path / "role.json").write_bytes(msgspec.json.encode(role))
    with serving(tmp_path, open=False, confirmed_within_s=0.1) as server:
        listening = {"authorization": f"Bearer {red}", "accept": NDJSON}
        promoted = server.http.post("/v1/promote", headers={"authorization": f"Bearer {admin}"})
        assert promoted.json()["role"] == "primary"
        assert server.http.get("/v1/updates", headers=listening).status_code == 200
