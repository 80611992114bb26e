"""A model that answers from a script."""

from contextlib import aclosing

import anyio
import pytest

from terret_llm import (
    BlockAssembler,
    Chunk,
    Finish,
    FinishChunk,
    GenerateOptions,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    Usage,
    UsageChunk,
    create_user_message,
)
from terret_testing import (
    ScriptedModel,
    ScriptExhaustedError,
    call,
    fail,
    pause,
    raw_call,
    reply,
    say,
    script,
    think,
)


def request(text: str = "hi") -> GenerateOptions:
    message = create_user_message(text)
    return GenerateOptions(provider="scripted", model="scripted", messages=(message,))


async def chunks_of(model: ScriptedModel, text: str = "hi") -> list[Chunk]:
    async with aclosing(model.stream(request(text))) as chunks:
        return [chunk async for chunk in chunks]


async def answer_of(model: ScriptedModel) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in await chunks_of(model):
        assembler.push(chunk)
    return assembler


async def test_each_request_gets_the_next_entry() -> None:
    model = script(say("one"), say("two"))
    for text in ("one", "two"):
        assert (await answer_of(model)).blocks() == (TextBlock(text),)
    assert len(model.requests) == 2
    assert model.remaining == 0


async def test_each_piece_is_a_chunk_between_start_and_end() -> None:
    chunks = await chunks_of(script(say("a", "b", "c")))
    assert [chunk.type for chunk in chunks] == [
        "block-start",
        *["text-delta"] * 3,
        "block-end",
        "usage",
        "finish",
    ]
    assert chunks[1:4] == [TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c")]


async def test_a_reply_joins_parts_of_all_kinds() -> None:
    model = script(reply(think("hm"), say("Looking."), call("look", at="x"), call("look")))
    answer = await answer_of(model)
    assert answer.blocks() == (
        ReasoningBlock("hm"),
        TextBlock("Looking."),
        ToolCallBlock("call-1", "look", '{"at":"x"}'),
        ToolCallBlock("call-2", "look", "{}"),
    )
    assert answer.finish == Finish.tool_calls()


async def test_arguments_may_be_any_text() -> None:
    answer = await answer_of(script(raw_call("look", "{not json", id="mine")))
    assert answer.blocks() == (ToolCallBlock("mine", "look", "{not json"),)


async def test_finish_and_usage_may_be_chosen() -> None:
    usage = Usage(input_tokens=1, output_tokens=2)
    chunks = await chunks_of(script(reply(say("x"), finish=Finish.max_tokens(), usage=usage)))
    assert chunks[-2:] == [UsageChunk(usage), FinishChunk(Finish.max_tokens())]
    without = await chunks_of(script(reply(say("x"), usage=None)))
    assert [chunk.type for chunk in without[-2:]] == ["block-end", "finish"]


@pytest.mark.parametrize("aborted", [False, True])
async def test_a_failure_ends_the_stream(aborted: bool) -> None:
    chunks = await chunks_of(script(reply(say("par"), fail("SERVER", "down", aborted=aborted))))
    last = chunks[-1]
    assert isinstance(last, FinishChunk)
    assert last.finish.kind == ("aborted" if aborted else "error")
    assert last.finish.failure is not None
    assert (last.finish.failure.code, last.finish.failure.message) == ("SERVER", "down")


async def test_an_entry_may_depend_on_the_request() -> None:
    model = script(lambda request: say(request.messages[-1].text.upper()))
    assert (await answer_of(model)).blocks() == (TextBlock("HI"),)


async def test_a_request_beyond_the_script_is_loud_and_remembered() -> None:
    model = script()
    with pytest.raises(ScriptExhaustedError, match=r"no answer to request 1; .* 'more'") as info:
        await chunks_of(model, "more")
    assert model.exhausted is info.value
    with pytest.raises(ScriptExhaustedError, match="request 2"):
        await chunks_of(model)
    assert model.exhausted is info.value


async def test_a_script_can_be_made_longer() -> None:
    model = script()
    model.add(say("later"))
    assert (await answer_of(model)).blocks() == (TextBlock("later"),)


async def test_a_stream_waits_at_a_pause_until_it_is_released() -> None:
    model = script(reply(say("a"), pause("middle"), say("b")))
    seen: list[str] = []

    async def read() -> None:
        async with aclosing(model.stream(request())) as chunks:
            seen.extend([chunk.text async for chunk in chunks if isinstance(chunk, TextDelta)])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await model.reached("middle")
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        model.release("middle")
    assert seen == ["a", "b"]


async def test_a_pause_that_was_released_before_does_not_wait() -> None:
    model = script(reply(pause("open"), say("through")))
    model.release("open")
    assert (await answer_of(model)).blocks() == (TextBlock("through"),)
    await model.reached("open")
