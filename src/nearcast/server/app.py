"""The application: its routes, middleware, error handlers and lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from nearcast._version import __version__
from nearcast.errors import NearcastError
from nearcast.server import (
    backups,
    events,
    explain,
    messages,
    overview,
    queries,
    subscriptions,
    updates,
    webhooks,
)
from nearcast.server.config import Config
from nearcast.server.docs import install_docs
from nearcast.server.headers import security_headers
from nearcast.server.health import install_health
from nearcast.server.page import install_page
from nearcast.server.problems import Problem, plain_problem, problem_of
from nearcast.server.request_log import RequestLog
from nearcast.server.routes import install
from nearcast.server.socket import install_socket
from nearcast.server.standby import routes as replication
from nearcast.server.standby.routes import install_replication
from nearcast.server.state import ServerState

NOUNS = (
    messages, subscriptions, updates, events, queries, explain, webhooks, backups, overview,
    replication,
)  # fmt: skip


def create_app(config: Config) -> FastAPI:
    """Create the application for a configuration."""
    state = ServerState(config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        opening = asyncio.ensure_future(state.open())
        try:
            yield
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await state.close()

    app = FastAPI(
        title="Nearcast",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.server_state = state
    for noun in NOUNS:
        install(app, state, noun.routes)
    install_health(app, state)
    install_socket(app, state)
    install_replication(app, state)
    install_docs(app)
    install_page(app, config.map_style)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(NearcastError, _error)
    app.add_exception_handler(HTTPException, _http)
    if config.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(config.origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key"],
        )
    headers = security_headers(config.map_style)
    app.add_middleware(
        RequestLog, metrics=state.metrics, headers=headers, telemetry=config.telemetry
    )
    return app


async def _problem(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, Problem)  # noqa: S101 - registered for it
    return error.response()


async def _error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, NearcastError)  # noqa: S101 - registered for it
    return problem_of(error).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    detail = f"{request.method} {request.url.path}: {error.detail}"
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return plain_problem(error.status_code, detail, headers).response()


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request supports."""
    found: set[str] = set()
    for route in request.app.router.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)
