"""Security headers of every response."""

from __future__ import annotations

from starlette.types import Scope

POLICY = (
    "default-src 'self'; worker-src 'self' blob:; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def as_sent(scope: Scope) -> Scope:
    """Keep the path of an API request percent-encoded: an id in it may hold a slash."""
    raw = scope.get("raw_path")
    if raw is not None and raw.startswith(b"/v1/"):
        return {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
    return scope
