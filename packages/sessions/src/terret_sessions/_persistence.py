from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from terret_context import ServiceKey

from ._events import SessionEvent
from ._headers import SessionHeader
from ._reasons import TurnEndReason
from ._session import Session


@dataclass(frozen=True, slots=True)
class SessionLog:
    """A stored session: its header and all of its events, as a read-only sequence."""

    header: SessionHeader
    events: Sequence[SessionEvent]


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The turn that a log began last, counted from 1; `end` is None while it is open."""

    number: int
    end: TurnEndReason | None


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A stored session as a list shows it, without its log having been read.

    `revision` changes with every append, `updated_at` (epoch ms) is the time of the last one.
    `last_turn` is None if the end of the log does not tell.
    """

    header: SessionHeader
    revision: str
    updated_at: int
    last_turn: LastTurn | None = None


class SessionPersistence(ABC):
    """Keeps sessions: what `ctx.get(SESSION_PERSISTENCE)` offers.

    Live sessions are kept without anybody asking. Methods raise SessionNotFoundError for an id that
    is not stored, SessionCorruptionError or SessionFormatUnsupportedError for an artifact that
    cannot be read, SessionLockedError if another process writes the session.
    """

    @abstractmethod
    async def create(self, header: SessionHeader) -> None:
        """Register a session that is not live; it is stored with its first events."""

    @abstractmethod
    async def append(self, id: str, events: Sequence[SessionEvent]) -> None:
        """Add events to a session that is not live; returns when they are durable.

        The first seq must be the next one: raises InvalidEventError.
        """

    @abstractmethod
    def prepare(self, id: str) -> AbstractAsyncContextManager[Session]:
        """Give the unpublished session for a resume, after its log was repaired durably.

        Enter and announce it inside the block; otherwise it is released at its end. Entering
        waits while another block of the id is open, and for a while if another process has the
        session. Raises SessionExistsError if the id is live.
        """

    def claim(self, id: str) -> AbstractAsyncContextManager[None]:
        """Keep the id of a session that is not stored for the block, which announces one.

        So of two processes that begin a session one comes first. Entering waits as for `prepare`;
        raises SessionConflictError if the session is stored by then.
        """
        return nullcontext()

    @abstractmethod
    async def load(self, id: str) -> SessionLog:
        """The balanced log, repaired durably if its last turn was open.

        A live session is flushed first; raises SessionStateError while its turn is open.
        """

    @abstractmethod
    async def inspect(self, id: str) -> SessionLog:
        """The balanced log without changing what is stored: closers are added in memory only."""

    @abstractmethod
    async def read_from(self, id: str, seq: int) -> Sequence[SessionEvent]:
        """The events from `seq` on, as they are."""

    @abstractmethod
    async def delete(self, id: str) -> None:
        """Remove a stored session for good, damaged ones too.

        Raises SessionStateError if it is live, SessionLockedError if another process has it.
        """

    @abstractmethod
    async def list(self) -> tuple[SessionHeader, ...]:
        """The headers of all stored sessions, oldest first. An empty session is not stored."""

    @abstractmethod
    async def list_snapshots(self) -> tuple[SessionSnapshot, ...]:
        """As `list`, with their revisions."""

    @abstractmethod
    def locate(self, header: SessionHeader) -> str | None:
        """Where the session is stored, for people; None if there is no such place."""

    @property
    @abstractmethod
    def supports_raw(self) -> bool:
        """Whether `read_raw` has something to give."""

    @abstractmethod
    async def read_raw(self, id: str) -> bytes:
        """The stored text, verbatim."""


SESSION_PERSISTENCE: Final = ServiceKey[SessionPersistence]("sessionPersistence")


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What a storage reads of a session: whole records only, best by a `LogReader`.

    `torn_marker` is what the storage needs to cut an incomplete record off its end; None if it is
    whole.
    """

    header: SessionHeader
    events: Sequence[SessionEvent]
    revision: str
    torn_marker: object | None = None


class SessionStorage(ABC):
    """The hooks of a backend. `SessionCoordinator` calls them, for one id one at a time.

    A write that is cancelled may have happened all the same.
    """

    async def acquire(self, id: str) -> None:  # noqa: B027 - a storage of its own needs none
        """Take the exclusive right to write the session; raises SessionLockedError."""

    async def release(self, id: str) -> None:  # noqa: B027 - as above
        """Give back what `acquire` took, and what is held open; idempotent."""

    @abstractmethod
    async def load_stored(self, id: str) -> StoredLog | None:
        """Read a session without changing it; None if it is not stored."""

    @abstractmethod
    async def read_stored_revision(self, id: str) -> str | None:
        """The current revision; None if the session is not stored."""

    async def load_stored_from(self, id: str, seq: int) -> Sequence[SessionEvent] | None:
        """The stored events from `seq` on; None if the session is not stored."""
        stored = await self.load_stored(id)
        return None if stored is None else stored.events[seq:]

    @abstractmethod
    async def append_batch(
        self,
        header: SessionHeader,
        events: Sequence[SessionEvent],
        *,
        materialized: bool,
        durable: bool = False,
    ) -> None:
        """Write events behind those that are stored; `materialized` tells whether there are any.

        With `durable` it returns when they are as safe as `sync` makes them, which saves a wait.
        All are written or none. Events whose seq is stored already are passed over. Raises
        SessionChangedError if somebody else changed or removed what is stored, or if the events do
        not follow it; the coordinator then looks again.
        """

    @abstractmethod
    async def commit_repair(
        self, header: SessionHeader, torn_marker: object | None, closers: Sequence[SessionEvent]
    ) -> None:
        """Cut the torn record off, write the closers, and make both durable."""

    async def sync(self, id: str) -> None:  # noqa: B027 - as above
        """Make what was written survive a loss of power, as far as the storage promises that."""

    @abstractmethod
    async def delete(self, id: str) -> None:
        """Remove the session, which was acquired and is stored, with all that belongs to it."""

    @abstractmethod
    async def list(self) -> tuple[SessionSnapshot, ...]:
        """All stored sessions, oldest first; one that cannot be read hides no other."""

    async def close(self) -> None:  # noqa: B027 - as above
        """Release everything."""

    def locate(self, header: SessionHeader) -> str | None:
        """Where the session is stored, for people."""
        return None

    async def read_raw(self, id: str) -> bytes | None:
        """The stored text, verbatim; None if the session is not stored or there is no text."""
        return None

    @property
    def supports_raw(self) -> bool:
        """Whether `read_raw` has something to give."""
        return False
