"""The driver of a turn-based agent: wakes, turns one after the other, cancellation, maintenance."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, final

import anyio
import anyio.lowlevel

from terret_context import Context
from terret_llm import Message, Source, failure_of
from terret_sessions import (
    Aborted,
    CancelCause,
    Errored,
    Session,
    Sessions,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)

from ._agent import DISPOSED, AgentOptions
from ._base import AgentBase
from ._errors import AgentBusyError, MaintenanceAbortedError
from ._events import ERROR
from ._inbox import Batch, Target
from ._payloads import AgentFailure
from ._service import Agents
from ._turns import Activity, TurnOutcome, sole_error

T = TypeVar("T")


class TurnAgent(AgentBase):
    """An agent that runs its input turn by turn; a loop supplies `run_turn`.

    A task exists only while there is work. The log stays balanced whatever `run_turn` does: each
    turn that was opened is closed, by its outcome, its exception or its cancellation.
    """

    def __init__(self, ctx: Context, session: Session, options: AgentOptions | None = None) -> None:
        super().__init__(ctx, session, options)
        self._turn = session.last_turn
        self._step = 0
        self._activity: Activity | None = None
        self._claimed: Batch | Exception | None = None  # what the open turn starts with
        self._settled: anyio.Event | None = None
        self._started = False
        self._latched = False

    @abstractmethod
    async def run_turn(self, batch: Batch) -> TurnOutcome:
        """Runs the open turn with the input it claimed; called inside the turn's cancel scope.

        `turn/start` is in the log and `turn/end` follows. An exception ends the turn with an
        error, `cancel` with its cause.
        """

    @property
    @final
    def turn(self) -> int:
        """The number of the open or last turn, 0 before the first."""
        return self._turn

    @property
    @final
    def step(self) -> int:
        """The number of the last step of this turn, 0 before the first."""
        return self._step

    @property
    @final
    def cause(self) -> CancelCause | None:
        """Why the running activity was cancelled, if it was."""
        return None if self._activity is None else self._activity.cause

    @final
    async def check(self) -> None:
        """Reaches a checkpoint, which raises, if the running activity was cancelled."""
        if self.cause is not None:
            await anyio.lowlevel.checkpoint()

    @contextmanager
    @final
    def open_step(self) -> Iterator[int]:
        """Opens the next step of the turn, yields its number, and closes it however it ends."""
        step = self._step + 1
        self.session.append("step/start", StepStart(self._turn, step))
        self._step = step
        try:
            yield step
        finally:
            self.session.append("step/end", StepEnd(self._turn, step))

    @final
    def give_back(self, batch: Batch) -> None:
        """Puts the messages of a refused batch that were not meant to wake at the head again."""
        kept = [message for message in batch.messages if message.id not in batch.waking]
        self.inbox.prepend("next-step", *kept)

    def send(
        self,
        message: str | Message,
        target: Target = "next-turn",
        wake: bool = True,
        *,
        source: Source | None = None,
    ) -> Message:
        """See `Agent.send`."""
        self.admit()
        accepted = self.accept(message, source)
        late = wake and self.cause is not None
        self.inbox.append("next-turn" if late else target, accepted, waking=wake)
        if wake:
            self._wake(late)
        return accepted

    def cancel(self, cause: CancelCause, keep_inbox: bool = False) -> None:
        """See `Agent.cancel`."""
        activity = self._activity
        first = activity is not None and activity.cause is None
        if activity is not None and first:
            # Before the inbox is emptied, so that an answer to a discard counts as replacement.
            activity.cause = cause
        try:
            if not keep_inbox:
                self._latched = False
                self.inbox.clear()
        finally:
            if activity is not None and first:
                activity.scope.cancel()

    async def when_idle(self) -> None:
        """See `Agent.when_idle`."""
        while self._settled is not None:
            await self._settled.wait()

    async def run_maintenance(self, job: Callable[[], Awaitable[T]]) -> T:
        """See `Agent.run_maintenance`."""
        self.admit()
        if self._activity is not None:
            doing = "maintenance" if self._activity.maintenance else f"turn {self._turn}"
            raise AgentBusyError(self.id, doing)
        activity = self._begin(Activity(maintenance=True))
        try:
            with activity.scope:
                return await job()
        finally:
            self._become_idle()
        raise MaintenanceAbortedError(
            self.id, "" if activity.cause is None else activity.cause.kind
        )

    def start_driver(self) -> None:
        """See `AgentBase.start_driver`."""
        self._started = True
        try:
            self.inbox.take_back()
        except Exception as error:
            self._report(error)
        self._replay_latched()

    def _wake(self, late: bool) -> None:
        activity = self._activity
        if not self._started:
            self._latched = True
        elif activity is None:
            self.spawn_driver(self._drive)
            self._begin(Activity())
            self.set_status("running")
            self._open_turn()
        elif activity.cause != DISPOSED and (activity.maintenance or late):
            self._latched = True

    def _begin(self, activity: Activity) -> Activity:
        self._activity = activity
        self._settled = anyio.Event()
        self._latched = False
        return activity

    def _become_idle(self) -> None:
        settled = self._settled
        self._activity = self._settled = self._claimed = None
        try:
            self.set_status("idle")
            self._replay_latched()
        finally:
            if settled is not None:
                settled.set()

    def _replay_latched(self) -> None:
        admitted = not self.disposed and self.ctx.fiber.admits
        if self._latched and self._activity is None and admitted and self.inbox.has_pending:
            self._wake(late=False)

    def _open_turn(self) -> None:
        if self.cause is not None or self.disposed:
            return
        try:
            self.session.append("turn/start", TurnStart(self._turn + 1))
        except Exception as error:
            self._report(error)
            return
        self._turn += 1
        self._step = 0
        try:
            self._claimed = self.inbox.claim("next-turn", self._turn)
        except Exception as error:
            self._claimed = error

    async def _drive(self) -> None:
        try:
            with self.ctx[Agents].with_initiator(self):
                while self._claimed is not None and self._activity is not None:
                    claimed, self._claimed = self._claimed, None
                    if not await self._run_opened(claimed, self._activity):
                        break
                    self._activity = Activity()
                    self._open_turn()
        except Exception as error:
            self._report(error)
        finally:
            self._become_idle()

    async def _run_opened(self, claimed: Batch | Exception, activity: Activity) -> bool:
        outcome = await self._close_turn(claimed, activity)
        try:
            with anyio.CancelScope(shield=True):
                await self.ctx[Sessions].flush(self.session)
        except Exception as error:
            self._report(error)
        if outcome.terminal:
            self.inbox.discard("next-step")
        return not outcome.parks and activity.cause is None and self.inbox.wants_turn

    async def _close_turn(self, claimed: Batch | Exception, activity: Activity) -> TurnOutcome:
        outcome = None
        try:
            with activity.scope:
                if isinstance(claimed, Exception):
                    raise claimed
                outcome = await self.run_turn(claimed)
        except anyio.get_cancelled_exc_class():  # by somebody else than the turn's own scope
            activity.cause = activity.cause or DISPOSED
            self._append_end(Aborted(activity.cause))
            raise
        except Exception as error:
            outcome = self._failed(sole_error(error))
        if activity.cause is not None or outcome is None:
            outcome = TurnOutcome(Aborted(activity.cause or DISPOSED), parks=True)
        self._append_end(outcome.reason)
        return outcome

    def _failed(self, error: Exception) -> TurnOutcome:
        self._report(error)
        return TurnOutcome(Errored(failure_of(error), self._step or None), parks=True)

    def _append_end(self, reason: TurnEndReason) -> None:
        try:
            self.session.append("turn/end", TurnEnd(self._turn, reason))
        except Exception as error:
            self.ctx.report(error, label=f"turn/end of {self.id}")
            self._report(error)

    def _report(self, error: Exception) -> None:
        self.ctx.emit(ERROR, AgentFailure(self, self._turn, self._step, error))
