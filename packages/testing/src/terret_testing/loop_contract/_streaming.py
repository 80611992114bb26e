"""How the stream of an answer is read, left and closed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from terret_agents import USER, AgentOptions
from terret_context import Context, Next, plugin
from terret_llm import (
    STREAM,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    TextDelta,
)
from terret_sessions import Aborted, AssistantChunk, Errored, Session, SessionEvent, Sessions
from terret_testing import Harness, OpenScopeError, say, script

from ._chapter import Chapter
from ._kit import on_event


class Reading:
    """A listener of `llm/stream` that notes which task reads, and what is logged at the end."""

    def __init__(self, h: Harness) -> None:
        self.tasks: set[int] = set()
        self.closed: list[str] = []
        self._h = h
        h.ctx.on(STREAM, self.listen)

    async def listen(self, request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        self._note_task()
        return self._read(await call_next())

    async def _read(self, inner: Chunks) -> Chunks:
        async with aclosing(inner):
            try:
                async for chunk in inner:
                    self._note_task()
                    yield chunk
            finally:
                self._note_task()
                self.closed.append(self._h.events[-1].type)

    def _note_task(self) -> None:
        self.tasks.add(anyio.get_current_task().id)


class Streaming(Chapter):
    """How the stream of an answer is read, left and closed."""

    async def test_one_task_reads_a_stream_and_closes_it_before_the_answer_is_logged(self) -> None:
        """L-312: the turn's own; after the last chunk nothing of the stream is left."""
        async with self.harness(model=script(say("a", "b"))) as h:
            reading = Reading(h)
            await h.send("go")
            assert (len(reading.tasks), reading.closed) == (1, ["assistant/chunk"])

    async def test_a_cancel_closes_the_stream_in_its_task_before_the_step_ends(self) -> None:
        """L-312: the cleanup of an adapter runs where its chunks were read."""
        async with self.harness(model=script(say("a", "b"))) as h:
            reading = Reading(h)
            on_event(h, "assistant/chunk", lambda: h.agent.cancel(USER))
            await h.send("go")
            assert (len(reading.tasks), reading.closed) == (1, ["assistant/chunk"])
            assert h.turn_end == Aborted(USER)

    async def test_an_error_of_the_consumer_closes_the_stream_before_the_step_ends(self) -> None:
        """L-312: a chunk that a validator refuses, in the middle of the answer."""
        async with self.harness(model=script(say("a", "b"), say("fine"))) as h:
            reading = Reading(h)

            def veto(session: Session, event: SessionEvent) -> None:
                match event.view:
                    case AssistantChunk(chunk=TextDelta(text="b")):
                        raise ValueError("not this one")

            h.ctx[Sessions].validator(veto)
            await h.send("go")
            assert (len(reading.tasks), reading.closed) == (1, ["assistant/chunk"])
            assert isinstance(h.turn_end, Errored)
            assert "not this one" in h.turn_end.failure.message
            assert await h.send("again") == "fine"

    @pytest.mark.parametrize("kind", ["scope", "group"])
    async def test_a_listener_that_yields_inside_a_scope_is_found(self, kind: str) -> None:
        """M-131: the harness of a test names the line; a task group counts too."""
        async with self.harness(model=script(say("a", "b"))) as h:

            async def within_scope(inner: Chunks) -> Chunks:
                async with aclosing(inner):
                    with anyio.move_on_after(60):
                        async for chunk in inner:
                            yield chunk

            async def within_group(inner: Chunks) -> Chunks:
                async with aclosing(inner), anyio.create_task_group():
                    async for chunk in inner:
                        yield chunk

            wrap = within_scope if kind == "scope" else within_group

            async def listen(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
                return wrap(await call_next())

            h.ctx.on(STREAM, listen)
            with pytest.raises(OpenScopeError, match=r"_streaming\.py:\d+"):
                await h.send("go")
            assert isinstance(h.turn_end, Errored)

    async def test_an_adapter_that_yields_inside_a_scope_is_found(self) -> None:
        """M-131: however deep in the stream it is."""

        class Careless(LlmAdapter):
            async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
                with anyio.CancelScope():
                    yield TextDelta(0, "x")
                    yield FinishChunk(Finish.stop())

        @plugin(name="careless", inject=(Llm,))
        def careless(ctx: Context) -> None:
            ctx[Llm].register_adapter("careless", Careless())

        options = AgentOptions(provider="careless", model="any")
        async with self.harness(plugins=[careless], options=options) as h:
            with pytest.raises(OpenScopeError, match=r"_streaming\.py:\d+"):
                await h.send("go")
