"""The configuration of a server, fixed when it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from nearcast.engine.settings import GivenSettings
from nearcast.server.quotas import Quotas
from nearcast.server.telemetry import Telemetry
from nearcast.server.tls import TlsFiles

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits for a request, a listener or a webhook."""

    body_bytes: int = 1 << 20
    bulk_bytes: int = 1 << 28
    keyed_bytes: int = 1 << 24
    keyed_cost: int = 1 << 24
    line_bytes: int = 1 << 20
    slice_lines: int = 2000
    slice_bytes: int = 1 << 18
    query_characters: int = 4096
    flat_query_characters: int = 1 << 14
    text_characters: int = 1 << 16
    region_positions: int = 10_000
    page: int = 1000
    listened: int = 1000
    listeners: int = 20_000
    queued_bytes: int = 1 << 18
    unacknowledged: int = 1000
    live_per_second: float = 200.0


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a server: its data, who may connect, and the limits.

    Without `data` everything is kept in memory. `open` lets requests without a key in, as the
    tenant `default` with every scope: right on a loopback address only. `lead_s` is how far the
    time of an event may be ahead of the clock; `header_s` and `body_s` are how long the headers
    of a request may take, and how long its body may pause. `waiting_bytes` is how many bytes the
    requests of a tenant may have that wait for its writer.

    `map_style` is the address of a MapLibre style that the live map is drawn on.

    With `follow` the server is a standby of the one at that address, which `follow_key` opens.
    `advertise` is the address at which the other server of a pair reaches this one. With
    `confirmed_within_s` a standby has to confirm every change before it is answered.

    `archive` is the folder, local or remote, for continuous copies: commits go there every
    `archive_s`, a full copy every `archive_full_s`, and what is older than `archive_days` is
    removed.
    """

    data: Path | None = None
    open: bool = True
    hosts: frozenset[str] = frozenset(LOOPBACK_NAMES)
    origins: frozenset[str] = frozenset()
    engine: str = "embedded"
    index: str = "auto"
    workers: int | None = None
    partitioner: str = "auto"
    master: str | None = None
    given: GivenSettings = field(default_factory=GivenSettings)
    limits: Limits = field(default_factory=Limits)
    quotas: Quotas = field(default_factory=Quotas)
    lead_s: float = 300.0
    header_s: float = 10.0
    body_s: float = 60.0
    keep_alive_s: float = 15.0
    stalled_s: float = 120.0
    retain_seconds: float | None = None
    retain_updates: int | None = None
    waiting_bytes: float = 256e6
    tls: TlsFiles | None = None
    map_style: str | None = None
    private_webhooks: bool = False
    webhook_attempts: int = 10
    webhook_pause_s: float = 1.0
    webhook_deadline_s: float = 10.0
    follow: str | None = None
    follow_key: str | None = field(default=None, repr=False)
    advertise: str | None = None
    resync: bool = False
    confirmed_within_s: float | None = None
    archive: str | None = None
    archive_s: float = 5.0
    archive_full_s: float = 86_400.0
    archive_days: float | None = None
    telemetry: Telemetry = field(default_factory=Telemetry)
    poll_s: float = 0.5
    clock: Callable[[], float] = time.time


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
