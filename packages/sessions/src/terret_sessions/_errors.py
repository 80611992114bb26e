from terret_llm import HarnessError


class LosslessJsonError(HarnessError, ValueError):
    """Plain data from outside is not lossless JSON; `pointer` leads to the offending value."""

    def __init__(self, pointer: str, reason: str, *, event_type: str | None = None) -> None:
        subject = "" if event_type is None else f"{event_type}: "
        super().__init__(f"{subject}{pointer or '(the value itself)'}: {reason}", "NOT_LOSSLESS")
        self.pointer = pointer
        self.reason = reason
        self.event_type = event_type


class InvalidEventError(HarnessError, ValueError):
    """An event does not have the exact form its type asks for; nothing was appended."""

    def __init__(self, event_type: str, reason: str, *, seq: int | None = None) -> None:
        place = event_type if seq is None else f"seq {seq}, {event_type}"
        super().__init__(f"{place}: {reason}", "INVALID_EVENT")
        self.event_type = event_type
        self.seq = seq
        self.reason = reason


class UnreadableRowError(InvalidEventError):
    """A stored row is no JSON."""


class MisplacedEventError(InvalidEventError):
    """A stored row holds another event than the one that is next."""


class UnknownEventTypeError(InvalidEventError):
    """Nobody declared the type, and the event may not be skipped."""

    def __init__(self, event_type: str, *, seq: int | None = None) -> None:
        reason = "unknown type; install or import the package that declares it"
        super().__init__(event_type, reason, seq=seq)


class EventTypeConflictError(HarnessError):
    """Two packages declare one event type differently."""

    def __init__(self, event_type: str, first: str, second: str) -> None:
        message = f"event type {event_type!r} of {second} is already declared by {first}"
        super().__init__(message, "EVENT_TYPE_CONFLICT")
        self.event_type = event_type


class SurfaceError(HarnessError, ValueError):
    """An event would change the surface in a way that is not allowed; nothing changed."""

    def __init__(self, event_type: str, seq: int, reason: str) -> None:
        super().__init__(f"seq {seq}, {event_type}: {reason}", "INVALID_SURFACE")
        self.event_type = event_type
        self.seq = seq


class LogInvariantError(HarnessError):
    """An event would break an invariant of the log; it was vetoed."""

    def __init__(self, session_id: str, event_type: str, seq: int, reason: str) -> None:
        message = f"session {session_id!r}, seq {seq}, {event_type}: {reason}"
        super().__init__(message, "LOG_INVARIANT")
        self.session_id = session_id
        self.event_type = event_type
        self.seq = seq


class SessionBusyError(HarnessError, RuntimeError):
    """An append from inside the publication of another append of the same session."""

    def __init__(self, session_id: str, event_type: str) -> None:
        message = (
            f"session {session_id!r} is publishing an event, {event_type} cannot be appended here;"
            " append from a task (`ctx.spawn`)"
        )
        super().__init__(message, "SESSION_BUSY")
        self.session_id = session_id


class SessionExistsError(HarnessError):
    """The id is taken by a live session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is already live", "SESSION_ALREADY_EXISTS")
        self.session_id = session_id


class SessionNotFoundError(HarnessError, LookupError):
    """No session of this id, live or stored."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id!r}", "SESSION_NOT_FOUND")
        self.session_id = session_id


class SessionNotLiveError(HarnessError):
    """The session object is not, or no longer, the live one of its id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is not live in this store", "SESSION_NOT_LIVE")
        self.session_id = session_id


class SessionStateError(HarnessError, RuntimeError):
    """The session has passed the point at which this can be done."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"session {session_id!r}: {reason}", "SESSION_STATE")
        self.session_id = session_id


class ForkError(HarnessError, ValueError):
    """A session cannot be forked at this boundary: code INVALID_BOUNDARY or OPEN_TURN."""

    def __init__(self, session_id: str, boundary: int | None, reason: str, code: str) -> None:
        super().__init__(f"session {session_id!r} cannot be forked: {reason}", code)
        self.session_id = session_id
        self.boundary = boundary


class SessionCorruptionError(HarnessError):
    """A stored session is damaged before its end; nothing was changed."""

    def __init__(self, artifact: str, place: str, reason: str) -> None:
        super().__init__(f"{artifact}, {place}: {reason}", "SESSION_CORRUPT")
        self.artifact = artifact
        self.place = place
        self.reason = reason


class SessionFormatUnsupportedError(HarnessError):
    """A stored session has another version, or an event type that nobody declared."""

    def __init__(self, artifact: str, place: str, reason: str) -> None:
        super().__init__(f"{artifact}, {place}: {reason}", "SESSION_FORMAT")
        self.artifact = artifact
        self.place = place
        self.reason = reason


class SessionLockedError(HarnessError):
    """Another writer has the session open; `holder` says who."""

    def __init__(self, session_id: str, holder: str) -> None:
        super().__init__(f"session {session_id!r} is being written by {holder}", "SESSION_LOCKED")
        self.session_id = session_id
        self.holder = holder


class SessionChangedError(HarnessError):
    """Somebody else changed or removed what a storage had written of a session."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"session {session_id!r}: {reason}", "SESSION_CHANGED")
        self.session_id = session_id
        self.reason = reason


class SessionConflictError(HarnessError):
    """Another log is stored under the id of a live session."""

    def __init__(self, session_id: str, reason: str) -> None:
        message = f"session {session_id!r} cannot be stored: {reason}"
        super().__init__(message, "SESSION_CONFLICT")
        self.session_id = session_id
