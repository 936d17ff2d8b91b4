"""`/healthz`, `/readyz` and `/metrics`, for monitoring."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from nearcast.server.bodies import json_response
from nearcast.server.metrics import CONTENT_TYPE
from nearcast.server.state import ServerState


def install_health(app: FastAPI, state: ServerState) -> None:
    """Add the routes for liveness, readiness and metrics."""

    async def healthz(request: Request) -> Response:
        del request
        return json_response({"status": "ok", **state.role.shown()})

    async def readyz(request: Request) -> Response:
        del request
        if not state.ready:
            return state.not_ready().response()
        await state.check_writable()
        broken = len(state.tenants.troubles)
        about: dict[str, object] = {"status": "ready", **state.pair.shown()}
        about |= state.archive.shown()
        return json_response(about | ({"unavailable_tenants": broken} if broken else {}))

    async def metrics(request: Request) -> Response:
        state.admit(request, "admin").require_default()
        await state.refresh_figures()
        return Response(state.metrics.page(), media_type=CONTENT_TYPE)

    app.router.add_route("/metrics", metrics, methods=["GET"])
    app.router.add_route("/healthz", healthz, methods=["GET"])
    app.router.add_route("/readyz", readyz, methods=["GET"])
