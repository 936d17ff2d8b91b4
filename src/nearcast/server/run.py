"""A server as a process: uvicorn with its settings, and an end that keeps nobody waiting."""

from __future__ import annotations

import socket

import uvicorn

from nearcast.errors import SourceError
from nearcast.server.app import create_app
from nearcast.server.config import Config
from nearcast.server.front import Front

_GRACE_S = 5


class _Server(uvicorn.Server):
    """Ends the streams first: otherwise their connections would never close."""

    def __init__(self, config: uvicorn.Config, front: Front) -> None:
        super().__init__(config)
        self._front = front

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop taking requests, end streams, finish the rest."""
        self._front.stop_streams()
        await super().shutdown(sockets)


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 lets the system choose one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise SourceError(f"{host}: no address of this machine ({error.strerror})") from None
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise SourceError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port"
        ) from None
    return taken


def serve(config: Config, listening: socket.socket) -> None:
    """Answer requests at a socket until told to stop."""
    app = create_app(config)
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=75,
        backlog=4096,
        ws_max_size=config.limits.body_bytes,
    )
    server = _Server(settings, app.state.front)

    server.run(sockets=[listening])
