"""The plugin: compares what was used with what is allowed, before and after each step."""

from collections.abc import Iterator
from dataclasses import dataclass

from terret_agents import (
    PRE_STEP,
    TURN_STOP,
    Agents,
    Enter,
    Reject,
    StepProposal,
    StopQuestion,
    TurnStop,
    clock_of,
    hook,
)
from terret_context import Context, Next, TaskHandle, plugin
from terret_llm import STREAM, Chunks, GenerateOptions, HarnessError, Llm, is_loop_request
from terret_sessions import (
    DISPOSED,
    EVENT,
    OtherEnd,
    Session,
    SessionEvent,
    Sessions,
    TurnEnd,
    TurnStart,
)

from ._config import UsageLimitConfig
from ._ledger import Ledger


@plugin(config=UsageLimitConfig, inject=(Agents, Llm, Sessions))
def usage_limit(ctx: Context, config: UsageLimitConfig) -> None:
    """Ends turns that reach a limit."""
    limiter = _Limiter(ctx, config)
    ctx.on(EVENT, limiter.record)
    ctx.on(DISPOSED, limiter.forget)
    ctx.on(PRE_STEP, limiter.gate)
    ctx.on(TURN_STOP, limiter.stop)
    if config.limits_cost:
        ctx.on(STREAM, limiter.require_price)


@dataclass(frozen=True, slots=True)
class _Reached:
    """A limit that is reached."""

    limit: str
    per: str
    used: float
    allowed: float

    def __str__(self) -> str:
        used, allowed = f"{self.used:,g}", f"{self.allowed:,g}"
        return f"the usage limit is reached: {used} of {allowed} {self.limit} of this {self.per}"

    def reason(self) -> OtherEnd:
        data = {"limit": self.limit, "per": self.per, "used": self.used, "allowed": self.allowed}
        return OtherEnd("usage-limit", {"kind": "usage-limit", **data})


class _Limiter:
    def __init__(self, ctx: Context, config: UsageLimitConfig) -> None:
        self._ctx = ctx
        self._config = config
        self._ledgers: dict[str, Ledger] = {}
        self._timers: dict[str, TaskHandle] = {}

    def record(self, session: Session, event: SessionEvent) -> None:
        ledger = self._ledgers.get(session.id)
        if ledger is None:
            self._ledgers[session.id] = Ledger(session, self._config)
        else:
            ledger.add(event)
        if self._config.turn.seconds is not None:
            self._time(session, event)

    def forget(self, session: Session) -> None:
        self._ledgers.pop(session.id, None)

    async def gate(self, proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
        reached = self._reached(proposal.agent.session)
        return await call_next() if reached is None else Reject(str(reached))

    def stop(self, question: StopQuestion) -> TurnStop | None:
        reached = self._reached(question.agent.session) if question.continues else None
        return None if reached is None else TurnStop(reached.reason())

    async def require_price(self, request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        route = (request.provider, request.model)
        if is_loop_request(request) and self._config.price(*route) is None:
            raise HarnessError(
                f"the cost is limited and {'/'.join(route)} has no price: add one to `prices` of "
                "usage-limit",
                "NO_PRICE",
            )
        return await call_next()

    def _reached(self, session: Session) -> _Reached | None:
        return next(self._all_reached(session), None)

    def _all_reached(self, session: Session) -> Iterator[_Reached]:
        ledger = self._ledgers.get(session.id)
        if ledger is None:
            return
        for per, spent, limits in (
            ("turn", ledger.turn, self._config.turn),
            ("session", ledger.session, self._config.session),
        ):
            if limits.tokens is not None and spent.tokens >= limits.tokens:
                yield _Reached("tokens", per, spent.tokens, limits.tokens)
            if limits.cost is not None and spent.cost >= limits.cost:
                yield _Reached("cost", per, round(spent.cost, 6), limits.cost)

    def _time(self, session: Session, event: SessionEvent) -> None:
        if isinstance(event.view, TurnStart):
            watch = self._ctx.spawn(self._watch, session, event.view.turn, name="turn timer")
            self._timers[session.id] = watch
        elif isinstance(event.view, TurnEnd) and session.id in self._timers:
            self._timers.pop(session.id).cancel()

    async def _watch(self, session: Session, turn: int) -> None:
        seconds = self._config.turn.seconds or 0.0
        await clock_of(self._ctx).sleep(seconds)
        agent = self._ctx[Agents].get(session.id)
        if agent is not None and agent.session is session and session.open_turn == turn:
            cause = hook(f"the usage limit is reached: {seconds:g} seconds of this turn")
            agent.cancel(cause, keep_inbox=True)
