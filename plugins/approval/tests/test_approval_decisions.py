"""Calls that people are asked about, in a harness."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from terret_agents import USER, Agents, InquiryClosedError, UnknownInquiryError
from terret_context import Next
from terret_loader import HarnessConfigError, open_harness
from terret_plugin_approval import (
    REQUEST,
    ApprovalDecision,
    ApprovalItem,
    Approvals,
    EditDeniedError,
    InvalidEditError,
    NotEditableError,
)
from terret_sessions import FLUSH, MAX_DEPTH, Aborted, Completed, Session
from terret_testing import (
    Answer,
    Harness,
    ManualClock,
    call,
    reply,
    running_harness,
    say,
    script,
)
from terret_tools import (
    POST_EXECUTE,
    PRE_EXECUTE,
    Accept,
    Ask,
    Block,
    Decision,
    Deny,
    ToolExec,
    Tools,
    tool,
)

YES = ApprovalDecision(allow=True, by="ann")
NO = ApprovalDecision(allow=False, by="ann", note="too much")
SCOPE = {"tenant": "acme", "environment": "test", "agent": "shop"}


class Desk:
    """A harness that asks about every call of `buy`."""

    def __init__(self, h: Harness, clock: ManualClock) -> None:
        self.h, self.clock = h, clock

    @property
    def approvals(self) -> Approvals:
        return self.h.ctx[Approvals]

    @property
    def log(self) -> list[dict[str, object]]:
        return [event.data for event in self.h.events if event.type.startswith("approval/")]

    @property
    def results(self) -> list[str]:
        return [each for each in self.h.transcript if each.startswith(("result", "error"))]

    async def asked(self) -> ApprovalItem:
        """The item that is open, as soon as there is one."""
        with anyio.fail_after(5):
            while not self.approvals.items():
                await anyio.wait_all_tasks_blocked()
        return self.approvals.items()[0]


@asynccontextmanager
async def desk(*answers: Answer, editable: bool = True, **config: object) -> AsyncIterator[Desk]:
    clock = ManualClock()

    @tool(is_concurrency_safe=lambda args: True)
    async def buy(amount: int = 1) -> str:
        """Buy."""
        return f"bought {amount}"

    def policy(exec: ToolExec, call_next: Next[Decision]) -> Decision:
        if exec.plain_arguments() == {"amount": 666}:
            return Deny("denied: never that much")
        return Ask("costly", editable=editable, data={"scope": SCOPE, "rule": "r"})

    mounts: list[Any] = [clock.plugin(), (Approvals, config)]
    model = script(*(answers or [call("buy")]), *[say("ok")] * 3)
    async with running_harness(plugins=mounts, model=model) as h:
        h.ctx[Tools].register(buy)
        h.ctx.on(PRE_EXECUTE, policy)
        yield Desk(h, clock)


def says(decision: Any) -> Callable[[ApprovalItem], Awaitable[ApprovalDecision | None]]:
    async def approver(item: ApprovalItem) -> ApprovalDecision | None:
        if isinstance(decision, Exception):
            raise decision
        return decision  # type: ignore[no-any-return]  # also what is no decision

    return approver


@pytest.mark.parametrize("decision", [YES, NO])
async def test_an_ask_reaches_the_approver_once(decision: ApprovalDecision) -> None:
    """E-330, E-342: What is approved runs, what is denied does not."""
    async with desk() as d:
        seen: list[ApprovalItem] = []

        async def approver(item: ApprovalItem) -> ApprovalDecision:
            seen.append(item)
            return decision

        d.approvals.approver(approver)
        await d.h.send("go")
        assert len(seen) == 1
        outcome = "allowed-once" if decision.allow else "rejected"
        assert (d.log[1]["outcome"], d.log[1]["by"]) == (outcome, "ann")
        expected = "result: bought 1"
        if not decision.allow:
            expected = "error: Error: denied: costly - human denied: too much"
        assert d.results == [expected]


async def test_an_item_is_logged_and_listed_before_anybody_hears_of_it() -> None:
    """E-331, E-343, E-046: With call id, scope, rule, expiry and whether it is editable."""
    async with desk() as d:
        found: list[tuple[dict[str, object], tuple[ApprovalItem, ...]]] = []

        async def approver(item: ApprovalItem) -> ApprovalDecision:
            found.append((d.log[0], d.approvals.items()))
            assert d.approvals.find(item.id) is item
            return YES

        d.approvals.approver(approver)
        await d.h.send("go")
        ((row, (item,)),) = found
        assert row == {
            "id": item.id,
            "toolName": "buy",
            "callId": "call-1",
            "turn": 1,
            "step": 1,
            "reason": "costly",
            "args": {},
            "scope": SCOPE,
            "rule": "r",
            "editable": True,
            "expiresAt": "2026-01-01T00:05:00.000Z",
        }
        assert item.id != "call-1"
        assert d.approvals.items() == ()


async def test_without_approver_the_call_is_denied() -> None:
    """E-334, E-066: Fail-closed, with the reason, and the turn goes on."""
    async with desk() as d:
        assert await d.h.send("go") == "ok"
        assert d.results == ["error: Error: denied: costly - nobody could be asked"]
        assert [row.get("outcome") for row in d.log] == [None, "unavailable"]


@pytest.mark.parametrize("odd", [RuntimeError("broken"), "yes", {"allow": True}, True])
async def test_what_is_no_decision_never_allows(odd: object) -> None:
    """E-333: Neither an exception nor a decision of an unknown kind."""
    async with desk() as d:
        d.approvals.approver(says(odd))
        await d.h.send("go")
        assert d.log[1]["outcome"] == "unavailable"


async def test_listeners_may_answer_before_the_approvers() -> None:
    """E-330: The event wraps them."""
    async with desk() as d:
        d.approvals.approver(says(NO))

        async def answer(
            item: ApprovalItem, call_next: Next[ApprovalDecision | None]
        ) -> ApprovalDecision | None:
            return YES if item.call.name == "buy" else await call_next()

        d.h.ctx.on(REQUEST, answer)
        await d.h.send("go")
        assert d.results == ["result: bought 1"]


async def test_an_item_times_out() -> None:
    """E-335, E-066: Denied with its own outcome; the model goes on."""
    async with desk(timeoutSeconds=30) as d:
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        await d.clock.sleeping()
        d.clock.advance(30)
        await d.h.agent.when_idle()
        assert d.results == ["error: Error: denied: costly - nobody answered in time"]
        assert d.h.turn_end == Completed()
        with pytest.raises(InquiryClosedError) as late:
            await d.approvals.decide(item.id, YES)
        assert late.value.outcome == "timed-out"


async def test_a_decision_from_outside_is_durable_before_the_body_starts() -> None:
    """E-337, E-339: And before whoever decided gets to know."""
    async with desk() as d:
        flushed: list[int] = []
        d.h.ctx.on(FLUSH, lambda session: flushed.append(len(d.log)))
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        await d.approvals.decide(item.id, YES)
        assert flushed[:2] == [1, 2]
        await d.h.agent.when_idle()
        assert d.results == ["result: bought 1"]
        for late in (YES, NO):
            with pytest.raises(InquiryClosedError) as error:
                await d.approvals.decide(item.id, late)
            assert error.value.outcome == "allowed-once"
        with pytest.raises(UnknownInquiryError):
            await d.approvals.decide("nothing", YES)


async def test_a_cancel_closes_the_item() -> None:
    """E-336: Its call never starts."""
    async with desk() as d:
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        d.h.agent.cancel(USER)
        with pytest.raises(InquiryClosedError) as error:
            await d.approvals.decide(item.id, YES)
        await d.h.agent.when_idle()
        assert error.value.outcome == "cancelled"
        assert d.h.turn_end == Aborted(USER)
        assert d.results[0].startswith("error: Error: the turn was cancelled before the call ran")


async def test_two_calls_of_a_batch_are_asked_about_one_after_the_other() -> None:
    """E-045, E-330, E-340: Ids never repeat."""
    async with desk(reply(call("buy", amount=1), call("buy", amount=2))) as d:
        d.approvals.await_decisions()
        d.h.agent.send("go")
        ids = []
        for _ in range(2):
            item = await d.asked()
            assert d.approvals.items() == (item,)
            ids.append(item.id)
            await d.approvals.decide(item.id, YES)
        await d.h.agent.when_idle()
        assert len(set(ids)) == 2
        assert d.results == ["result: bought 1", "result: bought 2"]


async def test_changed_arguments_are_what_runs() -> None:
    """E-350, E-354: The model is told; what it wrote stays in its message."""
    async with desk(call("buy", amount=9)) as d:
        d.approvals.approver(says(ApprovalDecision(allow=True, args={"amount": 2})))
        await d.h.send("go")
        assert d.log[1]["args"] == {"amount": 2}
        (result,) = d.results
        assert result.startswith("result: bought 2")
        assert 'A person changed the arguments of this call to {"amount": 2}' in result
        assert 'call: buy {"amount":9}' in d.h.transcript


@pytest.mark.parametrize(
    ("args", "error"),
    [({"amount": "x"}, InvalidEditError), ({"amount": 666}, EditDeniedError)],
)
async def test_a_change_that_cannot_run_leaves_the_item_open(
    args: dict[str, object], error: type[Exception]
) -> None:
    """E-351, E-352: Against the schema, then against the rules."""
    async with desk() as d:
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        edit = ApprovalDecision(allow=True, args=args)
        for attempt in (d.approvals.decide(item.id, edit), d.approvals.check(item, edit)):
            with pytest.raises(error, match=r"amount|never that much"):
                await attempt
        assert d.approvals.items() == (item,)
        await d.approvals.decide(item.id, ApprovalDecision(allow=True, args={"amount": 3}))
        await d.h.agent.when_idle()
        assert d.results[0].startswith("result: bought 3")


async def test_a_change_that_no_log_can_keep_leaves_the_item_open() -> None:
    """E-351: Whatever the schema allows."""
    deep: list[object] = []
    for _ in range(MAX_DEPTH):
        deep = [deep]

    @tool
    async def keep(value: Any) -> str:
        """Keep."""
        return f"kept {value}"

    async with desk(call("keep", value=1)) as d:
        d.h.ctx[Tools].register(keep)
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        for value, reason in ((deep, "nested more than"), (float("nan"), "finite")):
            with pytest.raises(InvalidEditError, match=reason):
                await d.approvals.decide(
                    item.id, ApprovalDecision(allow=True, args={"value": value})
                )
        await d.approvals.decide(item.id, YES)
        await d.h.agent.when_idle()
        assert d.results == ["result: kept 1"]


async def test_a_change_where_none_is_allowed_is_refused() -> None:
    """E-353: The item stays open, for an approver too."""
    async with desk(editable=False) as d:
        d.approvals.approver(says(ApprovalDecision(allow=True, args={"amount": 2})))
        d.approvals.await_decisions()
        d.h.agent.send("go")
        item = await d.asked()
        with pytest.raises(NotEditableError):
            await d.approvals.decide(item.id, ApprovalDecision(allow=True, args={"amount": 2}))
        await d.approvals.decide(item.id, YES)
        await d.h.agent.when_idle()
        assert d.results == ["result: bought 1"]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Accept(content="less"), "result: less\n\n[A person"),
        (Block("secret"), "error: Error: secr"),
    ],
)
async def test_the_word_about_a_change_goes_with_what_others_make_of_the_result(
    decision: Any, expected: str
) -> None:
    """E-354: A result that is withheld stays withheld."""
    async with desk() as d:
        d.approvals.approver(says(ApprovalDecision(allow=True, args={"amount": 2})))
        d.h.ctx.on(POST_EXECUTE, lambda executed, call_next: decision)
        await d.h.send("go")
        assert d.results[0].startswith(expected)


async def test_a_call_may_be_allowed_for_the_rest_of_the_session() -> None:
    """E-330: The same call with the same arguments is not asked about again; others are."""
    later = reply(call("buy", amount=1), call("buy", amount=2))
    async with desk(call("buy", amount=1), say("one"), later) as d:
        d.approvals.approver(says(ApprovalDecision(allow=True, by="ann", remember=True)))
        await d.h.send("go")
        await d.h.send("again")
        asked = [row["args"] for row in d.log if "outcome" not in row]
        assert asked == [{"amount": 1}, {"amount": 2}]
        assert d.results == ["result: bought 1"] * 2 + ["result: bought 2"]


@pytest.mark.parametrize("decision", [NO, YES, ApprovalDecision(allow=False, remember=True)])
async def test_only_what_was_allowed_for_the_session_is_remembered(
    decision: ApprovalDecision,
) -> None:
    """E-330: A plain approval holds once, a denial never longer."""
    async with desk(call("buy"), say("one"), call("buy")) as d:
        d.approvals.approver(says(decision))
        await d.h.send("go")
        await d.h.send("again")
        assert len([row for row in d.log if "outcome" not in row]) == 2


async def test_a_remembered_call_is_remembered_with_the_arguments_that_ran() -> None:
    """E-330, E-350: After a change, the changed ones."""
    later = reply(call("buy", amount=2), call("buy", amount=9))
    async with desk(call("buy", amount=9), say("one"), later) as d:
        edit = ApprovalDecision(allow=True, args={"amount": 2}, remember=True)
        d.approvals.approver(says(edit))
        await d.h.send("go")
        await d.h.send("again")
        assert [row["args"] for row in d.log if "outcome" not in row] == [{"amount": 9}] * 2


async def test_a_call_inside_a_body_is_asked_about_with_its_origin() -> None:
    """E-063, E-098: Its own id, and the call it belongs to."""
    async with desk() as d:
        d.approvals.approver(says(YES))
        outer = ToolExec(call_id="outer", name="buy", agent=d.h.agent)
        inner = ToolExec(call_id="inner", name="buy", agent=d.h.agent, parent=outer)
        assert (await d.h.ctx[Tools].execute(inner)).text == "bought 1"
        assert d.log[0]["origin"] == {"sessionId": "test", "agent": "test", "callId": "outer"}
        assert d.log[0]["callId"] == "inner"


async def test_an_item_of_an_agent_below_is_decided_in_the_root() -> None:
    """E-098: Both logs have it; one list."""
    async with desk() as d:
        d.approvals.await_decisions()
        created = await d.h.agent.ctx[Agents].create(session_id="kid")
        async with anyio.create_task_group() as group:
            exec = ToolExec(call_id="c", name="buy", agent=created.agent)
            group.start_soon(d.h.ctx[Tools].execute, exec)
            item = await d.asked()
            assert item.agent is created.agent
            await d.approvals.decide(item.id, YES)
        types = [event.type for event in created.agent.session.events]
        assert [each for each in types if each.startswith("approval/")] == [
            "approval/asked",
            "approval/decided",
        ]
        assert d.log[0]["origin"] == {"sessionId": "kid", "agent": "kid", "callId": "c"}


async def test_a_failed_flush_keeps_the_call_from_running() -> None:
    """E-339: What is not durable did not happen."""
    async with desk() as d:

        def fail(session: Session) -> None:
            raise OSError("disk full")

        d.approvals.approver(says(YES))
        effect = d.h.ctx.on(FLUSH, fail)
        d.h.agent.send("go")
        await d.h.agent.when_idle()
        effect.close()
        assert d.results[0].startswith("error: Error: OSError: disk full")


async def test_an_approver_of_one_agent_hears_of_that_agent_only() -> None:
    """Approvers belong to a scope."""
    async with desk() as d:
        created = await d.h.ctx[Agents].create(session_id="other")
        own = created.agent.ctx.get(Approvals)
        assert own is not None
        own.approver(says(YES))
        await d.h.send("go")
        exec = ToolExec(call_id="c", name="buy", agent=created.agent)
        outcome = await d.h.ctx[Tools].execute(exec)
        assert (d.results[0].split(":")[0], outcome.text) == ("error", "bought 1")


async def test_it_is_mounted_by_its_name(tmp_path: Path) -> None:
    """Removing it turns an ask into a denial, which tools say themselves."""
    path = tmp_path / "harness.yml"
    spine = "plugins:\n  sessions: {}\n  system-prompt: {}\n  agents: {}\n  tools: {}\n"
    path.write_text(spine + "  approval: {timeoutSeconds: 5}\n")
    async with open_harness(path, env={}) as root:
        assert root[Approvals].items() == ()
    path.write_text(spine + "  approval: {timeoutSeconds: 0}\n")
    with pytest.raises(HarnessConfigError, match=r"harness.yml:6:30 .*timeoutSeconds"):
        async with open_harness(path, env={}):
            pass


def test_a_decision_allows_only_if_it_says_so() -> None:
    """E-333: There is no default."""
    with pytest.raises(TypeError):
        ApprovalDecision()  # type: ignore[call-arg]  # that is the point
