"""Cancellation: what becomes of input, latches and waiters."""

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    DISCARDED,
    DISPOSED,
    PARENT,
    STATUS,
    USER,
    InputDiscarded,
    StatusChange,
    hook,
)
from terret_llm import PluginSource, create_user_message
from terret_sessions import FLUSH, Aborted, Completed, Session, StepStart, TurnStart
from terret_testing import call, pause, reply, say, script
from terret_tools import ToolRun, Tools, tool

from ._chapter import Chapter
from ._kit import count


class Cancelling(Chapter):
    """Cancellation: what becomes of input, latches and waiters."""

    async def test_cancel_while_idle_and_empty_is_nothing(self) -> None:
        """L-080, L-093: the next prompt runs."""
        async with self.harness(model=script(say("x"))) as h:
            h.agent.cancel(USER)
            assert len(h.events) == 0
            assert await h.send("hi") == "x"

    async def test_cancel_while_idle_discards_parked_input_without_a_turn(self) -> None:
        """L-080: no turn, no status event."""
        async with self.harness() as h:
            statuses: list[str] = []
            h.ctx.on(STATUS, lambda change: statuses.append(change.status))
            h.agent.inject("parked")
            h.agent.cancel(USER)
            assert (h.agent.inbox.has_pending, statuses, count(h, TurnStart)) == (False, [], 0)

    @pytest.mark.parametrize("keep", [False, True])
    async def test_cancel_during_a_step_aborts_the_turn_and_discards_or_parks_what_is_queued(
        self,
        keep: bool,
    ) -> None:
        """L-081, L-082, L-098: with keep_inbox queued input waits for the next wake."""
        async with self.harness(model=script(reply(pause("p"), say("one")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.steer("steering")
            h.agent.followup("next")
            h.agent.cancel(USER, keep_inbox=keep)
            await h.agent.when_idle()
            assert (h.turn_end, count(h, TurnStart)) == (Aborted(USER), 1)
            pending = [*h.agent.inbox.next_step, *h.agent.inbox.next_turn]
            assert [m.text for m in pending] == (["steering", "next"] if keep else [])

    async def test_a_waking_send_between_abort_and_idle_is_latched_and_runs(self) -> None:
        """L-083, L-085, L-091: waiters do not return early; steering becomes a prompt."""
        async with self.harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(USER, keep_inbox=True)
            h.agent.steer("replacement")
            assert [m.text for m in h.agent.inbox.next_turn] == ["replacement"]
            await h.agent.when_idle()
            self.assert_lines(h, "user: a", "user: replacement", "assistant: two")
            assert h.turn_end == Completed()

    async def test_a_plain_cancel_clears_a_latched_wake(self) -> None:
        """L-084."""
        async with self.harness(model=script(reply(pause("p"), say("one")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(USER)
            h.agent.send("replacement")
            h.agent.cancel(PARENT)
            await h.agent.when_idle()
            assert (count(h, TurnStart), h.turn_end) == (1, Aborted(USER))

    async def test_removing_the_latched_message_suppresses_the_replay(self) -> None:
        """L-084."""
        async with self.harness(model=script(reply(pause("p"), say("one")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(USER)
            late = h.agent.send("replacement")
            assert h.agent.inbox.remove(late.id)
            await h.agent.when_idle()
            assert count(h, TurnStart) == 1

    @pytest.mark.parametrize("keep", [False, True])
    async def test_cancel_right_after_a_send_closes_the_opened_turn_without_a_step(
        self, keep: bool
    ) -> None:
        """L-086, L-082: the claimed message is not restored."""
        async with self.harness() as h:
            h.agent.send("a")
            h.agent.cancel(USER, keep_inbox=keep)
            await h.agent.when_idle()
            assert (count(h, StepStart), h.turn_end) == (0, Aborted(USER))
            assert not h.agent.inbox.has_pending

    async def test_cancel_inside_the_running_listener_drops_the_turn_and_replacement_replays(
        self,
    ) -> None:
        """L-090, L-311: no turn for the first send; status returns to idle."""
        async with self.harness(model=script(say("x"))) as h:
            first = [True]
            statuses: list[str] = []

            def listener(change: StatusChange) -> None:
                statuses.append(change.status)
                if change.status == "running" and first.pop() if first else False:
                    h.agent.cancel(USER)
                    h.agent.send("replacement")

            h.ctx.on(STATUS, listener)
            h.agent.send("dropped")
            assert count(h, TurnStart) == 0
            await h.agent.when_idle()
            self.assert_lines(h, "user: replacement", "assistant: x")
            assert statuses == ["running", "idle", "running", "idle"]

    async def test_cancel_from_an_idle_listener_settles_its_waiter_and_later_work_runs(
        self,
    ) -> None:
        """L-089: and replacement work queued there runs before the waiter returns."""
        async with self.harness(model=script(say("one"), say("two"))) as h:
            first = [True]

            def listener(change: StatusChange) -> None:
                if change.status == "idle" and first:
                    first.clear()
                    h.agent.cancel(USER)
                    h.agent.send("replacement")

            h.ctx.on(STATUS, listener)
            assert await h.send("a") == "two"
            assert h.turn_end == Completed()

    async def test_replacement_queued_while_a_cancel_takes_effect_replays(self) -> None:
        """L-099: an answer to a discard is a replacement."""
        async with self.harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:

            def answer(event: InputDiscarded) -> None:
                h.agent.send("replacement")

            h.ctx.once(DISCARDED, answer)
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.followup("queued")
            h.agent.cancel(USER)
            await h.agent.when_idle()
            self.assert_lines(h, "user: a", "user: replacement", "assistant: two")

    async def test_the_first_cause_wins(self) -> None:
        """L-100, A-014: a later cancel clears the inbox again and changes nothing else."""
        async with self.harness(model=script(reply(pause("p")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(hook("over budget"), keep_inbox=True)
            h.agent.inject("x")
            h.agent.cancel(DISPOSED)
            await h.agent.when_idle()
            assert h.turn_end == Aborted(hook("over budget"))
            assert not h.agent.inbox.has_pending

    async def test_a_cancelled_turn_leaves_the_task_as_it_was(self) -> None:
        """L-300: what the driver awaits afterwards is not cancelled."""
        async with self.harness(model=script(reply(pause("p")), say("x"))) as h:
            flushed: list[str] = []

            async def flush(session: Session) -> None:
                await anyio.lowlevel.checkpoint()
                flushed.append("done")

            h.ctx.on(FLUSH, flush)
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(USER)
            h.agent.send("b")
            await h.agent.when_idle()
            assert flushed == ["done", "done"]
            assert self.lines(h)[-1] == "assistant: x"

    async def test_a_cleared_latch_is_not_revived_by_contexts_that_come_later(self) -> None:
        """L-084, L-127: the turn is drained, its contexts stay parked."""
        async with self.harness(model=script(call("slow"))) as h:
            running, ending, released = anyio.Event(), anyio.Event(), anyio.Event()

            @tool
            async def slow(run: ToolRun) -> str:
                """End slowly and leave a note."""
                running.set()
                try:
                    await anyio.Event().wait()
                    return "never"
                finally:
                    with anyio.CancelScope(shield=True):
                        ending.set()
                        await released.wait()
                        run.defer_context(create_user_message("note", PluginSource("slow")))

            h.ctx[Tools].register(slow)
            h.agent.send("a")
            await running.wait()
            h.agent.cancel(USER)
            await ending.wait()
            h.agent.send("replacement")
            h.agent.cancel(USER)
            released.set()
            await h.agent.when_idle()
            assert [m.text for m in h.agent.inbox.next_step] == ["note"]
            assert count(h, TurnStart) == 1
