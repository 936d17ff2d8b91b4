"""A server as a process: uvicorn with its settings and a quick shutdown."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import structlog
import uvicorn

from nearcast.errors import InvalidValue, SourceError, StateError
from nearcast.server.app import create_app
from nearcast.server.config import Config
from nearcast.server.protocol import TimedProtocol, raise_file_limit
from nearcast.server.state import ServerState

log = structlog.get_logger("nearcast")
_GRACE_S = 5
_BACKLOG = 4096
# A full garbage collection visits every message of the window and blocks all threads: up to 0.7 s
# on a busy machine, without finding garbage. Objects in cycles are short-lived here, so the young
# generation is collected often and in small steps: with 10,000 new objects a step took 15 to 40 ms.
_COLLECT = (1000, 5, 20_000)
_SWITCH_S = 0.001  # writer and event loop share the interpreter: neither should wait long for it


class Server(uvicorn.Server):
    """A uvicorn server that ends streams first: their connections would never close otherwise."""

    def __init__(self, config: Config) -> None:
        self.application = create_app(config)
        self.state: ServerState = self.application.state.server_state
        self.state.on_failure = self.stop

        class Connection(TimedProtocol):
            """A connection with the limits of this server."""

            limits = self.state.connections

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
                http=Connection,
                ws_max_size=config.limits.body_bytes,
                ssl_certfile=None if config.tls is None else config.tls.certificate,
                ssl_keyfile=None if config.tls is None else str(config.tls.private_key),
            )
        )

    def stop(self) -> None:
        """Stop soon."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal; SIGTERM is the usual way to end a server, and ends it successfully."""
        if sig == signal.SIGTERM:
            self.stop()  # uvicorn would raise the signal again in the end
        else:
            super().handle_exit(sig, frame)

    def reload_certificate(self, *_: object) -> None:
        """Read the certificate again; connections that are open keep theirs."""
        tls, context = self.state.config.tls, self.config.ssl
        if tls is None or context is None:
            return
        try:
            tls.load_into(context)
        except InvalidValue as error:
            log.error("certificate is not renewed", reason=str(error))
        else:
            log.info("certificate is renewed")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop taking requests, end streams, finish the rest."""
        self.state.stop_streams()
        if self.state.pair.connected():
            await self.state.pair.settle()
        await super().shutdown(sockets)


def bound(host: str, port: int) -> socket.socket:
    """Bind a listening socket to an address; port 0 lets the system choose one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise SourceError(f"{host}: no address of this machine ({error.strerror})") from None
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(_BACKLOG)  # connections made from now on wait until the server is up
    except OSError as error:
        taken.close()
        raise SourceError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port"
        ) from None
    return taken


def address_of(listening: socket.socket, host: str, scheme: str = "http") -> str:
    """The address to type into a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{listening.getsockname()[1]}/"


def serve(
    config: Config, listening: socket.socket, started: Callable[[], None] = lambda: None
) -> None:
    """Answer requests at a socket until the server is stopped."""
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT)
    raise_file_limit()
    server = Server(config)
    server.state.on_ready = gc.freeze  # what exists now stays: exclude it from collections
    if config.tls is not None and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, server.reload_certificate)
    started()
    server.run(sockets=[listening])
    if server.state.trouble is not None:
        raise StateError(server.state.trouble)
