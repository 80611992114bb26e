"""Time, as far as somebody waits for it."""

from datetime import UTC, datetime
from typing import Protocol

import anyio

from terret_context import Context, ServiceKey


class Clock(Protocol):
    """What tells the time and lets it pass; a test provides its own under the key `CLOCK`."""

    def now(self) -> datetime:
        """Returns the time of day, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns when that time has passed."""
        ...


CLOCK: ServiceKey[Clock] = ServiceKey("clock")


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def clock_of(ctx: Context) -> Clock:
    """Returns the clock that a context sees, else that of the machine."""
    return ctx.get(CLOCK) or SystemClock()


def timestamp(moment: datetime) -> str:
    """Writes a moment as ISO 8601 in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
