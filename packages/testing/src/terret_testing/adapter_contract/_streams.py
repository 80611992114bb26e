"""What holds for every adapter, wherever its model is."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from terret_context import Container, Context, plugin
from terret_llm import (
    BlockAssembler,
    Chunk,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    create_user_message,
)

from ._grammar import grammar_faults
from ._scopes import check_no_scope_is_left

SECONDS = 20


@asynccontextmanager
async def adapter_running(
    adapter: LlmAdapter, *, model: str = "m", text: str = "hello"
) -> AsyncIterator[tuple[Llm, GenerateOptions]]:
    """Registers an adapter in a container; yields the service and a request that reaches it."""

    @plugin(inject=(Llm,))
    def under_test(ctx: Context) -> None:
        ctx[Llm].register_adapter("under-test", adapter)

    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(under_test).ready()
        messages = (create_user_message(text),)
        yield root[Llm], GenerateOptions(provider="under-test", model=model, messages=messages)


class AdapterContract(ABC):
    """What every adapter has to keep, wherever its model is."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    def running(self) -> AbstractAsyncContextManager[tuple[Llm, GenerateOptions]]:
        """The service, and a request that the adapter answers in several chunks, again and again.

        `adapter_running(MyAdapter())` is one.
        """

    async def answer_of(self, llm: Llm, request: GenerateOptions) -> list[Chunk]:
        """All chunks of a request."""
        chunks: list[Chunk] = []
        with anyio.fail_after(SECONDS):
            async with aclosing(llm.stream(request)) as stream:
                chunks += [chunk async for chunk in stream]
        return chunks

    async def test_chunks_come_in_their_order(self) -> None:
        """M-036: per index start, deltas, end; usage before the one finish."""
        async with self.running() as (llm, request):
            chunks = await self.answer_of(llm, request)
        assert list(grammar_faults(chunks)) == []
        assert isinstance(chunks[-1], FinishChunk)
        assert not chunks[-1].finish.failed, chunks[-1].finish.failure

    async def test_deltas_make_the_blocks_that_end_them(self) -> None:
        """M-002: whoever shows deltas shows what is kept."""
        async with self.running() as (llm, request):
            chunks = await self.answer_of(llm, request)
        whole, pieces = BlockAssembler(), BlockAssembler()
        for chunk in chunks:
            whole.push(chunk)
            if chunk.type != "block-end":
                pieces.push(chunk)
        assert pieces.blocks() == whole.blocks()

    async def test_no_chunk_is_yielded_inside_a_scope(self) -> None:
        """M-131: no cancel scope and no task group is open where a chunk is handed out."""
        async with self.running() as (llm, request), aclosing(llm.stream(request)) as stream:
            assert await check_no_scope_is_left(stream)

    async def test_leaving_after_each_chunk_leaves_nothing_behind(self) -> None:
        """M-130: no task, and the next request is answered as before."""
        async with self.running() as (llm, request):
            chunks = await self.answer_of(llm, request)
            for seen in range(len(chunks) + 1):
                tasks = len(anyio.get_running_tasks())
                with anyio.fail_after(SECONDS):
                    async with aclosing(llm.stream(request)) as stream:
                        for _ in range(seen):
                            await anext(stream)
                    await stream.aclose()
                assert len(anyio.get_running_tasks()) <= tasks
            after = await self.answer_of(llm, request)
        assert [chunk.type for chunk in after] == [chunk.type for chunk in chunks]

    async def test_cancelling_before_each_chunk_is_no_answer(self) -> None:
        """M-023, M-130: the cancellation goes through, and nothing is made of it."""
        async with self.running() as (llm, request):
            chunks = await self.answer_of(llm, request)
            for seen in range(len(chunks)):
                seen_finish = False
                with anyio.CancelScope() as scope:
                    async with aclosing(llm.stream(request)) as stream:
                        for _ in range(seen):
                            await anext(stream)
                        scope.cancel()
                        chunk = await anext(stream)
                        seen_finish = isinstance(chunk, FinishChunk) and chunk.finish.failed
                        await anyio.lowlevel.checkpoint()
                assert scope.cancelled_caught
                assert not seen_finish
