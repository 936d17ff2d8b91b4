"""`/v1/updates/ws`: a WebSocket for events and updates over one connection.

The client sends events of the log (`subscribe`, `move`, `unsubscribe`, `publish`, `retract`),
`listen` and `ack`; an answer repeats the `ref` of its request. The server sends updates, gaps and
answers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI
from starlette.websockets import WebSocket, WebSocketDisconnect

from nearcast.errors import InvalidValue, MissingField, NearcastError
from nearcast.events import Publish, Retract, event_from_json
from nearcast.events.events import id_of
from nearcast.events.ids import new_id
from nearcast.events.values import check_id
from nearcast.server.access import Caller
from nearcast.server.backend import accepted
from nearcast.server.bodies import checked_number, encode, json_object
from nearcast.server.checks import check_fields
from nearcast.server.feed import UpdateFeed
from nearcast.server.problems import Problem, problem_of
from nearcast.server.state import ServerState
from nearcast.server.tenants import Tenant
from nearcast.server.updates import included, resume_after, wanted
from nearcast.server.wire import socket_encoder, socket_gap

PATH = "/v1/updates/ws"
_SLOW_DOWN_S = 0.2  # after a refused frame, before the next one is read
_OPS = "one of subscribe, move, unsubscribe, publish, retract, listen, ack"


def install_socket(app: FastAPI, state: ServerState) -> None:
    """Add the WebSocket route."""

    async def connect(websocket: WebSocket) -> None:
        try:
            caller = state.admit(websocket, "subscribe")
            tenant = await state.tenant(caller.tenant)
            tenant.backend.commits.check_settled()
            state.check_room(tenant)
            session = SocketSession(websocket, state, caller, tenant)
        except (Problem, NearcastError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            await websocket.send_denial_response(problem.response())
            return
        await session.run()

    app.router.add_websocket_route(PATH, connect)


class SocketSession:
    """One connection: sends updates while it handles operations."""

    def __init__(
        self, websocket: WebSocket, state: ServerState, caller: Caller, tenant: Tenant
    ) -> None:
        self._websocket = websocket
        self._state = state
        self._caller = caller
        self._tenant = tenant
        self._window = _window(websocket, state.config.limits.unacknowledged)
        self._acknowledged = asyncio.Event()
        self._revoked = False
        self._sent: list[int] = []  # sent but not acknowledged; used with a window only
        subscriptions = wanted(websocket, state.config.limits)
        after = resume_after(websocket)
        encode = socket_encoder(included(websocket))
        self._feed = UpdateFeed(tenant.hub, subscriptions, after, encode, socket_gap)

    async def run(self) -> None:
        """Serve the connection until one side closes it."""
        try:
            await self._websocket.accept()
            with self._state.authenticator.watching(self._caller, self._revoke):
                await self._exchange()
        finally:
            self._feed.close()

    def _revoke(self) -> None:
        """End the connection: its key is no longer valid."""
        self._revoked = True
        self._acknowledged.set()
        self._feed.listener.close()

    async def _exchange(self) -> None:
        sending = asyncio.ensure_future(self._send())
        receiving = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _send(self) -> None:
        await self._send_json({"type": "hello", "after": self._feed.place})
        config = self._state.config
        try:
            while (found := await self._feed.next(config.keep_alive_s)) is not None:
                for id, data in found:
                    await self._wait_for_window(id)
                    if self._revoked:
                        break
                    async with asyncio.timeout(config.stalled_s):
                        await self._websocket.send_text(data.decode())
            if self._revoked:
                await self._websocket.close(1008, "the key is no longer valid")
            else:
                await self._websocket.close(1001, "the server is stopping")
        except (OSError, TimeoutError, WebSocketDisconnect, RuntimeError):
            return  # the client has gone, or does not read

    async def _wait_for_window(self, id: int) -> None:
        """Wait until the client has acknowledged enough updates, if it asked for a window."""
        if self._window is None:
            return
        while len(self._sent) >= self._window and not self._revoked:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        self._sent.append(id)

    async def _send_json(self, value: object) -> None:
        await self._websocket.send_text(encode(value).decode())

    async def _receive(self) -> None:
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                data = message.get("bytes") or (message.get("text") or "").encode()
                await self._answer(data)
                # Frames that have arrived are received without a pause; others come first.
                await asyncio.sleep(0)
        except (OSError, WebSocketDisconnect, RuntimeError):
            return

    async def _answer(self, data: bytes) -> None:
        ref: Any = None
        try:
            self._state.authenticator.confirm(self._caller)
            try:
                fields = json_object(data)
            except Problem:
                self._caller.pay()
                raise
            ref = fields.get("ref")
            answer = await self._do(fields, len(data))
        except (Problem, NearcastError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            await self._send_json({"type": "error", "ref": ref, "problem": problem.as_json()})
            if problem.status == 401:
                self._revoke()
            elif problem.status == 429:
                await asyncio.sleep(_SLOW_DOWN_S)
        else:
            if answer is not None:
                await self._send_json({"type": "ok", "ref": ref, **answer})

    async def _do(self, fields: dict[str, Any], size: int) -> dict[str, Any] | None:
        op = fields.get("op")
        if op == "ack" and self._ack(fields.get("id")):
            return None  # free, as there is at most one for each update that was sent
        self._caller.pay()
        if op is None:
            raise MissingField("op", _OPS)
        if op == "ack":
            if not isinstance(fields.get("id"), int):
                expected = "the id of an update; it acknowledges all up to it"
                raise InvalidValue("id", fields.get("id"), expected)
            return None
        if op == "listen":
            return self._listen(fields.get("subscriptions"))
        check_fields(fields, self._state.config)
        if fields.get("id") is None and op in ("publish", "subscribe"):
            fields["id"] = new_id("s" if op == "subscribe" else "m")
        event = event_from_json(fields)
        publishes = isinstance(event, Publish | Retract)
        self._caller.require("publish" if publishes else "subscribe")
        outcome = accepted((await self._tenant.backend.apply([event], size=size))[0])
        return {"op": op, "id": id_of(event), "updates": len(outcome.updates)}

    def _ack(self, id: object) -> bool:
        """Acknowledge updates, and return whether any of them were waiting for it."""
        if not isinstance(id, int):
            return False
        waiting = [sent for sent in self._sent if sent > id]
        useful = len(waiting) < len(self._sent)
        self._sent = waiting
        self._acknowledged.set()
        return useful

    def _listen(self, subscriptions: object) -> dict[str, Any]:
        """Listen to other subscriptions from now on; None is all of them."""
        most = self._state.config.limits.listened
        if subscriptions is None:
            self._feed.change(None)
        elif isinstance(subscriptions, list) and len(subscriptions) <= most:
            self._feed.change([check_id(each, "subscriptions") for each in subscriptions])
        else:
            raise InvalidValue("subscriptions", subscriptions, f"null or a list of up to {most}")
        return {"op": "listen", "after": self._feed.place}


def _window(websocket: WebSocket, most: int) -> int | None:
    given = websocket.query_params.get("window")
    if given is None:
        return None
    return checked_number("window", given, 1, most, f"a whole number from 1 to {most}")
