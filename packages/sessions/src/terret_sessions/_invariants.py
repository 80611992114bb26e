from weakref import WeakKeyDictionary

from terret_context import Context, plugin

from ._errors import LogInvariantError
from ._events import SessionEvent
from ._progress import LogProgress
from ._session import Session
from ._store import Sessions


@plugin(inject=(Sessions,))
def log_invariants(ctx: Context) -> None:
    """Refuses events that would break the order of turns, steps, calls and results."""
    ctx[Sessions].validator(_LogInvariants())


class _LogInvariants:
    """Checks each candidate against what is in the log, which it follows one event behind."""

    def __init__(self) -> None:
        self._followed: WeakKeyDictionary[Session, _Follower] = WeakKeyDictionary()

    def __call__(self, session: Session, event: SessionEvent) -> None:
        follower = self._followed.get(session)
        if follower is None:
            follower = self._followed[session] = _Follower()
        follower.catch_up(session)
        try:
            follower.progress.check(event)
        except ValueError as error:
            raise LogInvariantError(session.id, event.type, event.seq, str(error)) from None


class _Follower:
    def __init__(self) -> None:
        self.progress = LogProgress()
        self._seen = 0

    def catch_up(self, session: Session) -> None:
        for event in session.events[self._seen :]:
            self.progress.advance(event)
        self._seen = len(session.events)
