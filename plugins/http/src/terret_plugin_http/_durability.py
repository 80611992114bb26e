"""What is told as a fact is in the log for good."""

from weakref import WeakKeyDictionary

import anyio

from terret_context import Context
from terret_sessions import Session, Sessions


class Durability:
    """Knows how much of each log is durable; whoever waits for the same shares a flush."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._lengths = WeakKeyDictionary[Session, int]()
        self._locks = WeakKeyDictionary[Session, anyio.Lock]()

    async def reach(self, session: Session, length: int) -> None:
        """Returns when so many events are durable, or never will be; that is reported."""
        if self._has(session, length):
            return
        async with self._locks.setdefault(session, anyio.Lock()):
            if self._has(session, length):
                return
            present = len(session.events)
            try:
                await self._ctx[Sessions].flush(session)
            except Exception as error:
                self._ctx.report(error, label=f"flush of {session.id}")
            self._lengths[session] = present

    def _has(self, session: Session, length: int) -> bool:
        return not session.live or self._lengths.get(session, 0) >= length
