"""The live map: its files, and the page itself with the style of other maps where one is given."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

WEB = Path(__file__).parent / "web"


class Page(Mount):
    """Serves the files of the live map on every path outside the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Skip paths of the API, so that it answers for unknown ones itself."""
        if scope["path"].startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)


def install_page(app: FastAPI, map_style: str | None) -> None:
    """Add the map to an application; with a style, the page gets its address."""
    if not WEB.is_dir():
        return
    if map_style is not None:
        text = (WEB / "index.html").read_text("utf-8")
        meta = f'<meta name="map-style" content="{escape(map_style)}">'
        text = text.replace("</head>", f"  {meta}\n</head>", 1)

        async def index(request: Request) -> HTMLResponse:
            del request
            return HTMLResponse(text, headers={"cache-control": "no-cache"})

        for path in ("/", "/index.html"):
            app.router.routes.append(Route(path, index, methods=["GET", "HEAD"]))
    app.router.routes.append(Page("/", StaticFiles(directory=WEB, html=True)))
