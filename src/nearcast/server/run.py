"""A server as a process: uvicorn with its settings, and an end that keeps nobody waiting."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable

import uvicorn

from nearcast.errors import SourceError, StateError
from nearcast.server.app import create_app
from nearcast.server.config import Config
from nearcast.server.state import ServerState

_GRACE_S = 5
_BACKLOG = 4096
# A full collection looks at every message of the window and stops everybody meanwhile: 0.7 s was
# seen on a busy machine, to find nothing. What makes cycles here dies young, and the young are
# looked at often, a few at a time: at 10,000 new objects each look took 15 to 40 ms.
_COLLECT = (1000, 5, 20_000)
_SWITCH_S = 0.001  # the writer and the network share an interpreter: neither waits long for it


class Server(uvicorn.Server):
    """Ends the streams first: otherwise their connections would never close."""

    def __init__(self, config: Config) -> None:
        self.application = create_app(config)
        self.state: ServerState = self.application.state.server_state
        self.state.on_failure = self.stop
        super().__init__(
            uvicorn.Config(
                self.application,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_GRACE_S,
                timeout_keep_alive=75,
                backlog=_BACKLOG,
                ws_max_size=config.limits.body_bytes,
            )
        )

    def stop(self) -> None:
        """Come to an end."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop taking requests, end streams, finish the rest."""
        self.state.stop_streams()
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
        taken.listen(_BACKLOG)  # whoever comes from now on waits, and is not turned away
    except OSError as error:
        taken.close()
        raise SourceError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port"
        ) from None
    return taken


def address_of(listening: socket.socket, host: str) -> str:
    """The address to type into a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}/"


def serve(
    config: Config, listening: socket.socket, started: Callable[[], None] = lambda: None
) -> None:
    """Answer requests at a socket until told to stop."""
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT)
    server = Server(config)
    server.state.on_ready = gc.freeze  # what is there now stays: no need to look at it again
    started()
    server.run(sockets=[listening])
    if server.state.trouble is not None:
        raise StateError(server.state.trouble)
