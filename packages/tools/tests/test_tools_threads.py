"""Plain functions in worker threads."""

import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar

import anyio
import pytest
from anyio import to_thread

from terret_context import ContainedError, Container
from terret_llm import create_user_message
from terret_system_prompt import SystemPrompt
from terret_testing import Harness, running_harness
from terret_tools import (
    ABORTED,
    EXECUTE,
    RESULT,
    TOOL_OUTCOME_UNKNOWN,
    Executed,
    ToolExec,
    ToolOutcome,
    ToolOverrunError,
    ToolRun,
    Tools,
    ToolsConfig,
    failure,
    tool,
)


@pytest.fixture
async def h() -> AsyncIterator[Harness]:
    async with running_harness() as harness:
        yield harness


class Blocker:
    """A plain tool that holds its thread until it is let go, or told to stop."""

    def __init__(self, ctx: Container, name: str = "block", *, polls: bool = False) -> None:
        self.ctx = ctx
        self.name = name
        self.polls = polls
        self.fails = False
        self.entered = threading.Event()
        self.open = threading.Event()
        self.left = threading.Event()
        ctx[Tools].register(tool(name=name)(self.block))

    def block(self, run: ToolRun) -> str:
        run.defer_context(create_user_message("deferred"))
        self.entered.set()
        try:
            while not self.open.wait(0.001):
                if self.polls and run.cancelled:
                    break
            if self.fails:
                raise ValueError("stopped half way")
            run.defer_context(create_user_message("late"))
            return "blocked"
        finally:
            self.left.set()

    async def call(self) -> ToolOutcome:
        return await self.ctx[Tools].execute(ToolExec(call_id="c", name=self.name))

    async def until_entered(self) -> None:
        await to_thread.run_sync(self.entered.wait)


async def outcome_of_cancelled(blocker: Blocker) -> ToolOutcome:
    results: list[Executed] = []
    heard = blocker.ctx.on(RESULT, results.append)
    async with anyio.create_task_group() as group:
        group.start_soon(blocker.call)
        await blocker.until_entered()
        group.cancel_scope.cancel()
    heard.close()
    (done,) = results
    return done.outcome


async def limit_threads(h: Harness, count: int) -> None:
    (fiber,) = h.ctx.fibers(Tools)
    await fiber.update(ToolsConfig(max_threads=count))


who: ContextVar[str] = ContextVar("who")


async def test_a_plain_function_runs_in_a_thread_with_the_context_of_the_call(h: Harness) -> None:
    """T-100, B-146, B-279: in a worker thread, with the context variables of the caller."""

    @tool
    def where() -> str:
        """Tell the thread."""
        return f"{who.get()} {threading.current_thread() is threading.main_thread()}"

    who.set("me")
    h.ctx[Tools].register(where)
    outcome = await h.ctx[Tools].execute(ToolExec(call_id="c", name="where"))
    assert outcome.text == "me False"


async def test_saturated_tools_do_not_delay_other_threads(h: Harness) -> None:
    """T-100: Saturating the tools' limiter does not delay other thread users."""
    await limit_threads(h, 1)
    first, second = Blocker(h.ctx, "first"), Blocker(h.ctx, "second")
    async with anyio.create_task_group() as group:
        group.start_soon(first.call)
        await first.until_entered()
        group.start_soon(second.call)
        await anyio.wait_all_tasks_blocked()
        assert await to_thread.run_sync(lambda: "free") == "free"
        assert not second.entered.is_set()
        first.open.set()
        second.open.set()
    assert second.entered.is_set()


async def hold(release: threading.Event) -> None:
    await to_thread.run_sync(release.wait)


async def test_other_threads_do_not_delay_the_tools(h: Harness) -> None:
    """T-100: And the reverse."""
    limiter = to_thread.current_default_thread_limiter()
    tokens, release = limiter.total_tokens, threading.Event()
    blocker = Blocker(h.ctx)
    blocker.open.set()
    limiter.total_tokens = 1
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(hold, release)
            await anyio.wait_all_tasks_blocked()
            assert (await blocker.call()).text == "blocked"
            release.set()
    finally:
        limiter.total_tokens = tokens


async def test_a_function_that_ends_in_time_is_aborted(h: Harness) -> None:
    """T-101: A cancelled plain function that returns within `grace` is ABORTED."""
    outcome = await outcome_of_cancelled(Blocker(h.ctx, polls=True))
    assert outcome.code == ABORTED
    assert [each.text for each in outcome.additional_contexts] == ["deferred", "late"]


async def test_a_function_that_fails_in_time_keeps_its_failure(h: Harness) -> None:
    """T-101, T-022: The body failed by itself."""
    blocker = Blocker(h.ctx, polls=True)
    blocker.fails = True
    outcome = await outcome_of_cancelled(blocker)
    assert outcome.text == "Error: ValueError: stopped half way"


async def test_a_function_that_does_not_end_is_left_behind_by_name() -> None:
    """T-101: Abandoned, TOOL_OUTCOME_UNKNOWN, contexts deferred so far kept, late ones dropped."""
    errors: list[ContainedError] = []
    async with Container(grace=0) as root:
        root.plugin(SystemPrompt)
        await root.plugin(Tools).ready()
        root.on("internal/error", errors.append)
        blocker = Blocker(root, "deaf")
        outcome = await outcome_of_cancelled(blocker)
    assert outcome.code == TOOL_OUTCOME_UNKNOWN
    (reported,) = errors
    assert isinstance(reported.error, ToolOverrunError)
    assert (reported.error.tool, reported.label) == ("deaf", 'tool "deaf"')
    blocker.open.set()
    await to_thread.run_sync(blocker.left.wait)
    assert [each.text for each in outcome.additional_contexts] == ["deferred"]


async def test_a_function_that_has_no_thread_yet_never_runs(h: Harness) -> None:
    """T-101: A cancel while waiting for a thread does not wait for `grace`."""
    await limit_threads(h, 1)
    busy, waiting = Blocker(h.ctx, "busy"), Blocker(h.ctx, "waiting")
    results: list[Executed] = []
    h.ctx.on(RESULT, results.append)
    async with anyio.create_task_group() as group:
        group.start_soon(busy.call)
        await busy.until_entered()
        async with anyio.create_task_group() as inner:
            inner.start_soon(waiting.call)
            await anyio.wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        assert [done.outcome.code for done in results] == [ABORTED]
        busy.open.set()
    assert not waiting.entered.is_set()


async def test_a_wrapper_may_bound_a_function_too(h: Harness) -> None:
    """T-101, T-015: The function learns of a wrapper's limit as of any cancellation."""

    async def bound(call: ToolExec, call_next: object) -> ToolOutcome:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(call_next)  # type: ignore[arg-type]  # a coroutine function
                await blocker.until_entered()
                scope.cancel()
        return failure("too slow", code="TIMEOUT")

    blocker = Blocker(h.ctx, polls=True)
    h.ctx.on(EXECUTE, bound)
    assert (await blocker.call()).code == "TIMEOUT"
    assert blocker.left.is_set()
