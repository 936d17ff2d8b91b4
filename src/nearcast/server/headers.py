"""Security headers of every response."""

from __future__ import annotations

from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.types import Scope

Headers: TypeAlias = list[tuple[bytes, bytes]]

_POLICY = (
    "default-src 'self'; worker-src 'self' blob:; img-src 'self' data: blob:{others}; "
    "connect-src 'self'{others}; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
_OTHER = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def security_headers(map_style: str | None = None) -> Headers:
    """Return the headers; where the map has a style, pages may load its tiles and glyphs.

    A style names hosts of its own, so every one is allowed by HTTPS, and by HTTP only its own.
    """
    others = ""
    if map_style is not None:
        parts = urlsplit(map_style)
        others = " https:" + (f" http://{parts.netloc}" if parts.scheme == "http" else "")
    return [(b"content-security-policy", _POLICY.format(others=others).encode()), *_OTHER]


def as_sent(scope: Scope) -> Scope:
    """Keep the path of an API request percent-encoded: an id in it may hold a slash."""
    raw = scope.get("raw_path")
    if raw is not None and raw.startswith(b"/v1/"):
        return {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
    return scope
