from terret_agents import TURN_STOPPING, TurnStopping
from terret_llm import Finish, TextBlock
from terret_sessions import AssistantMessage, Completed, MaxTokens, ToolCall, TurnEnd
from terret_testing import call, reply, running_harness, say, script
from terret_tools import Tools, tool

CUT = Finish.max_tokens()


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


async def test_a_ceiling_is_the_reason_of_its_turn_and_of_no_other() -> None:
    """L-071, L-073, L-227: the next queued prompt runs and completes."""
    async with running_harness(model=script(reply(say("x"), finish=CUT), say("y"))) as h:
        h.agent.send("a")
        h.agent.send("b")
        await h.agent.when_idle()
        reasons = [e.view.reason for e in h.events if isinstance(e.view, TurnEnd)]
        assert reasons == [MaxTokens(), Completed()]


async def test_an_earlier_ceiling_survives_a_later_step() -> None:
    """L-072, L-076: also one with tool calls, whose results are fed back."""
    model = script(reply(say("x"), finish=CUT), call("ping"), say("done"))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(ping)
        texts = iter(["go on"])

        def steer(event: TurnStopping) -> None:
            if text := next(texts, None):
                event.agent.steer(text)

        h.ctx.on(TURN_STOPPING, steer)
        assert await h.send("a") == "done"
        assert h.turn_end == MaxTokens()


async def test_truncated_tool_calls_are_never_run_and_safe_content_is_kept() -> None:
    """L-074, L-075."""
    async with running_harness(model=script(reply(say("so:"), call("ping"), finish=CUT))) as h:
        h.ctx[Tools].register(ping)
        await h.send("a")
        assert not any(isinstance(e.view, ToolCall) for e in h.events)
        assert h.session.derive_messages()[-1].content == (TextBlock("so:"),)
        assert h.turn_end == MaxTokens()


async def test_an_empty_truncated_step_is_logged() -> None:
    """L-014: with or without usage."""
    model = script(reply(finish=CUT), reply(finish=CUT, usage=None))
    async with running_harness(model=model) as h:
        await h.send("a")
        await h.send("b")
        answers = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
        assert [answer.message.content for answer in answers] == [(), ()]
        assert [answer.usage is None for answer in answers] == [False, True]
