"""`assert_balanced` fails where it should."""

import pytest

from terret_llm import ToolCallBlock, create_assistant_message
from terret_sessions import (
    AssistantMessage,
    Completed,
    Sessions,
    StepEnd,
    StepStart,
    ToolCall,
    TurnEnd,
    TurnStart,
)
from terret_testing import assert_balanced, call, running_harness, say, script
from terret_tools import Tools, tool


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


async def test_a_session_at_rest_is_balanced() -> None:
    async with running_harness(model=script(call("ping"), say("x"))) as h:
        h.ctx[Tools].register(ping)
        assert_balanced(h.session)
        await h.send("go")
        assert_balanced(h.session)


async def test_an_open_turn_and_an_open_call_are_named() -> None:
    async with running_harness() as h:
        h.session.append("turn/start", TurnStart(1))
        with pytest.raises(AssertionError, match="turn 1 of test is open"):
            assert_balanced(h.session)
        h.session.append("step/start", StepStart(1, 1))
        asked = create_assistant_message([ToolCallBlock("c", "ping", "{}")], "p", "m")
        h.session.append(
            "assistant/message", AssistantMessage(1, 1, asked), surface_op="append", sources=[]
        )
        copy = h.ctx[Sessions].prepare("copy", seed=h.events)
        copy.append("step/end", StepEnd(1, 1))
        copy.append("turn/end", TurnEnd(1, Completed()))
        with pytest.raises(AssertionError, match="in the history: \\['c'\\]"):
            assert_balanced(copy)
        copy.append("tool/call", ToolCall(1, 1, "c", "ping", "{}"))
        with pytest.raises(AssertionError, match="without a result: Counter"):
            assert_balanced(copy)
