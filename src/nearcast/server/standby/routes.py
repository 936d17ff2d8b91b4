"""`/v1/replication`, `/v1/promote` and `/v1/fence`: what the servers of a pair ask each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import structlog
from fastapi import FastAPI
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from nearcast.engine import Engine
from nearcast.errors import InvalidValue, NearcastError
from nearcast.server.access import Caller
from nearcast.server.bodies import checked_number, json_body, json_response
from nearcast.server.describe import describe, needed, parameter
from nearcast.server.problems import Problem, problem_of
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.standby.follower import describe_history
from nearcast.server.standby.records import join_commits
from nearcast.server.state import ServerState
from nearcast.server.tenants import Tenant
from nearcast.store.lineage import HistoryEnd, PrimaryTerm, fork

log = structlog.get_logger("nearcast.standby")
routes = Routes()
SOCKET = "/v1/replication/ws"
BINARY = "application/octet-stream"
OUTGOING = "outgoing"
_PIECE = 1 << 20
_HIGHEST = 2**53
_NUMBER = {"type": "integer", "minimum": 1, "maximum": _HIGHEST}


def _check_files(state: ServerState) -> None:
    """Refuse what a server without files cannot do."""
    if state.config.data is None or state.config.engine != "embedded":
        raise Problem(
            409,
            "in-memory",
            "a server in memory or with --engine spark cannot have a standby; start with --data",
        )


async def _welcome(state: ServerState, id: str, url: str, term: int) -> None:
    """Note the standby that calls, and learn from it that another server was promoted."""
    role = state.role
    if role.is_standby:
        return
    if term > role.record.term:
        await state.pair.fence(term, None)
    known = role.record.follower
    if known is not None and id != role.record.follower_id and role.is_primary:
        superior = await state.pair.find_superior(known)
        if superior is not None:
            await state.pair.fence(superior, known)
    role.welcome(id, url)


@routes.add(
    "GET",
    "/v1/replication",
    "admin",
    describe(
        "replication",
        200,
        "The role of this server, its term, and how far its tenants are.",
        answer="Replication",
        parameters=(
            parameter("follower", {"type": "string"}, "The id of the standby that asks."),
            parameter("url", {"type": "string"}, "The address of that standby."),
            parameter("term", _NUMBER, "The latest term that it knows of."),
        ),
        problems=(409, 507),
    ),
)
async def show_replication(context: RequestContext) -> Response:
    """Say how far this server is; a standby asks twice a second."""
    state = context.state
    _check_files(state)
    given = context.request.query_params
    if "follower" in given:
        term = checked_number("term", given.get("term", ""), 1, _HIGHEST, "the number of a term")
        if not given.get("url"):
            raise InvalidValue("url", given.get("url"), "the address of the standby")
        await _welcome(state, given["follower"], given["url"], term)
    positions = {
        name: None if (tenant := state.tenants.find(name)) is None else tenant.backend.position
        for name in state.tenants.stored()
    }
    record = state.role.record
    shown = {"id": record.id, "role": record.role, "term": record.term, "tenants": positions}
    return json_response(shown)


@routes.add(
    "GET",
    "/v1/replication/copy",
    "admin",
    describe(
        "replication",
        200,
        "The file.",
        content={BINARY: {"schema": {"type": "string", "format": "binary"}}},
        parameters=(needed("tenant", "Whose file to copy."),),
        problems=(404, 409, 507),
    ),
)
async def copy_tenant(context: RequestContext) -> Response:
    """Copy the file of a tenant as it is now."""
    state, data = context.state, context.state.config.data
    _check_files(state)
    tenant = await _find(state, context.request.query_params.get("tenant", ""))
    await tenant.backend.ask(lambda engine: _attach(state, tenant, engine))
    assert data is not None  # noqa: S101 - checked above
    state.role.adopt()
    folder = data / OUTGOING
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{uuid4().hex}.nearcast"
    try:
        await tenant.backend.backup(path)
        length = {"Content-Length": str(path.stat().st_size)}
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return StreamingResponse(_pieces(path), headers=length, media_type=BINARY)


async def _pieces(path: Path) -> AsyncGenerator[bytes, None]:
    """The contents of a file, which is removed then."""
    try:
        with path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece
    finally:
        path.unlink(missing_ok=True)


@routes.add(
    "POST",
    "/v1/promote",
    "admin",
    describe(
        "replication",
        200,
        "The new role; whether the old primary is fenced, and had nothing more to give.",
        answer="Promoted",
        problems=(409, 507),
    ),
)
async def promote(context: RequestContext) -> Response:
    """Make this standby the primary.

    The old primary is fenced first, if it can be reached, and its last commits are taken over.
    """
    _check_files(context.state)
    return json_response(await context.state.pair.promote())


@routes.add(
    "POST",
    "/v1/fence",
    "admin",
    describe(
        "replication",
        200,
        "How far this server came.",
        answer="Fenced",
        body="Fence",
        problems=(409, 507),
    ),
)
async def fence(context: RequestContext) -> Response:
    """Have this server accept no more changes, because another was promoted."""
    fields = await json_body(context.request, context.caller.body_bytes)
    _check_files(context.state)
    term, primary = fields.get("term"), fields.get("primary")
    if isinstance(term, bool) or not isinstance(term, int) or not 1 <= term <= _HIGHEST:
        raise InvalidValue("term", term, "the number of a term, a whole number above 0")
    if primary is not None and not isinstance(primary, str):
        raise InvalidValue("primary", primary, "the address of the server that was promoted")
    return json_response(await context.state.pair.fence(term, primary))


async def _find(state: ServerState, name: str) -> Tenant:
    if state.role.is_standby:
        raise Problem(409, "standby", "this server is a standby itself; follow its primary")
    if name not in state.tenants.stored():
        raise Problem(404, "unknown-tenant", f"there is no tenant {name!r}")
    return await state.tenant(name)


def _attach(state: ServerState, tenant: Tenant, engine: Engine) -> dict[str, Any]:
    """Keep the commits of a tenant from now on, and describe what it has."""
    lineage = engine.lineage
    assert lineage is not None  # noqa: S101 - the server has a folder
    tenant.backend.commits.start(lineage)
    if not lineage.terms:
        lineage.begin(state.role.record.term)
    return describe_history(engine)


class _Hello(msgspec.Struct):
    follower: str
    position: int
    mark: str
    terms: list[PrimaryTerm]
    seq: int
    last: int


def install_replication(app: FastAPI, state: ServerState) -> None:
    """Add the WebSocket that a standby follows a tenant by."""

    async def connect(websocket: WebSocket) -> None:
        try:
            caller = state.admit(websocket, "admin")
            caller.require_default()
            _check_files(state)
            tenant = await _find(state, websocket.query_params.get("tenant", ""))
        except (Problem, NearcastError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            await websocket.send_denial_response(problem.response())
            return
        await websocket.accept()
        try:
            with suppress(OSError, WebSocketDisconnect, RuntimeError, ValueError):
                await _serve(websocket, state, caller, tenant)
        except (Problem, NearcastError) as error:  # a full disk, for example
            log.error("cannot be followed", tenant=tenant.name, error=str(error))
        with suppress(OSError, WebSocketDisconnect, RuntimeError):
            await websocket.close()

    app.router.add_websocket_route(SOCKET, connect)


async def _serve(websocket: WebSocket, state: ServerState, caller: Caller, tenant: Tenant) -> None:
    hello = msgspec.json.decode(await websocket.receive_bytes(), type=_Hello)
    if hello.follower != state.role.caller:
        return  # another standby follows
    own = await tenant.backend.ask(lambda engine: _attach(state, tenant, engine))
    terms = [PrimaryTerm(*each) for each in own["terms"]]
    end = HistoryEnd(own["position"], own["seq"], own["last"])
    commits = tenant.backend.commits
    answer: dict[str, Any] = {"do": "copy", "position": own["position"]}
    if hello.terms and (found := fork(terms, end, hello.terms, hello.position)) is not None:
        answer |= {"do": "diverged", "fork": list(found)}
    elif hello.terms and commits.after(hello.position, hello.mark) is not None:
        answer["do"] = "follow"
    elif hello.seq and not hello.terms:
        answer |= {"do": "diverged", "fork": [0, 0, 0]}
    if answer["do"] == "follow":
        state.role.adopt()
    await websocket.send_bytes(msgspec.json.encode(answer))
    if answer["do"] != "follow":
        return
    sending = asyncio.ensure_future(_send(websocket, tenant, hello.position, hello.mark))

    def stop() -> None:
        sending.cancel()

    commits.confirm(hello.position)
    commits.attach(stop)
    try:
        with state.authenticator.watching(caller, stop):
            await asyncio.wait([sending])
            if not sending.cancelled():
                sending.result()
    finally:
        stop()
        commits.detach(stop)


async def _send(websocket: WebSocket, tenant: Tenant, position: int, mark: str) -> None:
    """Send commits as they are made; the next ones when the standby has the last ones."""
    commits = tenant.backend.commits
    receiving: asyncio.Task[str] = asyncio.ensure_future(websocket.receive_text())
    try:
        while True:
            frames = commits.after(position, mark)
            if frames is None:
                return  # they are no longer kept: it has to copy the file
            if not frames:
                waiting = asyncio.ensure_future(commits.more())
                await asyncio.wait((waiting, receiving), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if receiving.done():
                    receiving.result()  # it is gone
                    return
                continue
            await websocket.send_bytes(join_commits([each.frame for each in frames]))
            position, mark = frames[-1].position, frames[-1].mark
            if int(await receiving) != position:
                return
            commits.confirm(position)
            receiving = asyncio.ensure_future(websocket.receive_text())
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
