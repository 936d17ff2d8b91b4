"""Quotas: how much of a server one tenant may use.

Subscriptions, active messages and bytes are checked by the tenant's writer thread for each event,
before it is applied; what is refused has no effect. The others are checked where they are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from nearcast.engine import Engine
from nearcast.engine.core import EventCore
from nearcast.errors import InvalidValue
from nearcast.events import Event, Move, Publish, Subscribe
from nearcast.pacing import TokenBucket
from nearcast.server.keys import check_name
from nearcast.server.problems import QuotaError


class QuotaKind(NamedTuple):
    """A quota: the status of what it refuses, what it counts, and what makes room."""

    status: int
    counts: str
    remedy: str


KINDS = {
    "subscriptions": QuotaKind(507, "subscriptions", "end some"),
    "messages": QuotaKind(507, "active messages", "retract some, or wait until some have ended"),
    "listeners": QuotaKind(429, "listeners", "close some"),
    "webhooks": QuotaKind(507, "webhooks", "remove some"),
    "bytes": QuotaKind(507, "stored bytes", "end subscriptions, or retract messages"),
    "events": QuotaKind(429, "events a second, over all keys of a tenant", "slow down"),
}
"""All quotas by their names."""

_EXPECTED = f"QUOTA=N or TENANT:QUOTA=N, where QUOTA is one of {', '.join(KINDS)}"


@dataclass(frozen=True)
class Quotas:
    """The quotas of every tenant, and those that one tenant has instead."""

    of_all: Mapping[str, float] = field(default_factory=dict)
    of_tenant: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def limits(self, tenant: str) -> dict[str, float]:
        """The limits of a tenant by the names of their quotas."""
        return {**self.of_all, **self.of_tenant.get(tenant, {})}


def read_quotas(given: Iterable[str], option: str = "--quota") -> Quotas:
    """Read quotas as they are written: `subscriptions=1000`, `acme:bytes=1e9`."""
    of_all: dict[str, float] = {}
    of_tenant: dict[str, dict[str, float]] = {}
    for text in given:
        name, is_set, number = text.partition("=")
        tenant, is_one, kind = name.rpartition(":")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not is_set or kind not in KINDS or not 0 <= limit < 2**63:
            raise InvalidValue(option, text, _EXPECTED)
        if kind == "events" and not limit:
            raise InvalidValue(option, text, "more than 0 events a second")
        if is_one:
            of_tenant.setdefault(check_name(tenant, option), {})[kind] = limit
        else:
            of_all[kind] = limit
    return Quotas(of_all, of_tenant)


class TenantQuotas:
    """The quotas of one tenant: its limits, its rate, and how often each has refused something.

    Used by the event loop and by the tenant's writer thread.
    """

    def __init__(
        self, tenant: str, limits: Mapping[str, float], clock: Callable[[], float]
    ) -> None:
        self.tenant = tenant
        self.limits = dict(limits)
        rate = limits.get("events")
        self.bucket = None if rate is None else TokenBucket(rate, clock)
        self._lock = Lock()
        self.refused: Counter[str] = Counter()

    def refuse(self, kind: str, retry_after_s: float | None = None) -> QuotaError:
        """Count what a quota refuses, and return the error that says so."""
        with self._lock:
            self.refused[kind] += 1
        status, counts, remedy = KINDS[kind]
        limit = self.limits[kind]
        return QuotaError(
            f"quota {kind}: tenant {self.tenant!r} may have {limit:,.15g} {counts}; {remedy}, or "
            f"have the operator allow more (--quota {self.tenant}:{kind}=N)",
            status,
            kind,
            limit,
            retry_after_s,
        )

    def check(self, kind: str, used: int) -> None:
        """Raise an error if one more would be above a quota."""
        limit = self.limits.get(kind)
        if limit is not None and used >= limit:
            raise self.refuse(kind, 5.0 if KINDS[kind].status == 429 else None)

    def admission(self, engine: Engine) -> EventAdmission | None:
        """What checks the events of a batch; None if no quota concerns them."""
        limits = self.limits
        if not limits.keys() & {"subscriptions", "messages", "bytes"}:
            return None
        return EventAdmission(self, engine)


class EventAdmission:
    """Refuses the events of a batch that are above a quota of their tenant.

    Bytes are looked at once, before the batch: it may end above the quota by what it adds itself.
    """

    def __init__(self, quotas: TenantQuotas, engine: Engine) -> None:
        self._quotas = quotas
        self._engine = engine
        most = quotas.limits.get("bytes")
        self._is_full = most is not None and engine.stored_bytes() >= most

    def admits_all(self, core: EventCore, events: Sequence[Event]) -> bool:
        """Whether none of some events would be refused, whatever becomes of the others."""
        if self._is_full:
            return False
        limits = self._quotas.limits
        subscriptions, messages = limits.get("subscriptions"), limits.get("messages")
        if subscriptions is not None:
            new = sum(isinstance(event, Subscribe) for event in events)
            if new and len(core) + new > subscriptions:
                return False
        if messages is not None:
            new = sum(isinstance(event, Publish) and event.message.ttl > 0 for event in events)
            if new and len(core.active) + new > messages:
                return False
        return True

    def refusal(self, core: EventCore, event: Event) -> QuotaError | None:
        """Why the next event is refused; None if it is not."""
        at = (core.now or 0.0) if event.at is None else event.at
        quotas, limits = self._quotas, self._quotas.limits
        match event:
            case Subscribe(subscription) if "subscriptions" in limits:
                full = len(core) >= limits["subscriptions"] and not core.attributes.ends_by(at)
                if full and core.subscription(subscription.id) is None:
                    return quotas.refuse("subscriptions")
            case Publish(message) if "messages" in limits and message.ttl > 0:
                most = limits["messages"]
                full = len(core.active) >= most and core.active.living(at) >= most
                if full and not core.active.has(message.id, at):
                    return quotas.refuse("messages")
        # Whatever frees something is let in: time passes with accepted events only.
        if self._is_full and isinstance(event, Subscribe | Publish | Move):
            if core.attributes.ends_by(at) or self._engine.frees_by(at):
                return None
            return quotas.refuse("bytes")
        return None


class QuotaRegistry:
    """The quotas of all tenants of a server."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._clock = clock
        self._known: dict[str, TenantQuotas] = {}

    def of(self, tenant: str) -> TenantQuotas:
        """Those of a tenant."""
        known = self._known.get(tenant)
        if known is None:
            limits = self._quotas.limits(tenant)
            known = self._known[tenant] = TenantQuotas(tenant, limits, self._clock)
        return known

    def __iter__(self) -> Iterator[TenantQuotas]:
        return iter(list(self._known.values()))
