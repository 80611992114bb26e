"""What is left of a turn that nobody ended: the process went, or the plugin."""

from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from terret_agents import USER, Agent, StepProposal
from terret_context import Next
from terret_llm import Message
from terret_sessions import Completed
from terret_testing import MemorySessions, assert_balanced, call, reply, say, script
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import create, end_of, note, ping, resume


def stored_lengths(kept: MemorySessions) -> Iterator[int]:
    """Where a log may end: a storage writes what was logged at once at once."""
    rows = kept.rows["b"]
    for length in range(1, len(rows) + 1):
        begun = b'"step/start"' in rows[length - 1]
        entering = length < len(rows) and b'"user/message"' in rows[length]
        if not (begun or entering):
            yield length


def said_to(agent: Agent) -> list[str]:
    inbox = agent.inbox
    pending = [message.text for message in (*inbox.next_turn, *inbox.next_step)]
    events = agent.session.events
    return pending + [e.view.text for e in events if isinstance(e.view, Message)]


class Surviving(Chapter):
    """What is left of a turn that nobody ended: the process went, or the plugin."""

    async def test_a_log_that_ends_anywhere_is_continued(self) -> None:
        """L-203, L-034: after each event that can be the last one stored; no input is lost."""
        kept = MemorySessions()
        calls = reply(say("wait"), call("ping"), call("ping"))
        model = script(calls, say("there"), say("and there"))
        async with self.harness(plugins=[kept.plugin], model=model) as h:
            h.ctx[Tools].register(ping)
            async with await create(h.ctx) as handle:
                handle.agent.send("first")
                handle.agent.followup("second")
                handle.agent.inject(note("aside"))
                await handle.agent.when_idle()
        whole, lengths = kept.rows["b"], list(stored_lengths(kept))
        async with self.harness(plugins=[kept.plugin]) as h:
            h.ctx[Tools].register(ping)
            for length in lengths:
                kept.rows["b"] = whole[:length]
                h.model.add(*[say("again")] * 4)
                async with await resume(h.ctx) as handle:
                    agent = handle.agent
                    agent.send("more")
                    await agent.when_idle()
                    assert_balanced(agent.session)
                    assert end_of(agent) == Completed()
                    stored = b"".join(whole[:length])
                    for text in ("first", "second", "aside", "more"):
                        accepted = text == "more" or f'"{text}"'.encode() in stored
                        assert said_to(agent).count(text) == accepted

    @pytest.mark.parametrize("asked", [False, True])
    async def test_what_was_claimed_for_a_step_that_never_began_is_pending_again(
        self, asked: bool
    ) -> None:
        """L-102, L-082: if the agent was disposed meanwhile; what was cancelled is not."""
        kept = MemorySessions()
        reached = anyio.Event()

        async def hold(proposal: StepProposal, call_next: Next[object]) -> object:
            reached.set()
            await anyio.sleep_forever()
            return await call_next()

        async with self.harness(plugins=[kept.plugin], model=script(say("x"))) as h:
            first = await create(h.ctx)
            first.agent.inject(note("aside"))
            holding = h.ctx.on("agent/pre-step", hold)
            first.agent.send("first")
            await reached.wait()
            first.agent.followup("second")
            if asked:
                first.agent.cancel(USER, keep_inbox=True)
            await first.dispose()
            holding.close()
            async with await resume(h.ctx) as handle:
                inbox = handle.agent.inbox
                back = [] if asked else ["first"]
                assert [message.text for message in inbox.next_turn] == [*back, "second"]
                assert [m.text for m in inbox.next_step] == ([] if asked else ["aside"])
