"""Tool calls of a cancelled turn: who is told, what is kept."""

from threading import Event as ThreadEvent

import anyio
import anyio.lowlevel
import pytest

from terret_agents import USER
from terret_context import Next
from terret_sessions import Aborted
from terret_testing import call, reply, say, script
from terret_tools import (
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    Decision,
    Executed,
    PostDecision,
    ToolExec,
    Tools,
    tool,
)

from ._chapter import Chapter
from ._kit import ONE_AT_A_TIME, Bench, breathe, codes, on_event

CALLS = reply(call("a"), call("b"), call("c"))


class Aborting(Chapter):
    """Tool calls of a cancelled turn: who is told, what is kept."""

    async def test_a_cancel_reaches_a_started_body_and_nothing_starts_after_it(self) -> None:
        """L-123, L-124, L-217, L-306: its result is logged; nothing of it outlives the turn."""
        async with self.harness(model=script(CALLS), options=ONE_AT_A_TIME) as h:
            bench = Bench(h, "a", "b", "c")
            h.agent.send("go")
            await bench.begun("a")
            h.agent.cancel(USER)
            await h.agent.when_idle()
            assert (bench.started, bench.cancelled) == (["a"], ["a"])
            assert codes(h) == ["ABORTED", *self.never_started(2)]
            assert h.turn_end == Aborted(USER)

    async def test_contexts_of_a_cancelled_turn_wait_for_the_next_wake(self) -> None:
        """L-123, L-126: those of calls that had ended, and of the one that was cut off."""
        model = script(reply(call("a"), call("b")), say("ok"))
        async with self.harness(model=model, options=ONE_AT_A_TIME) as h:
            bench = Bench(h, "a", "b")
            bench.release("a")
            h.agent.send("go")
            await bench.begun("b")
            h.agent.cancel(USER, keep_inbox=True)
            await h.agent.when_idle()
            assert [m.text for m in h.agent.inbox.next_step] == ["context a", "context b"]
            await h.send("again")
            texts = [m.text for m in h.requests[-1].messages]
            assert texts[-3:] == ["context a", "context b", "again"]

    async def test_observers_of_a_started_call_run_although_the_turn_is_cancelled(self) -> None:
        """L-218: before its result is logged, so that nothing reaches the log unfiltered."""
        async with self.harness(model=script(call("a"))) as h:
            bench = Bench(h, "a")
            observed: list[str] = []

            async def after(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
                await anyio.lowlevel.checkpoint()
                observed.append(done.exec.name)
                return await call_next()

            h.ctx.on(POST_EXECUTE, after)
            h.ctx.on(RESULT, lambda done: observed.append(f"final {done.exec.name}"))
            h.agent.send("go")
            await bench.begun("a")
            h.agent.cancel(USER)
            await h.agent.when_idle()
            assert (codes(h), observed) == (["ABORTED"], ["a", "final a"])

    @pytest.mark.parametrize("returns", [False, True])
    async def test_a_cancel_during_pre_execute_skips_that_dispatch_and_all_others(
        self, returns: bool
    ) -> None:
        """L-122: also when the listener cancels and then allows."""
        async with self.harness(model=script(reply(call("a"), call("b")))) as h:
            bench = Bench(h, "a", "b")

            async def gate(call: ToolExec, call_next: Next[Decision]) -> Decision:
                h.agent.cancel(USER)
                if not returns:
                    await anyio.sleep_forever()
                return await call_next()

            h.ctx.on(PRE_EXECUTE, gate)
            await h.send("go")
            assert bench.started == []
            assert codes(h) == ["ABORTED_BEFORE_DISPATCH", *self.never_started(1)]

    async def test_a_cancel_from_an_observer_of_the_answer_starts_none_of_its_calls(self) -> None:
        """L-092, L-121: each gets its pair, with ABORTED_BEFORE_DISPATCH."""
        async with self.harness(model=script(reply(call("a"), call("b")))) as h:
            bench = Bench(h, "a", "b")
            on_event(h, "assistant/message", lambda: h.agent.cancel(USER))
            await h.send("go")
            assert (bench.started, codes(h)) == ([], self.never_started(2))
            assert h.turn_end == Aborted(USER)

    async def test_a_second_cancel_during_convergence_changes_nothing(self) -> None:
        """L-307: only the wait and the commit are shielded."""
        async with self.harness(model=script(call("slow"))) as h:
            running, cleaning, released = anyio.Event(), anyio.Event(), anyio.Event()

            @tool
            async def slow() -> str:
                """Clean up slowly."""
                running.set()
                try:
                    await anyio.Event().wait()
                    return "never"
                finally:
                    with anyio.CancelScope(shield=True):
                        cleaning.set()
                        await released.wait()

            h.ctx[Tools].register(slow)
            h.agent.send("go")
            await running.wait()
            h.agent.cancel(USER)
            await cleaning.wait()
            h.agent.cancel(USER)
            released.set()
            await h.agent.when_idle()
            assert (codes(h), h.turn_end) == (["ABORTED"], Aborted(USER))

    async def test_a_thread_that_ignores_the_cancel_is_abandoned_and_its_result_is_unknown(
        self,
    ) -> None:
        """L-309, L-217: the turn closes in time; what the thread returns later is dropped."""
        release, started = ThreadEvent(), ThreadEvent()

        @tool
        def stubborn() -> str:
            """Ignore everything."""
            started.set()
            release.wait(10)
            return "late"

        async with self.harness(model=script(call("stubborn")), grace=0.05) as h:
            h.ctx[Tools].register(stubborn)
            h.agent.send("go")
            await anyio.to_thread.run_sync(started.wait, 10, abandon_on_cancel=True)
            h.agent.cancel(USER)
            await h.agent.when_idle()
            assert codes(h) == ["TOOL_OUTCOME_UNKNOWN"]
            assert h.turn_end == Aborted(USER)
            length = len(h.events)
            release.set()
            await breathe()
            assert len(h.events) == length

    def never_started(self, calls: int) -> list[str]:
        """The codes of calls that did not start, as far as the loop knew of them."""
        return ["ABORTED_BEFORE_DISPATCH"] * calls if self.dialect.plans_calls else []
