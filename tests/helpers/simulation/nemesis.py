"""Trouble: crashes, promotions, cuts in the network, full disks and failing receivers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulation.model import demand
from simulation.network import ConnectionLost

if TYPE_CHECKING:
    from simulation.servers import SimulatedServer
    from simulation.world import World


async def make_trouble(world: World) -> None:
    """A few acts, with pauses; each is put right before the next."""
    draw = world.random
    acts = [_crash, _crash, _crash_in_commit, _crash_in_commit, _drop, _slow, _full_disk, _hooks]
    if len(world.servers) > 1:
        acts += [_crash_standby, _crash_both, _promote, _promote, _promote, _switch, _cut]
    await asyncio.sleep(draw.uniform(0.1, 1.0))
    for _ in range(draw.randint(1, 3)):
        act = draw.choice(acts)
        world.note("act", act.__name__)
        await act(world)
        await asyncio.sleep(draw.uniform(0.1, 0.8))


async def _pause(world: World, longest_s: float = 2.0) -> None:
    await asyncio.sleep(world.random.uniform(0.0, longest_s))


async def _recover(world: World) -> None:
    """Start whoever has ended, and wait for them, mostly."""
    await _pause(world)
    world.revive()
    if world.random.random() < 0.7:
        for each in world.servers:
            await world.ready(each, connected=len(world.servers) > 1)


async def _crash(world: World) -> None:
    world.truth.disk.tears = world.random.random() < 0.5
    world.truth.crash()
    await _recover(world)


async def _die_in_commit(world: World, server: SimulatedServer) -> None:
    """Let a server die at one of its next changes to the disk; the power may go with it."""
    draw = world.random
    server.disk.tears = draw.random() < 0.5
    server.disk.dies_in = draw.randint(1, 25)
    for _ in range(40):
        if not server.alive:
            return
        await asyncio.sleep(0.1)
    server.disk.dies_in = 0


async def _crash_in_commit(world: World) -> None:
    await _die_in_commit(world, world.random.choice(world.servers))
    await _recover(world)
    if world.random.random() < 0.3:  # while it opens its files
        server = world.random.choice(world.servers)
        server.crash()
        server.disk.dies_in = world.random.randint(1, 12)
        await _recover(world)


async def _crash_standby(world: World) -> None:
    world.source_of(world.truth).crash()
    await _recover(world)


async def _crash_both(world: World) -> None:
    for each in world.random.sample(world.servers, 2):
        each.crash()
        await _pause(world, 0.3)
    await _recover(world)


async def _ask_to_promote(world: World, server: SimulatedServer) -> bool:
    """Promote a server; it may refuse, or not be there."""
    old = world.truth
    try:
        answer = await world.tenancies["default"].ask(server.name, "POST", "/v1/promote", {})
    except ConnectionLost:
        return False
    world.note("asked", server.name, "to promote:", answer.status)
    if answer.status == 200 and answer.json["caught_up"] and server is not old:
        for name in world.tenancies:
            before, after = old.model(name).history, server.model(name).history
            count = len(before.events)
            demand(after.events[:count] == before.events, name, "caught up, and is not", count)
    return answer.status == 200


async def _promote(world: World) -> None:
    """Promote the standby of a primary that has ended."""
    old, new = world.truth, world.source_of(world.truth)
    if world.random.random() < 0.3:
        await _die_in_commit(world, old)
    old.crash()
    await _pause(world, 0.5)
    if world.random.random() < 0.2:
        new.disk.dies_in = world.random.randint(1, 10)
    await _ask_to_promote(world, new)
    await _recover(world)


async def _switch(world: World) -> None:
    """Promote the standby while the primary works."""
    await _ask_to_promote(world, world.source_of(world.truth))
    await _recover(world)


async def _cut(world: World) -> None:
    """Cut the servers off from each other; promote the standby, if nothing can be lost by that."""
    names = frozenset(each.name for each in world.servers)
    world.network.cut.add(names)
    world.network.drop(*names)
    await _pause(world)
    if world.replicated and world.random.random() < 0.6:
        await _ask_to_promote(world, world.source_of(world.truth))
        await _pause(world, 4.0)
    world.network.cut.clear()
    await _recover(world)


async def _drop(world: World) -> None:
    for _ in range(world.random.randint(1, 4)):
        world.network.drop(world.random.choice(world.servers).name)
        await _pause(world, 0.5)


async def _slow(world: World) -> None:
    world.network.slow, world.network.stalls = 0.2, 0.2
    await _pause(world, 3.0)
    world.network.slow, world.network.stalls = 0.0, world.stalls


async def _full_disk(world: World) -> None:
    server = world.random.choice(world.servers)
    server.disk.fails = world.random.choice((0.2, 1.0))
    await _pause(world, 3.0)
    server.disk.fails = 0.0


async def _hooks(world: World) -> None:
    world.receivers.fails = world.random.choice((0.3, 0.9))
    await _pause(world, 3.0)
    world.receivers.fails = 0.0
