"""Turns, steps and their order in the log."""

from itertools import pairwise

import pytest

from terret_agents import STATUS, AgentOptions, Agents, StatusChange
from terret_llm import GenerateOptions, LlmFailure, ModelSource, PluginSource, TextBlock
from terret_sessions import (
    EVENT,
    AssistantMessage,
    Completed,
    Errored,
    Session,
    SessionBusyError,
    SessionEvent,
    StepStart,
    TurnEnd,
)
from terret_testing import call, fail, reply, say, script
from terret_tools import Tools, tool

from ._chapter import Chapter
from ._kit import text_of, turn_numbers


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Turns(Chapter):
    """Turns, steps and their order in the log."""

    async def test_one_prompt_gives_one_request_and_the_log_of_a_simple_turn(self) -> None:
        """L-001, L-005: order of a simple turn; each chunk is one event, in stream order."""
        async with self.harness(model=script(say("a", "b", "c"))) as h:
            statuses: list[str] = []
            h.ctx.on(STATUS, lambda change: statuses.append(change.status))
            h.agent.send("hi")
            assert h.agent.status == "running"
            await h.agent.when_idle()
            assert statuses == ["running", "idle"]
            assert [event.type for event in h.events] == [
                "agent/inbox/spliced",
                "turn/start",
                "agent/inbox/spliced",
                "step/start",
                "user/message",
                "request/header",
                "request/context",
                *["assistant/chunk"] * 7,
                "assistant/message",
                "step/end",
                "turn/end",
            ]
            assert len(h.requests) == 1

    async def test_status_changes_are_announced_once_each_and_a_throwing_listener_hangs_nobody(
        self,
    ) -> None:
        """L-002, L-003, A-016: one event per transition; a failing listener breaks none of them."""
        async with self.harness(model=script(say("one"), say("two"))) as h:
            seen: list[str] = []

            def listener(change: StatusChange) -> None:
                seen.append(change.status)
                raise ValueError("boom")

            h.ctx.on(STATUS, listener)
            assert await h.send("a") == "one"
            assert await h.send("b") == "two"
            assert seen == ["running", "idle", "running", "idle"]

    async def test_a_tool_result_is_in_the_next_request_of_the_same_turn(self) -> None:
        """L-004: tool round trip."""
        async with self.harness(model=script(call("add", a=1, b=2), say("3"))) as h:
            h.ctx[Tools].register(add)
            assert await h.send("1+2?") == "3"
            self.assert_lines(h, "user: 1+2?", "result: 3", "assistant: 3")
            assert "3" in text_of(h.requests[1].messages[-1])
            assert turn_numbers(h) == [1]

    async def test_replaying_the_log_as_a_seed_derives_the_same_history_and_goes_on_counting(
        self,
    ) -> None:
        """L-006, L-007: a seeded session has the same messages; turn numbers continue."""
        async with self.harness(model=script(say("one"), say("two"), say("three"))) as h:
            await h.send("a")
            await h.send("b")
            copy = Session(seed=tuple(h.events))
            assert list(copy.derive_messages()) == list(h.session.derive_messages())
            handle = await h.ctx[Agents].create(
                session_id="child",
                seed=tuple(h.events),
                agent_options=AgentOptions(provider="scripted", model="scripted"),
            )
            async with handle:
                handle.agent.send("c")
                await handle.agent.when_idle()
                assert handle.agent.session.last_turn == 3

    async def test_a_step_is_in_the_log_when_its_observer_runs(self) -> None:
        """L-008: `step/start` is committed before it is observed."""
        async with self.harness(model=script(say("x"))) as h:
            seen: list[bool] = []

            def observer(session: Session, event: SessionEvent) -> None:
                if isinstance(event.view, StepStart):
                    seen.append(session.events[-1] is event)

            h.ctx.on(EVENT, observer)
            await h.send("hi")
            assert seen == [True]

    async def test_a_model_failure_ends_the_turn_and_later_turns_are_served(self) -> None:
        """L-009, L-169: finish error ends the turn with its failure; the agent goes on."""
        async with self.harness(model=script(fail("AUTH", "no key"), say("better"))) as h:
            await h.send("a")
            assert await h.send("b") == "better"
            reasons = [e.view.reason for e in h.events if isinstance(e.view, TurnEnd)]
            assert reasons == [Errored(LlmFailure("no key", "AUTH"), 1), Completed()]

    async def test_provider_and_model_are_recorded_with_the_answer(self) -> None:
        """L-012: the source of an assistant message names its route."""
        async with self.harness(model=script(say("x"))) as h:
            await h.send("hi")
            answer = h.session.derive_messages()[-1]
            assert answer.source == ModelSource("scripted", "scripted")

    async def test_an_empty_answer_is_logged_too(self) -> None:
        """L-013: an empty stop without usage appends an `assistant/message`."""
        async with self.harness(model=script(reply(usage=None))) as h:
            await h.send("hi")
            [answer] = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
            assert (answer.message.content, answer.usage) == ((), None)
            assert h.turn_end == Completed()
            assert [message.role for message in h.session.derive_messages()] == ["user"]

    async def test_a_burst_of_sends_gives_one_turn_each(self) -> None:
        """L-015: nothing is lost, turn numbers strictly increase."""
        count = 20
        async with self.harness(model=script(*[say(str(n)) for n in range(count)])) as h:
            for number in range(count):
                h.agent.send(f"prompt {number}")
            await h.agent.when_idle()
            assert turn_numbers(h) == list(range(1, count + 1))
            assert all(a < b for a, b in pairwise(turn_numbers(h)))
            users = [m.text for m in h.session.derive_messages() if m.role == "user"]
            assert users == [f"prompt {number}" for number in range(count)]

    async def test_settled_and_immediate_sends_keep_one_turn_each(self) -> None:
        """L-016, L-017: one turn per next-turn message; each keeps its own source."""
        async with self.harness(model=script(*[say("ok")] * 4)) as h:
            await h.send("a")
            h.agent.send("b", source=PluginSource("mail"))
            h.agent.send("c")
            await h.agent.when_idle()
            await h.send("d")
            assert turn_numbers(h) == [1, 2, 3, 4]
            users = [m for m in h.session.derive_messages() if m.role == "user"]
            assert [m.text for m in users] == ["a", "b", "c", "d"]
            assert [m.source.kind for m in users] == ["user", "plugin", "user", "user"]

    async def test_a_send_from_inside_the_adapter_goes_to_the_following_turn(self) -> None:
        """L-018: input after the claim waits for a turn of its own."""

        async with self.harness() as h:

            def sending(request: GenerateOptions) -> object:
                h.agent.send("second")
                return say("first answer")

            h.model.add(sending, say("second answer"))  # type: ignore[arg-type]
            assert await h.send("first") == "second answer"
            self.assert_lines(
                h,
                "user: first",
                "assistant: first answer",
                "user: second",
                "assistant: second answer",
            )
            assert turn_numbers(h) == [1, 2]

    async def test_a_send_from_a_log_observer_raises_there_and_changes_nothing(self) -> None:
        """L-019: appending from inside a publication is refused and contained."""
        async with self.harness(model=script(say("x"))) as h:
            refused: list[Exception] = []

            def observer(session: Session, event: SessionEvent) -> None:
                if event.type == "turn/start":
                    try:
                        h.agent.send("again")
                    except SessionBusyError as error:
                        refused.append(error)
                        raise

            h.ctx.on(EVENT, observer)
            assert await h.send("hi") == "x"
            assert len(refused) == 1
            assert not h.agent.inbox.has_pending

    async def test_an_invalid_cap_is_refused_and_a_valid_one_reaches_the_first_request(
        self,
    ) -> None:
        """L-020: max_tokens of the options."""
        with pytest.raises(ValueError, match="max_tokens"):
            AgentOptions(max_tokens=0)
        options = AgentOptions(provider="scripted", model="scripted", max_tokens=17)
        async with self.harness(model=script(say("x")), options=options) as h:
            await h.send("hi")
            assert h.requests[0].max_tokens == 17

    async def test_turn_ends_are_the_last_event_of_their_turn(self) -> None:
        """L-001: every opened turn is closed."""
        async with self.harness(model=script(say("x"), fail("SERVER"))) as h:
            for text in ("a", "b"):
                await h.send(text)
                assert isinstance(h.events[-1].view, TurnEnd)

    async def test_a_message_keeps_its_blocks(self) -> None:
        """L-017: content given as a message is not rewritten."""
        async with self.harness(model=script(say("x"))) as h:
            await h.send("hi")
            assert h.session.derive_messages()[0].content == (TextBlock("hi"),)
