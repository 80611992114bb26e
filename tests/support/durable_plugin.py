"""Plugins of the harness that is killed: a model that answers by rules, and a tool with an effect.

Both write what they do into a journal first, which a kill does not take back.
"""

import json
import os
import random
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio

from terret_context import Config, Context, plugin
from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    Message,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    Usage,
    UsageChunk,
)
from terret_tools import ToolRun, Tools, tool


class Journal:
    """Lines that outlive the process, each of them whole."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())


class DurableConfig(Config):
    journal: Path
    seed: int = 0


class RuleModel(LlmAdapter):
    """Calls tools up to three times a turn, then answers; all of it in small pieces."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self._journal = journal
        self._random = random.Random(seed)
        self._calls = 0

    async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        check_conversation(request.messages)
        self._journal.write("model", request.messages[-1].id)
        for index in range(self._random.randrange(1, 4)):
            text = ""
            yield BlockStart(index, "text")
            for _ in range(self._random.randrange(1, 30)):
                piece = self._random.choice(["word ", "\u00e9\u2028", "\U0001f30d"])
                text += piece
                yield TextDelta(index, piece)
                await self._pause()
            yield BlockEnd(index, TextBlock(text))
        calls = self._random.randrange(0, 4) if _results(request) < 3 else 0
        for at in range(calls):
            call = self._call()
            yield BlockStart(10 + at, "tool-call")
            yield ToolCallDelta(10 + at, call.id, call.name, call.arguments)
            yield BlockEnd(10 + at, call)
        yield UsageChunk(Usage(10, 10))
        yield FinishChunk(Finish.tool_calls() if calls else Finish.stop())

    def _call(self) -> ToolCallBlock:
        self._calls += 1
        id = f"{os.getpid()}-{self._calls}"
        return ToolCallBlock(id, "effect", json.dumps({"wait": self._random.randrange(3)}))

    async def _pause(self) -> None:
        if not self._random.randrange(5):
            await anyio.sleep(self._random.random() / 500)


def check_conversation(messages: Sequence[Message]) -> None:
    """Raises AssertionError if a provider would refuse this: a call without its result."""
    open_calls: list[str] = []
    for message in messages:
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        if results:
            assert results[0].tool_call_id in open_calls, f"{results[0]} answers nothing"
            open_calls.remove(results[0].tool_call_id)
        else:
            assert not open_calls, f"calls without a result: {open_calls}"
            open_calls = [call.id for call in message.tool_calls]
    assert not open_calls, f"calls without a result: {open_calls}"


def _results(request: GenerateOptions) -> int:
    count = 0
    for message in reversed(request.messages):
        if message.source.kind == "user":
            break
        count += any(isinstance(block, ToolResultBlock) for block in message.content)
    return count


@plugin(config=DurableConfig, inject=(Llm, Tools))
def durable(ctx: Context, config: DurableConfig) -> None:
    """Registers the provider `rules` and the tool `effect`."""
    journal = Journal(config.journal)

    @tool
    async def effect(run: ToolRun, wait: int) -> str:
        """Has an effect."""
        journal.write("began", run.call_id)
        await anyio.sleep(wait / 1000)
        journal.write("ended", run.call_id)
        return "done"

    ctx[Llm].register_adapter(["rules"], RuleModel(journal, config.seed))
    ctx[Tools].register(effect)
