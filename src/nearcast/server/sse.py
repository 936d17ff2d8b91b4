"""Server-Sent Events: a response that goes on until one side has had enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that collects before it passes on would hold updates back
}


class SseResponse(Response):
    """Sends what an iterator gives, a piece at a time, and ends it when the client has gone."""

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
        """Answer a request."""
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
            return  # the client has gone, or has read nothing for so long that it might as well be


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
