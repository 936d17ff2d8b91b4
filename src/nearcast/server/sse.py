"""Server-Sent Events: a response that streams until either side ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that buffers would delay updates
}


class SseResponse(Response):
    """Streams the pieces of a generator, and closes it when the client disconnects.

    A client that does not read a piece within `stalled_s` is disconnected.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        stalled_s: float,
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__(headers=HEADERS, media_type=media_type)
        del self.headers["content-length"]
        self._pieces = pieces
        self._stalled_s = stalled_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        del scope
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._pieces.aclose()

    async def _send(self, send: Send) -> None:
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(self._stalled_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):
            return  # the client has disconnected, or has stalled


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
