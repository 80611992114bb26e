"""What a cancelled call becomes."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_agents import USER
from terret_context import Container, Next
from terret_llm import create_user_message
from terret_sessions import Aborted
from terret_system_prompt import SystemPrompt
from terret_testing import Harness, call, reply, running_harness, say, script
from terret_tools import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    DENIED,
    EXECUTE,
    INVALID_ARGS,
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    Accept,
    Allow,
    Decision,
    Deny,
    Executed,
    Invocation,
    PostDecision,
    ToolExec,
    ToolOutcome,
    ToolRun,
    Tools,
    failure,
    tool,
)


@pytest.fixture
async def h() -> AsyncIterator[Harness]:
    async with running_harness() as harness:
        yield harness


async def cancelled(
    root: Container, scope: anyio.CancelScope, name: str = "work", arguments: object = None
) -> ToolOutcome:
    """Runs a call in a scope that is cancelled meanwhile; returns the outcome it got."""
    results: list[Executed] = []
    heard = root.on(RESULT, results.append)
    arguments = {} if arguments is None else arguments
    with scope:
        await root[Tools].execute(ToolExec(call_id="c", name=name, arguments=arguments))
        await checkpoint()
    heard.close()
    assert scope.cancelled_caught
    (done,) = results
    return done.outcome


def work(root: Container, body: Callable[[], Any] = checkpoint) -> None:
    @tool(name="work")
    async def run_it(run: ToolRun) -> str:
        """Work."""
        run.defer_context(create_user_message("deferred"))
        await body()
        return "worked"

    root[Tools].register(run_it)


@pytest.mark.parametrize("stage", ["before", "pre-execute", "guard", "allowed"])
async def test_before_the_body_a_call_is_aborted(h: Harness, stage: str) -> None:
    """T-022: During pre-execute or a guard, with an allowing outcome: no body, no review."""
    scope = anyio.CancelScope()

    async def pre(call: ToolExec, call_next: Next[Decision]) -> Decision:
        if stage == "pre-execute":
            scope.cancel()
            await checkpoint()
        if stage == "allowed":
            scope.cancel()
        return Allow()

    def guard(call: ToolExec) -> None:
        if stage == "guard":
            scope.cancel()

    async def never() -> None:
        raise AssertionError("the body ran")

    work(h.ctx, never)
    h.ctx.on(PRE_EXECUTE, pre)
    h.ctx[Tools].guard(guard)
    h.ctx.on(POST_EXECUTE, lambda done, call_next: pytest.fail("an aborted call was reviewed"))
    if stage == "before":
        scope.cancel()
    assert (await cancelled(h.ctx, scope)).code == ABORTED_BEFORE_DISPATCH


@pytest.mark.parametrize("denier", ["pre-execute", "guard"])
async def test_a_denial_that_was_produced_stays(h: Harness, denier: str) -> None:
    """T-022: Specific failures are kept, and reviewed under a shield."""
    scope = anyio.CancelScope()

    def pre(call: ToolExec, call_next: Next[Decision]) -> Decision:
        scope.cancel()
        return Deny("no") if denier == "pre-execute" else Allow()

    async def review(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
        await checkpoint()
        return Accept(content=f"filtered {done.outcome.text}")

    work(h.ctx)
    if denier == "pre-execute":
        h.ctx.on(PRE_EXECUTE, pre)
    else:
        h.ctx[Tools].guard(lambda call: scope.cancel() or "no")  # type: ignore[func-returns-value]  # one line
    h.ctx.on(POST_EXECUTE, review)
    outcome = await cancelled(h.ctx, scope)
    assert (outcome.code, outcome.text) == (DENIED, "filtered Error: no")


async def test_a_failure_of_a_policy_stays(h: Harness) -> None:
    """T-022: A failure during 1-2 is that failure."""
    scope = anyio.CancelScope()

    def pre(call: ToolExec, call_next: Next[Decision]) -> Decision:
        scope.cancel()
        raise LookupError("rules")

    h.ctx.on(PRE_EXECUTE, pre)
    assert (await cancelled(h.ctx, scope)).text == "Error: LookupError: rules"


async def test_a_bad_argument_wins_over_an_early_cancel(h: Harness) -> None:
    """T-023: A call cancelled beforehand runs no phase; an argument failure wins over it."""
    scope = anyio.CancelScope()
    scope.cancel()
    work(h.ctx)
    assert (await cancelled(h.ctx, scope, arguments={"a": float("nan")})).code == INVALID_ARGS


async def test_a_body_that_is_cancelled_keeps_its_contexts(h: Harness) -> None:
    """T-022: During the body: ABORTED, contexts deferred so far are kept."""
    scope, cleaned = anyio.CancelScope(), []

    async def body() -> None:
        try:
            scope.cancel()
            await checkpoint()
        finally:
            cleaned.append(True)

    work(h.ctx, body)
    outcome = await cancelled(h.ctx, scope)
    assert (outcome.code, cleaned) == (ABORTED, [True])
    assert [message.text for message in outcome.additional_contexts] == ["deferred"]


async def test_a_body_that_returns_after_the_cancel_is_aborted(h: Harness) -> None:
    """T-022: A success becomes ABORTED, contexts are kept, nothing of the content is."""
    scope = anyio.CancelScope()

    async def body() -> None:
        scope.cancel()

    work(h.ctx, body)
    outcome = await cancelled(h.ctx, scope)
    assert (outcome.code, outcome.value) == (ABORTED, None)
    assert "worked" not in outcome.text
    assert len(outcome.additional_contexts) == 1


async def test_a_body_that_fails_by_itself_keeps_its_failure(h: Harness) -> None:
    """T-022: After the body started, body failed by itself: that failure."""
    scope = anyio.CancelScope()

    async def body() -> None:
        scope.cancel()
        try:
            await checkpoint()
        finally:
            raise ValueError("half done")

    work(h.ctx, body)
    outcome = await cancelled(h.ctx, scope)
    assert outcome.text.startswith("Error: ValueError: half done")
    assert len(outcome.additional_contexts) == 1


async def test_a_body_may_wait_for_what_others_have_cancelled(h: Harness) -> None:
    """T-027: That is a failure of the tool, and neither the call nor the turn is cancelled."""

    async def body() -> None:
        raise anyio.get_cancelled_exc_class()

    work(h.ctx, body)
    outcome = await h.ctx[Tools].execute(ToolExec(call_id="c", name="work"))
    assert outcome.is_error
    assert outcome.code is None
    h.model.add(reply(call("work"), call("work")), say("It failed twice."))
    assert await h.send("go") == "It failed twice."


async def test_a_body_that_ignores_the_cancel_is_awaited(h: Harness) -> None:
    """T-024: A started coroutine body that ignores cancellation is awaited."""
    go, order = anyio.Event(), list[str]()

    async def body() -> None:
        with anyio.CancelScope(shield=True):
            order.append("started")
            await go.wait()
            order.append("ended")

    async def let_go() -> None:
        await anyio.wait_all_tasks_blocked()
        order.append("waiting")
        go.set()

    scope = anyio.CancelScope()
    work(h.ctx, body)
    async with anyio.create_task_group() as group:
        group.start_soon(let_go)
        h.ctx.on(EXECUTE, lambda call, call_next: scope.cancel() or call_next())  # type: ignore[func-returns-value]  # one line
        outcome = await cancelled(h.ctx, scope)
    assert (order, outcome.code) == (["started", "waiting", "ended"], ABORTED)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_a_wrapper_that_is_cancelled(h: Harness, fails: bool, after: bool) -> None:
    """T-022: In a wrapper: a success becomes ABORTED, a failure stays."""
    scope = anyio.CancelScope()

    async def body() -> None:
        if fails:
            raise ValueError("by itself")

    async def around(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        outcome = await call_next() if after else failure("unused")
        scope.cancel()
        await checkpoint()
        return outcome

    work(h.ctx, body)
    h.ctx.on(EXECUTE, around)
    outcome = await cancelled(h.ctx, scope)
    assert outcome.code == (None if fails and after else ABORTED)
    assert len(outcome.additional_contexts) == after


@pytest.mark.parametrize("fails", [False, True])
async def test_post_execute_sees_the_outcome_of_a_cancelled_call(h: Harness, fails: bool) -> None:
    """T-022: Cancelled in post-execute: no result gets out unfiltered."""
    scope, seen = anyio.CancelScope(), list[str]()

    async def body() -> None:
        if fails:
            raise ValueError("secret")

    async def review(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
        seen.append(done.outcome.text)
        scope.cancel()
        await checkpoint()
        return Accept(content="filtered")

    work(h.ctx, body)
    h.ctx.on(POST_EXECUTE, review)
    outcome = await cancelled(h.ctx, scope)
    assert (outcome.text, outcome.code) == ("filtered", None if fails else ABORTED)
    secret = "Error: ValueError: secret"
    assert seen == [secret, secret] if fails else ["worked", "Error: the turn was cancelled"]


async def test_a_review_that_does_not_notice_the_cancel_runs_once(h: Harness) -> None:
    """T-022: post-execute that ends by itself is not asked again."""
    scope, seen = anyio.CancelScope(), list[str]()

    def review(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
        seen.append(done.outcome.text)
        scope.cancel()
        return Accept()

    work(h.ctx)
    h.ctx.on(POST_EXECUTE, review)
    assert (await cancelled(h.ctx, scope)).code == ABORTED
    assert seen == ["worked"]


async def test_a_review_that_hangs_after_a_cancel_leaves_nothing() -> None:
    """T-022: The shield of steps 4-6 ends by `grace`."""
    scope = anyio.CancelScope()

    async def hang(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
        scope.cancel()
        await anyio.sleep_forever()
        return Accept()

    async with Container(grace=0) as root:
        root.plugin(SystemPrompt)
        await root.plugin(Tools).ready()
        work(root)
        root.on(POST_EXECUTE, hang)
        outcome = await cancelled(root, scope)
    assert (outcome.code, outcome.text) == (ABORTED, "Error: the turn was cancelled")


async def test_a_loop_tells_that_a_finished_call_came_too_late(h: Harness) -> None:
    """T-022: A success that was not committed when the turn was cancelled becomes ABORTED."""
    work(h.ctx)
    scheduler, call = h.ctx[Tools].scheduler, Invocation(ToolExec(call_id="c", name="work"))
    await scheduler.prepare(call)
    await scheduler.dispatch(call)
    assert call.outcome is not None
    assert call.outcome.text == "worked"
    call.interrupt()
    await scheduler.finalize(call)
    outcome = scheduler.finish(call)
    assert (outcome.code, len(outcome.additional_contexts)) == (ABORTED, 1)


async def test_a_prepared_call_whose_body_did_not_start_did_not_run(h: Harness) -> None:
    """T-022: Between the guards and the body: ABORTED_BEFORE_DISPATCH."""
    work(h.ctx)
    scheduler, call = h.ctx[Tools].scheduler, Invocation(ToolExec(call_id="c", name="work"))
    await scheduler.prepare(call)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await scheduler.dispatch(call)
    assert call.outcome is not None
    assert call.outcome.code == ABORTED_BEFORE_DISPATCH
    await scheduler.finalize(call)
    assert scheduler.finish(call).code == ABORTED_BEFORE_DISPATCH


async def test_a_turn_cancelled_in_post_execute_logs_the_filtered_result() -> None:
    """T-022: The loop goes on with a call whose review was cancelled."""

    async def review(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
        live.agent.cancel(USER)
        await checkpoint()
        return Accept(content=f"filtered {done.outcome.code}")

    async with running_harness(model=script(call("work"))) as live:
        work(live.ctx)
        live.ctx.on(POST_EXECUTE, review)
        await live.send("go")
        assert live.turn_end == Aborted(USER)
        live.assert_transcript("user: go", "call: work {}", "error: filtered ABORTED")
