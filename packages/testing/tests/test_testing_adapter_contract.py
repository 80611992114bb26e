"""The contract suite of adapters, run by good adapters and failed by bad ones."""

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing

import anyio
import anyio.lowlevel
import pytest

from terret_context import Context, plugin
from terret_llm import (
    STREAM,
    BlockEnd,
    BlockStart,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    Usage,
    UsageChunk,
)
from terret_testing import chat_answer
from terret_testing.adapter_contract import (
    AdapterContract,
    ServerAdapterContract,
    adapter_running,
    check_no_scope_is_left,
    grammar_faults,
)

START, DELTA, END = BlockStart(0, "text"), TextDelta(0, "a"), BlockEnd(0, TextBlock("a"))
USAGE, STOP = UsageChunk(Usage(1, 1)), FinishChunk(Finish.stop())


class Echo(LlmAdapter):
    """Answers with the last message, with a pause before each chunk."""

    async def stream(self, request: GenerateOptions) -> Chunks:
        text = request.messages[-1].text
        for chunk in (START, TextDelta(0, text), BlockEnd(0, TextBlock(text)), USAGE, STOP):
            await anyio.lowlevel.checkpoint()
            yield chunk


class TestAnAdapterInsideTheProcess(AdapterContract):
    """M-130: three lines for a third party."""

    def running(self) -> AbstractAsyncContextManager[tuple[Llm, GenerateOptions]]:
        return adapter_running(Echo())


class Timed(LlmAdapter):
    async def stream(self, request: GenerateOptions) -> Chunks:
        with anyio.move_on_after(5):
            yield START
        yield STOP


class Grouped(LlmAdapter):
    async def stream(self, request: GenerateOptions) -> Chunks:
        async with anyio.create_task_group():
            yield STOP


def yield_line(function: Callable[..., object]) -> str:
    lines, start = inspect.getsourcelines(function)
    return f"{__file__}:{start + next(n for n, line in enumerate(lines) if 'yield' in line)}"


async def complaint(stream: Chunks) -> str:
    with pytest.raises(AssertionError) as raised:
        await check_no_scope_is_left(stream)
    await anyio.lowlevel.checkpoint()
    return str(raised.value)


@pytest.mark.parametrize("adapter", [Timed(), Grouped()])
async def test_a_yield_inside_a_scope_is_named(adapter: LlmAdapter) -> None:
    """M-131: with file and line, for time limits and task groups."""
    said = await complaint(adapter.stream(GenerateOptions(provider="p", model="m", messages=())))
    assert yield_line(type(adapter).stream) in said


async def test_a_listener_that_yields_inside_a_scope_is_named() -> None:
    """M-131: the runtime's own frames are not in the way."""

    async def limited(chunks: Chunks) -> Chunks:
        with anyio.fail_after(5):
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    @plugin(inject=(Llm,))
    def listener(ctx: Context) -> None:
        async def wrap(request: GenerateOptions, call_next: Callable[[], object]) -> Chunks:
            return limited(await call_next())  # type: ignore[misc]  # typed by the event

        ctx.on(STREAM, wrap)

    async with adapter_running(Echo()) as (llm, request):
        await llm.ctx.plugin(listener).ready()
        said = await complaint(llm.stream(request))
    assert "limited" in said
    assert "_service.py" not in said


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        ([START, DELTA, END, USAGE, STOP], None),
        ([START, DELTA, STOP], None),
        ([STOP], None),
        ([START, DELTA, END], "there is no finish"),
        ([DELTA, STOP], "chunk 0 (text-delta) belongs to block 0, which has not started"),
        ([START, START, STOP], "chunk 1 (block-start) starts block 0 again"),
        ([START, END, DELTA, STOP], "chunk 2 (text-delta) belongs to block 0, which has ended"),
        ([START, END, END, STOP], "chunk 2 (block-end) belongs to block 0, which has ended"),
        ([START, ReasoningDelta(0, "a"), STOP], "chunk 1 (reasoning-delta) is in a text block"),
        ([BlockStart(0, "reasoning"), END, STOP], "ends a reasoning block with text"),
        ([STOP, USAGE], "chunk 1 (usage) comes after the finish"),
        ([STOP, STOP], "chunk 1 (finish) comes after the finish"),
    ],
)
def test_what_is_wrong_with_the_order_of_chunks_is_said(
    chunks: list[Chunk], fault: str | None
) -> None:
    """M-036: the grammar of streams."""
    found = list(grammar_faults(chunks))
    assert found == [] if fault is None else fault in found[0]


def test_a_plugin_that_is_not_installed_is_named() -> None:
    class Missing(ServerAdapterContract):
        plugin = "llm-nowhere"
        answer = staticmethod(chat_answer)

    async def run() -> None:
        async with Missing().running():
            pass

    with pytest.raises(LookupError, match='no plugin "llm-nowhere" is installed'):
        anyio.run(run)
