"""Routes, each with its scope and its description.

A route is a plain function of a request context. FastAPI routes and documents it, but neither
parses nor validates: msgspec reads the bodies, and the model checks them as in an event log.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import InvalidValue, NearcastError
from nearcast.events.values import check_id
from nearcast.server.access import Caller
from nearcast.server.bodies import JSON, NDJSON, has_body, media_type
from nearcast.server.config import Limits
from nearcast.server.problems import Problem, problem_of
from nearcast.server.tenants import Tenant

if TYPE_CHECKING:
    from nearcast.server.state import ServerState


@dataclass(slots=True)
class RequestContext:
    """A request with its caller, its tenant and the state of the server."""

    request: Request
    state: ServerState
    caller: Caller
    tenant: Tenant

    @property
    def limits(self) -> Limits:
        """The limits of requests."""
        return self.state.config.limits

    def path_id(self) -> str:
        """The id in the path; it may hold any character, percent-encoded."""
        given = self.request.path_params["id"]
        try:
            return check_id(unquote(given, errors="strict"))
        except UnicodeDecodeError:
            raise InvalidValue("id", given, "UTF-8, percent-encoded") from None


Handler = Callable[[RequestContext], Awaitable[Response]]
_PAIR = ("/v1/promote", "/v1/fence", "/v1/replication", "/v1/replication/copy")
_NO_CHANGE = ("/v1/queries", "/v1/match", "/v1/backups", *_PAIR)


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of one method of one path."""

    method: str
    path: str
    scope: str
    handler: Handler
    doc: dict[str, Any]

    @property
    def is_change(self) -> bool:
        """Whether it changes subscriptions, messages or webhooks: a standby refuses that."""
        return self.method != "GET" and self.path not in _NO_CHANGE

    @property
    def concerns_all(self) -> bool:
        """Whether it is about all tenants: only admins of the tenant `default` may use it."""
        return self.path in _PAIR

    @property
    def is_administrative(self) -> bool:
        """Whether it changes something about the server, not subscriptions or messages."""
        about_server = self.scope == "admin" or self.path.endswith("/webhook")
        return self.method != "GET" and (about_server or "/dead-letters" in self.path)


class Routes(list[Route]):
    """The routes of one module, collected by decorators."""

    def add(
        self, method: str, path: str, scope: str, doc: dict[str, Any]
    ) -> Callable[[Handler], Handler]:
        """Register a function for a method of a path."""

        def register(handler: Handler) -> Handler:
            self.append(Route(method, path, scope, handler, doc))
            return handler

        return register


class PlainRoute(APIRoute):
    """A route whose function takes the request and returns the response directly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function itself."""
        return self.endpoint


def install(app: FastAPI, state: ServerState, routes: Routes) -> None:
    """Add routes to an application."""
    for route in routes:
        text = inspect.getdoc(route.handler) or ""
        summary, _, description = text.partition("\n\n")
        app.router.add_api_route(
            route.path,
            _endpoint(state, route),
            methods=[route.method],
            name=route.handler.__name__,
            operation_id=route.handler.__name__,
            summary=summary.rstrip("."),
            description=description,
            status_code=_status(route.doc),
            openapi_extra=route.doc | {"x-scope": route.scope},
            response_class=Response,
            route_class_override=PlainRoute,
        )


def _status(doc: dict[str, Any]) -> int:
    """The first described response: FastAPI documents it as the default."""
    return int(next(iter(doc["responses"])))


def _endpoint(state: ServerState, route: Route) -> Callable[[Request], Awaitable[Response]]:
    handler, scope = route.handler, route.scope

    async def answer(request: Request) -> Response:
        caller = state.admit(request, scope)
        if route.concerns_all:
            caller.require_default()
        if has_body(request):
            media_type(request, JSON, NDJSON)
        tenant = state.tenants.find(caller.tenant)
        if tenant is None:
            tenant = await state.tenant(caller.tenant)
        status = 500
        try:
            if route.is_change:
                await state.wait_for_standby(tenant)
            response = await handler(RequestContext(request, state, caller, tenant))
            status = response.status_code
            return response
        except Problem as problem:
            status = problem.status
            raise
        except NearcastError as error:
            status = problem_of(error).status
            raise
        finally:
            if route.is_administrative:
                act, path = f"{route.method} {route.path}", request.scope["path"]
                state.audit.write(act, caller.name, caller.tenant, path=path, status=status)

    return answer
