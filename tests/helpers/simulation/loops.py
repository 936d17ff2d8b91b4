"""Event loops of many processes with one clock, and threads that run one at a time."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet


class ProcessEnd(BaseException):
    """The end of a simulated process, in a thread of it; nothing catches it."""


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one process: callbacks run in order, in virtual time.

    A process that has ended runs nothing more, whatever its tasks were waiting for.
    """

    def __init__(self, name: str, world: LoopScheduler) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.alive = True
        self.crashed: BaseException | None = None
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._threads: list[SimulatedThread] = []
        self._kept: set[asyncio.Task[Any]] = set()
        self.set_exception_handler(self._report)
        world.loops.append(self)

    def time(self) -> float:
        """The virtual time."""
        return self.world.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call something at a time; what is due at the same time keeps its order."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self.world.count(), timer))
        return timer

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call something from a thread; only one of them runs at a time."""
        handle = self.call_soon(callback, *args, context=context)
        pause()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call a function in a simulated thread."""
        del executor
        answer: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                found = func(*args)
            except Exception as error:
                self.call_soon(_fail, answer, error)
            else:
                self.call_soon(_resolve, answer, found)

        SimulatedThread(work, loop=self).start()
        return answer

    def keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something as a task that nobody else refers to."""
        task = self.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    def started(self, thread: SimulatedThread) -> None:
        """Note a thread, to end it with the process."""
        self._threads = [each for each in self._threads if not each.is_over]
        self._threads.append(thread)

    def next_time(self) -> float | None:
        """When there is something to do: now, later, or never."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._ready:  # type: ignore[attr-defined] # of the base class
            return self.world.now
        return self._timers[0][0] if self._timers else None

    def step(self) -> None:
        """Run one callback."""
        ready = self._ready  # type: ignore[attr-defined] # of the base class
        while self._timers and self._timers[0][0] <= self.world.now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled():
                ready.append(timer)
        if not ready:
            return
        handle = ready.popleft()
        if not handle.cancelled():
            events._set_running_loop(self)
            try:
                handle._run()
            finally:
                events._set_running_loop(None)

    def end(self) -> None:
        """Drop what the process had begun; it runs no further."""
        self.alive = False
        for thread in self._threads:
            thread.end()
        running = events._get_running_loop()
        events._set_running_loop(None)  # what is left of its tasks runs nowhere
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _end(task.get_coro())
        events._set_running_loop(running)
        self._ready.clear()  # type: ignore[attr-defined] # of the base class
        self._timers.clear()
        if not self.is_closed():
            self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take errors that nobody waits for, while the process runs."""
        if self.alive:
            super().call_exception_handler(context)

    def _report(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, ProcessEnd):
            return
        self.crashed = self.crashed or error or RuntimeError(context["message"])

    def close(self) -> None:
        """Close the loop."""
        if not self.is_closed():
            super().close()


class LoopScheduler:
    """Runs the loops of all processes in turns that a random generator chooses."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.loops: list[ProcessLoop] = []
        self.steps = 0
        self._count = 0

    def count(self) -> int:
        """A number that grows."""
        self._count += 1
        return self._count

    def run(self, until: Callable[[], bool], most: int) -> bool:
        """Run until something is so; False if that takes too many steps."""
        for _ in range(most):
            if until():
                return True
            self.steps += 1
            self.loops = [loop for loop in self.loops if loop.alive]
            times = [(loop.next_time(), loop) for loop in self.loops]
            waiting = [(time, loop) for time, loop in times if time is not None]
            if not waiting:
                raise AssertionError("nothing is left to do")
            soonest = min(time for time, _ in waiting)
            self.now = max(self.now, soonest)
            due = [loop for time, loop in waiting if time <= self.now]
            loop = due[0] if len(due) == 1 else self.random.choice(due)
            loop.step()
            if loop.crashed is not None:
                raise loop.crashed
            if not loop.alive:
                loop.end()
        return False


class _Running:
    thread: SimulatedThread | None = None


_running = _Running()


def current_loop() -> ProcessLoop | None:
    """The loop of the process whose code is running, in its loop or in a thread of it."""
    if _running.thread is not None:
        return _running.thread.loop
    found = events._get_running_loop()
    return found if isinstance(found, ProcessLoop) else None


def pause(longest_s: float = 0.0) -> None:
    """Let others run, if this is a thread of a simulated process: it goes on some time later."""
    if _running.thread is not None:
        _running.thread.pause(longest_s)


class SimulatedThread:
    """A thread that runs only while the event loop waits for it, from one pause to the next."""

    def __init__(
        self,
        target: Callable[[], None],
        name: str = "",
        daemon: bool = True,
        loop: ProcessLoop | None = None,
    ) -> None:
        del name, daemon
        running = loop or current_loop()
        assert running is not None
        self.loop = running
        self._target = target
        self._stack = greenlet(self._run)
        self._ended = False
        self.parked = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self._stack.dead)

    def start(self) -> None:
        """Begin some time later."""
        self.loop.started(self)
        self._schedule(0.002)

    def _schedule(self, longest_s: float) -> None:
        delay = self.loop.world.random.uniform(0.0, longest_s) if longest_s else 0.0
        if self.loop.alive:
            self.loop.call_later(delay, self._resume)

    def _resume(self) -> None:
        """Run it up to its next pause."""
        if self._stack.dead:
            return
        before, loop = _running.thread, events._get_running_loop()
        events._set_running_loop(None)
        _running.thread = self
        self._stack.parent = getcurrent()
        try:
            self._stack.switch()
        finally:
            _running.thread = before
            events._set_running_loop(loop)

    def _run(self) -> None:
        try:
            if not self._ended:
                self._target()
        except ProcessEnd:
            pass
        except BaseException as error:
            if not self._ended:
                self.loop.crashed = error

    def pause(self, longest_s: float) -> None:
        """Let others run, and go on some time later."""
        if not self._ended:
            self._schedule(longest_s)
            self._wait()

    def park(self) -> None:
        """Let others run until `wake`."""
        if self._ended:
            raise ProcessEnd
        self.parked = True
        self._wait()

    def wake(self, longest_s: float) -> None:
        """Go on some time later, if it is parked."""
        if self.parked:
            self.parked = False
            self._schedule(longest_s)

    def _wait(self) -> None:
        self._stack.parent.switch()
        if self._ended:
            raise ProcessEnd

    def join(self) -> None:
        """Let it run to its end, while others wait."""
        while not self._stack.dead:
            self.parked = False
            self._resume()

    def end(self) -> None:
        """End it where it is."""
        self._ended = True
        if _running.thread is not self and self._stack:
            self._resume()


def current_thread() -> SimulatedThread | None:
    """The simulated thread that runs."""
    return _running.thread


def _end(work: Any) -> None:
    """End a coroutine where it waits, however often it tries to wait for something more.

    Closing it would be an error where it waits while it is closed, as streams do at their end,
    and the server would write that to its log.
    """
    for _ in range(100):
        try:
            work.throw(ProcessEnd())
        except BaseException:  # it has ended with the process; nobody is interested
            return


def _resolve(answer: asyncio.Future[Any], value: object) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
