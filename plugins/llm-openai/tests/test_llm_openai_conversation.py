"""What the second request of a conversation holds, with servers that insist on it."""

from contextlib import aclosing
from functools import partial
from typing import Any

import anyio

from mounted_models import mounted_model
from terret_llm import (
    BlockAssembler,
    GenerateOptions,
    Llm,
    Message,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
    message_from_wire,
)
from terret_plugin_llm_openai import llm_openai
from terret_testing import (
    FaultyModelServer,
    WireAnswer,
    WireRequest,
    chat_answer,
    event_answer,
    status_answer,
)

mounted = partial(mounted_model, llm_openai)


async def answer(llm: Llm, provider: str, *messages: Message) -> BlockAssembler:
    assembler = BlockAssembler()
    request = GenerateOptions(provider=provider, model="m", messages=messages)
    with anyio.fail_after(20):
        async with aclosing(llm.stream(request)) as chunks:
            async for chunk in chunks:
                assembler.push(chunk)
    return assembler


def said(answer: BlockAssembler, provider: str) -> Message:
    """The message of an answer, after it was stored and loaded."""
    message = create_assistant_message(
        answer.blocks(), provider, "m", replay_state=answer.replay_state
    )
    return message_from_wire(message.to_wire())


async def test_deepseek_gets_its_reasoning_back_within_a_chain_of_tool_calls() -> None:
    """B-080, M-061: also after the session was loaded again; without it the server refuses."""

    def insist(sent: WireRequest) -> WireAnswer:
        [call] = [message for message in sent.json["messages"] if message["role"] == "assistant"]
        if call.get("reasoning_content") == "I should add. ":
            return chat_answer("It is 42.")
        return status_answer(400, {"error": {"message": "reasoning_content is missing"}})

    calls = [("call_0123456789abcdefghij", "add", "{}")]
    first = chat_answer(reasoning="I should add. ", calls=calls)
    async with (
        FaultyModelServer(first, insist) as server,
        mounted(server, preset="deepseek") as llm,
    ):
        question = create_user_message("17 + 25?")
        call = said(await answer(llm, "deepseek", question), "deepseek")
        result = create_tool_result_message(calls[0][0], "42")
        last = await answer(llm, "deepseek", question, call, result)
    assert not last.finish.failed, last.finish.failure


async def test_an_id_that_was_used_before_in_the_conversation_is_replaced() -> None:
    """B-062: results of two turns do not collapse."""
    answers = [chat_answer(calls=[("get_weather:0", "get_weather", "{}")])] * 2
    async with FaultyModelServer(*answers) as server, mounted(server) as llm:
        history: list[Any] = [create_user_message("go")]
        for _ in range(2):
            history.append(said(await answer(llm, "openai", *history), "openai"))
            [call] = history[-1].tool_calls
            history.append(create_tool_result_message(call.id, "ok"))
    ids = [call.id for message in history for call in message.tool_calls]
    assert ids[0] == "get_weather:0"
    assert len(set(ids)) == 2


async def test_openrouter_gets_its_details_back() -> None:
    """B-087, M-029: they are kept through storage, and go to nobody else."""
    detail = {"type": "reasoning.text", "text": "hm ", "signature": "c2ln", "index": 0}
    first = event_answer(
        {"choices": [{"delta": {"reasoning": "hm ", "reasoning_details": [detail]}}]},
        {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]},
        "[DONE]",
    )
    async with FaultyModelServer(first, chat_answer("a"), chat_answer("b")) as server:
        async with mounted(server, preset="openrouter") as llm:
            message = said(await answer(llm, "openrouter", create_user_message("hi")), "openrouter")
            await answer(llm, "openrouter", create_user_message("hi"), message)
        async with mounted(server, preset="openrouter", provider="other") as llm:
            await answer(llm, "other", create_user_message("hi"), message)
    _, own, other = (request.json["messages"][-1] for request in server.requests)
    assert own["reasoning_details"] == [detail]
    assert "reasoning_details" not in other
