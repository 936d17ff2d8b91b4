"""Requests from one server of a pair to the other."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx
import msgspec

_TIMEOUT = httpx.Timeout(10.0, connect=2.0)
_COPY_TIMEOUT = httpx.Timeout(600.0, connect=2.0)  # a large file is copied before it is sent
_PIECE = 1 << 20


class PeerError(Exception):
    """The other server cannot be reached (`status` 0), or refused a request."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


class PeerServer:
    """Another server, reached with a key of the scope admin for its tenant `default`.

    Its certificate is checked against those of the system, or of `SSL_CERT_FILE`.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        self.headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.tls = ssl.create_default_context() if url.startswith("https") else None
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=self.headers,
            timeout=_TIMEOUT,
            verify=True if self.tls is None else self.tls,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def role(self) -> dict[str, Any]:
        """What it says about itself to anyone; nothing for a server that has no standby."""
        return await self._ask("GET", "/healthz")

    async def status(self, **params: str | int) -> dict[str, Any]:
        """Its term, its tenants and their positions, for the standby that calls."""
        return await self._ask("GET", "/v1/replication", params=params)

    async def fence(self, term: int, primary: str | None) -> dict[str, Any]:
        """Have it accept no more changes."""
        return await self._ask("POST", "/v1/fence", json={"term": term, "primary": primary})

    async def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, path, **more)
            found = msgspec.json.decode(answer.content)
        except (httpx.HTTPError, OSError) as error:
            raise PeerError(str(error) or type(error).__name__) from None
        except ValueError:
            raise PeerError("something else than a server of Nearcast answers") from None
        if not answer.is_success or not isinstance(found, dict):
            reason = found.get("detail") if isinstance(found, dict) else None
            raise PeerError(str(reason or f"status {answer.status_code}"), answer.status_code)
        return found

    async def copy(self, tenant: str, target: Path) -> None:
        """Copy the file of a tenant as it is now."""
        path, params = "/v1/replication/copy", {"tenant": tenant}
        try:
            async with self._http.stream(
                "GET", path, params=params, timeout=_COPY_TIMEOUT
            ) as answer:
                if not answer.is_success:
                    raise PeerError(f"status {answer.status_code}", answer.status_code)
                with target.open("wb") as file:
                    target.chmod(0o600)
                    async for piece in answer.aiter_bytes(_PIECE):
                        file.write(piece)
        except httpx.HTTPError as error:
            raise PeerError(str(error) or type(error).__name__) from None
