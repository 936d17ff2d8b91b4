"""The application: its routes, what wraps them, and its life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from nearcast._version import __version__
from nearcast.errors import NearcastError
from nearcast.server import messages, overview, queries, subscriptions, updates
from nearcast.server.config import Config
from nearcast.server.front import Front
from nearcast.server.headers import SecurityHeaders
from nearcast.server.health import install_health
from nearcast.server.problems import Problem, plain_problem, problem_of
from nearcast.server.routes import install

WEB = Path(__file__).parent / "web"


class Page(Mount):
    """The files of the live map: everything that is not the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Leave the API alone, so that it answers for its own paths."""
        if scope["path"].startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


def create_app(config: Config) -> FastAPI:
    """Make the application that answers for a configuration."""
    front = Front(config)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        del app
        opening = asyncio.ensure_future(front.open())
        try:
            yield
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await front.close()

    app = FastAPI(
        title="Nearcast", version=__version__, lifespan=life, docs_url=None, redoc_url=None
    )
    app.state.front = front
    for noun in (messages, subscriptions, updates, queries, overview):
        install(app, front, noun.routes)
    install_health(app, front)
    if WEB.is_dir():
        app.router.routes.append(Page("/", StaticFiles(directory=WEB, html=True)))
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(NearcastError, _error)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failure)
    app.add_middleware(SecurityHeaders)
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
    return plain_problem(error.status_code, detail, error.headers).response()


async def _failure(request: Request, error: Exception) -> Response:
    del request, error
    return plain_problem(500, "something went wrong here; it was written to the log").response()
