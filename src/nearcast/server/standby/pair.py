"""A server and its role: following, promotion, fencing, and the check at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from nearcast.engine import Engine
from nearcast.errors import NearcastError
from nearcast.server.problems import Problem
from nearcast.server.standby.follower import Follower
from nearcast.server.standby.peers import PeerError, PeerServer
from nearcast.server.standby.role import FENCED, PRIMARY, STANDBY

if TYPE_CHECKING:
    from nearcast.server.state import ServerState
    from nearcast.server.tenants import Tenant
    from nearcast.store.webhooks import Webhook

log = structlog.get_logger("nearcast.standby")
_CATCH_UP_S = 10.0
_ASK_AGAIN_S = 0.5
_SETTLE_S = 2.0


class ServerPair:
    """Keeps a server in its role, and changes it."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._role = state.role
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._promoted = False
        self.follower: Follower | None = None

    def open(self) -> None:
        """Take up the role that the record, or `--follow`, gives this server."""
        role, follow = self._role, self._state.config.follow
        record = role.record
        if role.is_standby or (follow is not None and (role.is_new or record.role == FENCED)):
            self._follow(follow or record.primary or "")
        elif role.is_primary:
            role.is_checked = record.follower is None and follow is None
            self._begin(self._check())
            if record.unfenced is not None:
                self._begin(self._fence_later(record.unfenced))

    async def close(self) -> None:
        """End what was begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.follower is not None:
            await self.follower.stop()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _peer(self, url: str) -> PeerServer:
        return PeerServer(url, self._state.config.follow_key)

    def _follow(self, url: str) -> None:
        self._role.assume(role=STANDBY, primary=url, follower=None, follower_id=None, unfenced=None)
        self._state.tenants.only_stored = True
        self.follower = Follower(self._state, self._peer(url))

    def connected(self) -> bool:
        """Whether the other server of the pair is connected."""
        if self.follower is not None:
            return self.follower.connected
        return any(tenant.backend.commits.connected.is_set() for tenant in self._state.tenants)

    async def settle(self) -> None:
        """Give the standby what it does not have yet; called before the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                for tenant in self._state.tenants:
                    await tenant.backend.ask(_end)
                    await tenant.backend.commits.settle()

    def lag(self) -> tuple[int, float]:
        """How far the standby is behind: commits, and seconds; of the tenant furthest behind."""
        if self.follower is not None:
            return self.follower.lag()
        lags = [tenant.backend.commits.lag() for tenant in self._state.tenants]
        return (
            max((commits for commits, _ in lags), default=0),
            max((seconds for _, seconds in lags), default=0.0),
        )

    def shown(self) -> dict[str, object]:
        """What `/readyz` says; nothing for a server that never had a standby."""
        role = self._role
        if role.is_new:
            return {}
        commits, seconds = self.lag()
        shown: dict[str, object] = {
            **role.shown(),
            "accepts_changes": role.is_primary and role.is_checked,
            "connected": self.connected(),
            "lag_commits": commits,
            "lag_seconds": round(seconds, 3),
        }
        return shown | ({} if role.is_primary else {"primary": role.record.primary})

    async def _check(self) -> None:
        """Find out whether another server was promoted, before any change is accepted."""
        role, follow = self._role, self._state.config.follow
        waits = False
        for url in dict.fromkeys(each for each in (role.record.follower, follow) if each):
            while role.is_primary:
                superior = await self.find_superior(url)
                if superior is not None:
                    await self.fence(superior, url)
                elif role.is_checked or url != role.record.follower:
                    break  # only its standby can have been promoted instead of it
                elif not waits:
                    waits = True
                    log.warning("waits for its standby before it accepts changes", standby=url)
                await asyncio.sleep(_ASK_AGAIN_S)
        if role.is_primary:
            role.is_checked = True
            await self._activate()

    async def find_superior(self, url: str) -> int | None:
        """The term of a server, if it was promoted instead of this one; checks what it says."""
        peer = self._peer(url)
        try:
            said = await peer.role()
        except PeerError:
            return None
        finally:
            await peer.close()
        if said.get("role") == PRIMARY and said.get("term", 0) > self._role.record.term:
            return int(said["term"])
        if url == self._role.record.follower:
            self._role.is_checked = True
        return None

    async def _activate(self) -> None:
        """Begin the term in every open tenant, and deliver for webhooks."""
        for tenant in self._state.tenants:
            await self.activate(tenant)

    async def activate(self, tenant: Tenant) -> None:
        """Begin the term in a tenant of a primary; deliver for its webhooks once that is checked.

        A tenant that was never followed has no terms, and gets none.
        """
        role = self._role
        term = role.record.term

        def begin(engine: Engine) -> tuple[int, list[Webhook]]:
            lineage = engine.lineage
            if lineage is None or not lineage.terms:
                return 0, engine.webhooks.all()
            if lineage.terms[-1].number < term:
                tenant.backend.commits.start(lineage)
                lineage.begin(term)
            return lineage.terms[-1].number, engine.webhooks.all()

        found, hooks = await tenant.backend.ask(begin)
        if found > term:  # the file comes from a backup, which has no record of the role
            role.change(term=max(found, role.record.term))
        if role.is_checked:
            if self._promoted:  # what it has counts, also if it was opened after that
                tenant.backend.commits.settled.set()
            await self._state.archive.follow(tenant)
            if role.is_primary:  # and was not fenced meanwhile
                self._state.dispatcher.start(tenant, hooks)

    async def promote(self) -> dict[str, Any]:
        """Make this server the primary; the old one is fenced first, if it can be reached."""
        async with self._changing:
            role = self._role
            fenced, caught_up = True, True
            if not (role.is_primary and role.is_checked):
                fenced, caught_up = await self._replace_primary()
            record = role.record
            positions = {each.name: await each.backend.ask(_end) for each in self._state.tenants}
            return {
                "role": record.role,
                "term": record.term,
                "fenced": fenced,
                "caught_up": caught_up,
                "tenants": {
                    name: {"position": position, "last_update": last}
                    for name, (position, last) in positions.items()
                },
            }

    async def _replace_primary(self) -> tuple[bool, bool]:
        role, follower = self._role, self.follower
        old = role.record.primary or role.record.follower
        term, fenced, caught_up = role.record.term + 1, False, False
        if follower is not None:
            missing = sorted(set(follower.places) - set(self._state.tenants.stored()))
            if missing or not self._state.ready:
                raise Problem(
                    409,
                    "not-copied",
                    f"this standby has not copied {', '.join(missing) or 'anything'} yet; wait",
                )
            try:
                said = await follower.peer.fence(term, self._state.config.advertise)
                caught_up = await follower.reach(said["positions"], _CATCH_UP_S)
                fenced = True
            except PeerError as error:
                log.warning("the old primary is not fenced", primary=old, reason=str(error))
                if error.status == 409:
                    raise Problem(409, "stale-term", f"{old}: {error}") from None
            await follower.stop()
            self.follower = None
        unfenced = None if fenced else old
        role.is_checked = False  # until the term has begun in every tenant
        role.change(
            role=PRIMARY, term=term, primary=None, unfenced=unfenced, follower=None,
            follower_id=None,
        )  # fmt: skip
        self._state.tenants.only_stored = False
        await self._activate()
        for tenant in self._state.tenants:
            tenant.backend.commits.settled.set()
        role.is_checked = self._promoted = True
        log.warning("promoted", term=term, fenced=fenced, caught_up=caught_up)
        await self._activate()
        if unfenced is not None:
            self._begin(self._fence_later(unfenced))
        return fenced, caught_up

    async def _fence_later(self, url: str) -> None:
        """Tell a primary that this server was promoted, as soon as it can be reached."""
        peer = self._peer(url)
        try:
            while self._role.is_primary:
                with suppress(PeerError):
                    await peer.fence(self._role.record.term, self._state.config.advertise)
                    self._role.change(unfenced=None)
                    log.info("the old primary is fenced", primary=url)
                    return
                await asyncio.sleep(_ASK_AGAIN_S)
        finally:
            await peer.close()

    async def fence(self, term: int, primary: str | None) -> dict[str, Any]:
        """Accept no more changes, as another server was promoted; return how far this one came."""
        role = self._role
        if role.is_standby:
            return {"role": role.record.role, "term": role.record.term, "positions": {}}
        if term <= role.record.term and not (
            role.record.role == FENCED and term == role.record.term
        ):
            raise Problem(
                409,
                "stale-term",
                f"this server is in term {role.record.term} already; promote with a higher one",
                term=role.record.term,
            )
        await self._state.dispatcher.pause()  # and write how far webhooks are
        role.change(role=FENCED, term=term, primary=primary, unfenced=None)
        log.warning("fenced: accepts no more changes", term=term, primary=primary)
        await self._state.dispatcher.pause()
        positions: dict[str, int] = {}
        for tenant in self._state.tenants:
            with suppress(NearcastError):
                positions[tenant.name] = (await tenant.backend.ask(_end))[0]
        if self._state.config.follow is not None:
            self._begin(self._rejoin(self._state.config.follow))
        return {"role": FENCED, "term": term, "positions": positions}

    async def _rejoin(self, url: str) -> None:
        """Follow the server that `--follow` names, once that is the primary."""
        peer = self._peer(url)
        try:
            while self._role.record.role == FENCED:
                with suppress(PeerError):
                    said = await peer.role()
                    if said.get("role") == PRIMARY and said["term"] >= self._role.record.term:
                        self._follow(url)
                        return
                await asyncio.sleep(_ASK_AGAIN_S)
        finally:
            await peer.close()


def _end(engine: Engine) -> tuple[int, int]:
    return (0 if engine.lineage is None else engine.lineage.position), engine.log.last
