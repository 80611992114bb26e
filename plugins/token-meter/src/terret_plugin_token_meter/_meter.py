from collections.abc import Mapping, Sequence
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from terret_llm import Message
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    ContextBreakdown,
    ContextPressure,
    Measurement,
    Session,
    SessionEvent,
    StepEnd,
    StepStart,
    SurfaceError,
    TokenMeter,
    TokenUsage,
)

from ._pricing import Pricing
from ._projections import BreakdownProjection, PressureProjection, Projection, UsageProjection
from ._surface import Change, PricedSurface

VERSION: Final = 1


class UnreadableLogError(ValueError):
    """An event that does not follow from the log in front of it."""

    def __init__(self, event: SessionEvent, reason: str) -> None:
        super().__init__(f"{event.type} at seq {event.seq}: {reason}")
        self.seq = event.seq


class Follower:
    """Everything that is known of one log, up to `seen`; a refused event changes nothing."""

    def __init__(self, pricing: Pricing) -> None:
        self.surface = PricedSurface(pricing)
        self.usage = UsageProjection()
        self.pressure = PressureProjection()
        self.breakdown = BreakdownProjection()
        self.seen = 0
        self._step: tuple[int, int] | None = None

    @property
    def projections(self) -> dict[str, Projection]:
        return {
            "tokenUsage": self.usage,
            "contextPressure": self.pressure,
            "contextBreakdown": self.breakdown,
        }

    def catch_up(self, events: Sequence[SessionEvent], *, restored: int = 0) -> None:
        """Take the events that are new; those before `restored` the projections know already."""
        for event in events[self.seen :]:
            change = self._planned(event)
            if event.seq >= restored:
                self.breakdown.take(event, change)  # it may refuse, before anything has changed
                self.usage.take(event, change)
                self.pressure.take(event, change)
            self.surface.commit(event, change)
            self._follow(event)
            self.seen += 1

    def _planned(self, event: SessionEvent) -> Change:
        if event.seq != self.seen:
            raise UnreadableLogError(event, f"seq {self.seen} is next")
        view = event.view
        is_rewrite = event.surface_op not in (None, "append")
        if isinstance(view, AssistantChunk | AssistantMessage | StepEnd) and not is_rewrite:
            if (view.turn, view.step) != self._step:
                raise UnreadableLogError(event, f"step {view.step} of turn {view.turn} is not open")
        elif isinstance(view, StepStart) and self._step is not None:
            raise UnreadableLogError(event, "the step in front of it has not ended")
        try:
            return self.surface.plan(event)
        except SurfaceError as error:
            raise UnreadableLogError(event, str(error)) from error

    def _follow(self, event: SessionEvent) -> None:
        view = event.view
        if isinstance(view, StepStart):
            self._step = view.turn, view.step
        elif isinstance(view, StepEnd):
            self._step = None


@final
class LogTokenMeter(TokenMeter):
    """Measures sessions by folding their logs, as far as that was not done before."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self._followers: WeakKeyDictionary[Session, Follower] = WeakKeyDictionary()

    def measure(
        self, session: Session, *, replaced: Mapping[int, Sequence[Message]] | None = None
    ) -> Measurement:
        """The tokens of the next request."""
        return self._current(session).surface.measure(replaced or {})

    def usage(self, session: Session) -> TokenUsage:
        """What the session has cost."""
        return self._current(session).usage.value

    def pressure(self, session: Session) -> ContextPressure | None:
        """How full the context is."""
        return self._current(session).pressure.value

    def breakdown(self, session: Session) -> ContextBreakdown:
        """What the next request consists of."""
        return self._current(session).breakdown.value

    def checkpoint(self, session: Session) -> dict[str, object]:
        """The projections as JSON, with the place in the log that they belong to."""
        current = self._current(session)
        states = {name: each.state() for name, each in current.projections.items()}
        return {"version": VERSION, "seq": current.seen, **states}

    def restore(self, session: Session, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        follower = Follower(self._pricing)
        events = session.events
        try:
            seq, version = checkpoint["seq"], checkpoint["version"]
            if version != VERSION or type(seq) is not int or not 0 <= seq <= len(events):
                raise ValueError(f"version {version} up to seq {seq} is not of this log")
            for name, projection in follower.projections.items():
                projection.restore(checkpoint[name])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the checkpoint is malformed: {error!r}") from error
        follower.catch_up(events, restored=seq)
        self._followers[session] = follower

    def _current(self, session: Session) -> Follower:
        follower = self._followers.get(session)
        if follower is None:
            follower = self._followers[session] = Follower(self._pricing)
        follower.catch_up(session.events)
        return follower
