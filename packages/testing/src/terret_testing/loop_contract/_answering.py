"""What an answer becomes: `agent/step-result`."""

from collections.abc import Callable
from dataclasses import replace

from terret_agents import STEP_RESULT, StepResult
from terret_context import Next
from terret_llm import Finish, Message, ModelSource, TextBlock, ToolCallBlock, UserSource
from terret_sessions import AssistantMessage, ToolResult
from terret_testing import Harness, call, reply, say, script
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import ping

Rewrite = Callable[[Message], Message]


def rewriting(h: Harness, rewrite: Rewrite) -> None:
    async def result(step: StepResult, call_next: Next[Message]) -> Message:
        return rewrite(await call_next())

    h.ctx.on(STEP_RESULT, result)


def answer(h: Harness) -> Message:
    return next(e.view.message for e in h.events if isinstance(e.view, AssistantMessage))


class Answering(Chapter):
    """What an answer becomes: `agent/step-result`."""

    async def test_the_returned_message_is_logged_and_decides_which_tools_run(self) -> None:
        """L-216: a call that was taken out is not run, one that was put in is."""
        async with self.harness(model=script(call("drop"), say("ok"))) as h:
            h.ctx[Tools].register(ping)
            asked = self.blocks(call("ping"))
            rewrites = iter([asked])

            def once(message: Message) -> Message:
                return replace(message, content=next(rewrites, message.content))

            rewriting(h, once)
            await h.send("go")
            self.assert_lines(h, "user: go", "result: pong", "assistant: ok")
            assert answer(h).content == asked

    async def test_identity_role_and_source_stay_and_changed_blocks_drop_replay_state(self) -> None:
        """L-216."""
        state = {"response": "r-1"}
        finish = Finish.stop(replay_state=state)
        model = script(reply(say("x"), finish=finish), reply(say("x"), finish=finish))
        async with self.harness(model=model) as h:
            await h.send("unchanged")
            assert answer(h).source == ModelSource("scripted", "scripted", state)
            ids: list[str] = []

            def forge(message: Message) -> Message:
                ids.append(message.id)
                return Message("forged", "user", (TextBlock("y"),), UserSource())

            rewriting(h, forge)
            await h.send("changed")
            last = h.session.derive_messages()[-1]
            assert (last.id, last.role, last.text) == (ids[0], "assistant", "y")
            assert last.source == ModelSource("scripted", "scripted")

    async def test_tool_calls_that_a_listener_adds_to_a_truncated_answer_are_stripped(self) -> None:
        """L-216, L-074."""
        model = script(reply(say("x"), finish=Finish.max_tokens()))
        async with self.harness(model=model) as h:
            h.ctx[Tools].register(ping)
            added = ToolCallBlock("mine", "ping", "{}")
            rewriting(h, lambda message: replace(message, content=(*message.content, added)))
            await h.send("go")
            assert answer(h).content == (TextBlock("x"),)
            assert not any(isinstance(e.view, ToolResult) for e in h.events)
