from operator import attrgetter
from typing import Final

from terret_context import Bail, Emit, Parallel

from ._events import SessionEvent
from ._session import Session

CREATED: Final = Bail[Session, None](
    "session/created",
    subject=attrgetter("scope"),
    doc="A session was entered and may now be used; an exception refuses it.",
)
EVENT: Final = Emit[Session, SessionEvent](
    "session/event",
    direct=True,
    doc="An event was appended to the log of a live session.",
)
DISPOSED: Final = Emit[Session](
    "session/disposed",
    subject=attrgetter("scope"),
    doc="A session whose creation was announced is no longer live.",
)
FLUSH: Final = Parallel[Session](
    "session/flush",
    subject=attrgetter("scope"),
    doc="Everything in the log must be durable when this returns.",
)
