"""`/v1/backups`: a copy of a tenant's file, taken while the server runs."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.responses import Response

from nearcast.server.bodies import json_response
from nearcast.server.describe import describe
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes

routes = Routes()


@routes.add(
    "POST",
    "/v1/backups",
    "admin",
    describe(
        "backups",
        201,
        "The name of the copy, in the folder `backups` of the server.",
        answer="Backup",
        problems=(409, 507),
    ),
)
async def back_up(context: RequestContext) -> Response:
    """Copy the tenant's file as of now, into the folder of the server.

    To restore it, put it in the place of `tenants/NAME.nearcast` while no server runs.
    """
    context.caller.pay()
    data = context.state.config.data
    if data is None:
        raise Problem(409, "in-memory", "this server keeps everything in memory; start with --data")
    folder = data / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    moment = datetime.fromtimestamp(context.state.config.clock(), UTC).strftime("%Y%m%dT%H%M%S%f")
    name = f"{context.tenant.name}-{moment}.nearcast"
    await context.tenant.backend.backup(folder / name)
    return json_response({"name": name}, 201)
