"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta

import anyio

from terret_agents import CLOCK, Clock
from terret_context import Context, Plugin


class ManualClock(Clock):
    """A clock for tests: mount `clock.plugin()`, wait until somebody sleeps, then advance it."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._sleepers: dict[anyio.Event, datetime] = {}
        self._slept = anyio.Event()

    def now(self) -> datetime:
        """Returns the time of day; the first of January 2026 to begin with."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Returns when the clock was advanced by that much."""
        awake = anyio.Event()
        self._sleepers[awake] = self._now + timedelta(seconds=seconds)
        self._slept.set()
        try:
            await awake.wait()
        finally:
            self._sleepers.pop(awake, None)

    async def sleeping(self) -> None:
        """Waits until somebody sleeps."""
        while not self._sleepers:
            self._slept = anyio.Event()
            await self._slept.wait()

    def advance(self, seconds: float) -> None:
        """Lets time pass, and wakes whoever slept no longer than that."""
        self._now += timedelta(seconds=seconds)
        for awake, until in self._sleepers.items():
            if until <= self._now:
                awake.set()

    def plugin(self) -> Plugin:
        """Returns the plugin that makes this the clock of a harness."""

        def manual_clock(ctx: Context) -> None:
            ctx.provide(CLOCK, self)

        return Plugin(name="manual-clock", body=manual_clock, provides=("clock",))
