"""The prompt in front of the conversation: assembly, session prefix, runtime context."""

from dataclasses import replace

import pytest

from terret_agents import QUEUED, SESSION_PREFIX, SESSION_START, Agents, PrefixRequest, SessionStart
from terret_context import Next
from terret_llm import Message
from terret_sessions import Completed, Errored, StepStart, TurnStart
from terret_system_prompt import REST, SystemPrompt
from terret_testing import SCRIPTED, call, say, script
from terret_tools import Tools, tool

from ._chapter import Chapter
from ._kit import count, headers, note, ping


class Prompting(Chapter):
    """The prompt in front of the conversation: assembly, session prefix, runtime context."""

    async def test_session_start_is_announced_once_and_may_inject(self) -> None:
        """L-056, L-057: the first request sees the context; an exception aborts nothing."""
        async with self.harness(model=script(say("x"))) as h:
            seen: list[tuple[str, str]] = []

            def start(event: SessionStart) -> None:
                seen.append((event.agent.id, event.source))
                event.agent.inject(note("welcome"))
                raise ValueError("contained")

            h.ctx.on(SESSION_START, start)
            handle = await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED)
            async with handle:
                handle.agent.send("hi")
                await handle.agent.when_idle()
            assert seen == [("b", "startup")]
            assert [m.text for m in h.requests[0].messages] == ["welcome", "hi"]

    async def test_the_session_prefix_is_composed_once_and_fronts_every_request(self) -> None:
        """L-058, L-059, L-060: registration order; in the header, never in history."""
        async with self.harness(model=script(call("ping"), say("x"), say("y"))) as h:
            h.ctx[Tools].register(ping)
            inner: list[object] = []

            def contribute(text: str) -> None:
                message = note(text)

                async def prefix(request: PrefixRequest, call_next: Next[object]) -> list[Message]:
                    rest = await call_next()
                    inner.append(rest)
                    return [message, *rest]  # type: ignore[misc]

                h.ctx.on("agent/session-prefix", prefix)

            contribute("one")
            contribute("two")
            await h.send("a")
            await h.send("b")
            assert len(h.requests) == 3
            for request in h.requests:
                assert [m.text for m in request.messages[:2]] == ["one", "two"]
            assert len(inner) == 2
            assert inner[0] == ()
            header = h.session.request_header()
            assert header is not None
            assert [m.text for m in header.message_prefix] == ["one", "two"]
            assert not {"one", "two"} & {m.text for m in h.session.derive_messages()}

    @pytest.mark.parametrize("junk", [None, "text", ["text"]])
    async def test_a_prefix_that_is_no_messages_costs_one_turn(self, junk: object) -> None:
        """L-062: it is not kept, so the next turn composes another one."""
        async with self.harness(model=script(say("x"))) as h:
            broken = h.ctx.on("agent/session-prefix", lambda request, call_next: junk)
            await h.send("a")
            assert isinstance(h.turn_end, Errored)
            assert "agent/session-prefix" in h.turn_end.failure.message
            broken.close()
            assert await h.send("b") == "x"

    async def test_prefix_listeners_are_heard_by_their_scope_only(self) -> None:
        """L-061, L-193: a scoped listener shapes its own agent."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
            other = await h.ctx[Agents].create(session_id="other", agent_options=SCRIPTED)
            other.agent.ctx.on(SESSION_PREFIX, lambda request, call_next: [note("mine")])
            await h.send("a")
            other.agent.send("b")
            await other.agent.when_idle()
            assert [len(request.messages) for request in h.requests] == [1, 2]
            await other.dispose()

    async def test_tools_are_in_canonical_order_in_header_and_request(self) -> None:
        """L-157: independent of the order of registration."""
        async with self.harness(model=script(say("x"))) as h:
            for name in ("zeta", "alpha", "mid"):

                async def body() -> str:
                    return "x"

                h.ctx[Tools].register(tool(name=name, description=name)(body))
            await h.send("a")
            assert self.dialect.offered(h.requests[0]) == ("alpha", "mid", "zeta")
            header = headers(h)[0].header
            assert (header.tools, header.system) == (h.requests[0].tools, h.requests[0].system)

    async def test_the_configured_tool_order_holds_and_an_unknown_name_fails_the_turn(self) -> None:
        """L-157: with error and without step; a repaired order is used by the next turn."""
        async with self.harness(model=script(say("x"))) as h:
            h.ctx[Tools].register(ping)
            h.ctx[Tools].register(tool(name="alpha", description="First.")(ping.execute))
            [prompt] = h.ctx.fibers(SystemPrompt)
            await prompt.update({"toolOrder": ["typo", REST]})
            await h.send("a")
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert (failed.step, "typo" in failed.failure.message) == (None, True)
            assert count(h, StepStart) == 0
            await prompt.update({"toolOrder": ["ping", REST]})
            assert await h.send("b") == "x"
            assert self.dialect.offered(h.requests[0]) == ("ping", "alpha")

    async def test_a_strict_failure_of_rendering_fails_that_turn_only(self) -> None:
        """L-160: without step; the next turn is served once the section is repaired."""
        async with self.harness(model=script(say("x"))) as h:
            section = h.ctx[SystemPrompt].section("broken", 50, "I am {{nobody}}.")
            await h.send("a")
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert (failed.step, "nobody" in failed.failure.message) == (None, True)
            assert count(h, StepStart) == 0
            section.close()
            assert await h.send("b") == "x"

    async def test_changed_runtime_context_travels_at_the_tail_with_an_unchanged_header(
        self,
    ) -> None:
        """L-158: sent when it changes, once cleared; never in the system text."""
        async with self.harness(model=script(*[say("x")] * 4)) as h:
            facts = ["it rains"]
            weather = h.ctx[SystemPrompt].context("weather", 10, lambda context: facts[0])
            await h.send("a")
            await h.send("b")
            facts[0] = "it snows"
            await h.send("c")
            weather.close()
            await h.send("d")
            tails = [line for line in self.lines(h) if line.startswith("plugin system-prompt")]
            assert len(tails) == 3
            assert "it rains" in tails[0]
            assert "it snows" in tails[1]
            assert len(headers(h)) == 1
            assert "rain" not in str(h.requests[0].system)

    async def test_runtime_context_alone_opens_no_step(self) -> None:
        """L-224: a snapshot neither opens nor prolongs a turn."""
        async with self.harness() as h:
            h.ctx[SystemPrompt].context("weather", 10, "it rains")
            h.ctx.once(QUEUED, lambda queued: h.agent.inbox.remove(queued.message.id))
            await h.send("removed before its turn opens")
            assert h.turn_end == Completed()
            assert [e.type for e in h.events if isinstance(e.view, TurnStart | StepStart)] == [
                "turn/start"
            ]

    async def test_an_empty_assembly_omits_the_system_field(self) -> None:
        """L-161: a short-circuiting listener."""
        async with self.harness(model=script(say("x"))) as h:

            async def empty(assembling: object, call_next: Next[object]) -> object:
                return replace(await call_next(), sections=())  # type: ignore[type-var]

            h.ctx.on("system-prompt/assemble", empty)
            await h.send("a")
            assert h.requests[0].system is None
            assert headers(h)[0].header.system is None
