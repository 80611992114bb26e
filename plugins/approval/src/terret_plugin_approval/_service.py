"""The service that tools ask before a call runs."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import anyio
from pydantic import Field

from terret_agents import Agents, clock_of
from terret_context import Config, Context, Effect, Next, Service
from terret_llm import TextBlock
from terret_sessions import Sessions
from terret_tools import (
    POST_EXECUTE,
    RESULT,
    Accept,
    ApprovalDecision,
    ApprovalOutcome,
    Ask,
    Executed,
    PostDecision,
    ToolExec,
    Tools,
)

from ._desk import APPROVALS, Desk, outcome_of
from ._items import ApprovalItem
from ._memory import Memory


class ApprovalConfig(Config):
    """Settings of the entry `approval`; a change holds for the next item."""

    timeout_seconds: float = Field(default=300, gt=0, allow_inf_nan=False)
    """How long an item stays open; then the call is denied."""


class Approvals(Service, key="approval", config=ApprovalConfig, inject=(Agents, Sessions, Tools)):
    """Asks people whether calls may run: whoever decides first, decides."""

    def __init__(self, ctx: Context, config: ApprovalConfig) -> None:
        super().__init__(ctx, config)
        self._memory = Memory()
        self._edited: dict[object, str] = {}
        self._seconds = config.timeout_seconds

    def init(self) -> None:
        self._desk = Desk(self.ctx, APPROVALS, self._seconds)
        self.ctx.on(POST_EXECUTE, self._tell_edit, prepend=True)
        self.ctx.on(RESULT, self._forget_edit)
        self.ctx.on_update(self._update)

    def approver(
        self, approver: Callable[[ApprovalItem], Awaitable[ApprovalDecision | None]]
    ) -> Effect:
        """Adds somebody who is asked about calls of the caller's scope.

        All approvers of an item are asked together; the first decision wins and cancels the
        others. `None`, an exception and a decision that does not count are none.
        """
        return self._desk.answerer(self.caller, approver)

    def await_decisions(self) -> Effect:
        """Keeps items of the scope open for `decide`, as an approver that never answers."""
        return self._desk.answerer(self.caller, _wait)

    def items(self) -> tuple[ApprovalItem, ...]:
        """Returns the open items, in the order in which they were asked."""
        return self._desk.items()

    def find(self, id: str) -> ApprovalItem | None:
        """Returns the open item of that id."""
        return self._desk.find(id)

    async def decide(self, id: str, decision: ApprovalDecision) -> None:
        """Decides about an open item and returns when that is durable.

        Raises `NotEditableError`, `InvalidEditError` or `EditDeniedError`, and the item stays open
        then; `InquiryClosedError` with the outcome for an item that is decided,
        `UnknownInquiryError` for one that never was.
        """
        await self._desk.answer(id, decision)

    async def check(self, item: ApprovalItem, decision: ApprovalDecision) -> None:
        """Raises what `decide` would raise about changed arguments; decides nothing."""
        await self._desk.vet(item, decision)

    async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
        """Asks about a call and waits; see `terret_tools.Approval`."""
        agent = exec.agent
        if agent is None:
            return ApprovalOutcome(outcome="unavailable")
        known = self._memory.find(agent.session, exec)
        if known is not None:
            return ApprovalOutcome(outcome="allowed-once", id=known.id, by=known.by)
        made: list[ApprovalItem] = []

        def make() -> ApprovalItem:
            made.append(self._item(exec, ask))
            return made[0]

        end, decision = await self._desk.ask(agent, make)
        outcome = outcome_of(end, decision)
        edit = decision.args if decision is not None and decision.allow else None
        if edit is not None:
            self._edited[exec.token] = json.dumps(dict(edit), ensure_ascii=False)
        return ApprovalOutcome(
            outcome=outcome,  # type: ignore[arg-type]  # the words of the protocol
            id=made[0].id if made else None,
            arguments=None if edit is None else dict(edit),
            by=decision.by if decision else None,
            note=decision.note if decision else None,
        )

    def _item(self, exec: ToolExec, ask: Ask) -> ApprovalItem:
        agent, data = exec.agent, ask.data or {}
        assert agent is not None
        now = clock_of(self.ctx).now()
        rule = data.get("rule")
        return ApprovalItem(
            id=self._desk.log.new_id(self.ctx[Agents].root_of(agent)),
            agent=agent,
            call=exec,
            scope=_scope(data.get("scope"), agent.name),
            reason=ask.reason,
            rule=str(rule) if rule is not None else None,
            editable=ask.editable,
            requested_at=now,
            expires_at=now + timedelta(seconds=self._desk.seconds),
        )

    async def _tell_edit(self, executed: Executed, call_next: Next[PostDecision]) -> PostDecision:
        decision = await call_next()
        edit = self._edited.get(executed.exec.token)
        if edit is None or not isinstance(decision, Accept) or decision.value is not Accept().value:
            return decision
        given = executed.outcome.content if decision.content is None else decision.content
        blocks = [TextBlock(given)] if isinstance(given, str) else [*given]
        note = f"\n\n[A person changed the arguments of this call to {edit} before it ran.]"
        contexts = decision.additional_contexts
        return Accept(content=[*blocks, TextBlock(note)], additional_contexts=contexts)

    def _forget_edit(self, executed: Executed) -> None:
        self._edited.pop(executed.exec.token, None)

    def _update(self, old: ApprovalConfig, new: ApprovalConfig) -> bool:
        self._desk.seconds = new.timeout_seconds
        return True


async def _wait(item: ApprovalItem) -> ApprovalDecision | None:
    await anyio.sleep_forever()
    return None


def _scope(scope: object, agent: str) -> Mapping[str, str]:
    known = scope if isinstance(scope, Mapping) else {}
    return {
        "tenant": str(known.get("tenant", "default")),
        "environment": str(known.get("environment", "production")),
        "agent": str(known.get("agent", agent)),
    }
