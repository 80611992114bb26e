"""What holds for adapters that speak to a server."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest

from terret_context import Container
from terret_llm import Chunk, FinishChunk, GenerateOptions, Llm, TextDelta, create_user_message
from terret_loader import installed_plugins
from terret_testing._faulty_server import FaultyModelServer
from terret_testing._wire_answers import (
    Cut,
    WireAnswer,
    random_faults,
    raw_answer,
    silent_answer,
    status_answer,
)

from ._grammar import grammar_faults
from ._streams import AdapterContract

KEY = "sk-test-SECRET-1234567890"
PROVIDER = "under-test"
TRANSIENT = {"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"}


class ServerAdapterContract(AdapterContract):
    """What every adapter of a model server has to keep.

    Attributes:
        plugin: The name of an installed plugin, or the plugin.
        answer: A good answer of its wire: `answer("Hel", "lo", calls=[("id", "add", "{}")])`.
        settings: Further settings of the plugin.
    """

    plugin: ClassVar[Any]
    answer: ClassVar[Callable[..., WireAnswer]]
    settings: ClassVar[dict[str, object]] = {}

    @property
    def good(self) -> WireAnswer:
        """An answer of text and a call."""
        return type(self).answer(
            "Hel", "lö", calls=[("call_0123456789abcdefghi", "add", '{"x":1}')]
        )

    @asynccontextmanager
    async def mounted(
        self, server: FaultyModelServer, **settings: object
    ) -> AsyncIterator[tuple[Llm, GenerateOptions]]:
        """The plugin in a container, mounted for a server."""
        config = {"baseUrl": server.url, "apiKey": KEY, "provider": PROVIDER}
        async with Container() as root:
            await root.plugin(Llm).ready()
            found = _installed(self.plugin)
            await root.plugin(found, {**config, **self.settings, **settings}).ready()
            messages = (create_user_message("hello"),)
            yield root[Llm], GenerateOptions(provider=PROVIDER, model="m", messages=messages)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[Llm, GenerateOptions]]:
        """The plugin with a server that always gives the same good answer."""
        server = FaultyModelServer(then=itertools.repeat(self.good))
        async with server, self.mounted(server) as running:
            yield running

    async def outcome(self, answer: WireAnswer, **settings: object) -> list[Chunk]:
        """All chunks of a request that the server answers so."""
        chunks: list[Chunk] = []
        server = FaultyModelServer(answer)
        async with server, self.mounted(server, **settings) as (llm, request):
            chunks += await self.answer_of(llm, request)
        return chunks

    @pytest.mark.parametrize("cut", ["bytes", "characters", "line-ends", 7])
    async def test_the_chunks_do_not_depend_on_how_the_body_is_cut(self, cut: Cut) -> None:
        """B-004, B-006: cut inside characters and line ends, with comments in between."""
        whole = await self.outcome(self.good)
        for spoilt in (self.good, self.good.with_comments(), self.good.with_line_ends("\r\n")):
            assert await self.outcome(spoilt.in_pieces(cut)) == whole

    async def test_an_answer_without_its_end_is_never_complete(self) -> None:
        """B-013, B-101: cut after each event but the last ones, however the body ends."""
        ends = [n + 2 for n in range(len(self.good.body)) if self.good.body[n : n + 2] == b"\n\n"]
        complete = 0
        for end in [0, *ends]:
            finish = _finish(await self.outcome(self.good.ends(end)))
            complete += not finish.failed
            if finish.failed:
                assert complete == 0
                assert finish.failure is not None
                assert finish.failure.code in ("STREAM_CLOSED", "EMPTY_RESPONSE")
        assert 0 < complete < len(ends)

    @pytest.mark.parametrize("how", ["hangs_up", "resets"])
    async def test_a_broken_connection_keeps_what_had_arrived(self, how: str) -> None:
        """B-019, M-072: a failure of the transport, behind the text."""
        middle = self.good.body.index("ö".encode())
        end = self.good.body.index(b"\n\n", middle) + 2
        chunks = await self.outcome(getattr(self.good, how)(end))
        assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "Hellö"
        assert _code(chunks) == "TRANSPORT"

    async def test_leaving_after_each_chunk_closes_the_connection(self) -> None:
        """M-130, B-131: the server sees it, and the next request is answered."""
        chunks = await self.outcome(self.good)
        held = self.good.holds(len(self.good.body) - 30)
        for seen in range(1, len(chunks) - 3):
            server = FaultyModelServer(held, self.good)
            async with server, self.mounted(server) as (llm, request):
                with anyio.fail_after(20):
                    async with aclosing(llm.stream(request)) as stream:
                        for _ in range(seen):
                            await anext(stream)
                    await server.left_by(1)
                assert await self.answer_of(llm, request) == chunks

    @pytest.mark.parametrize("after", [None, 0, 1, 2, 3, 4])
    async def test_cancelling_in_each_read_closes_the_connection(self, after: int | None) -> None:
        """M-130, M-072: before the headers, before the first event, and between events."""
        events = self.good.body.split(b"\n\n")
        size = sum(len(event) + 2 for event in events[:after])
        held = silent_answer() if after is None else self.good.holds(size)
        server = FaultyModelServer(held, self.good)
        async with server, self.mounted(server) as (llm, request):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_cancel_at_rest, scope, server)
                    await self.answer_of(llm, request)
            assert scope.cancelled_caught
            with anyio.fail_after(20):
                await server.left_by(1)
            assert not _finish(await self.answer_of(llm, request)).failed

    @pytest.mark.parametrize("begun", [False, True])
    async def test_silence_and_comments_alone_are_a_timeout(self, begun: bool) -> None:
        """B-017, B-018: pings are no output."""
        end = self.good.body.index(b"\n\n", self.good.body.index(b"Hel")) + 2 if begun else 0
        limits = {"firstByteTimeout": 0.2, "idleTimeout": 0.2}
        for held in (self.good.holds(end), self.good.holds(end, ping=b": ping\n\n")):
            assert _code(await self.outcome(held, **limits)) == "TIMEOUT"

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, "INVALID_REQUEST"),
            (401, "AUTH"),
            (403, "AUTH"),
            (413, "CONTEXT_WINDOW_EXCEEDED"),
            (429, "RATE_LIMIT"),
            (500, "SERVER"),
            (503, "SERVER"),
            (529, "SERVER"),
        ],
    )
    async def test_a_refusal_has_its_code_and_shows_no_key(self, status: int, code: str) -> None:
        """M-071, B-124, B-125: what the provider said, without the key it may repeat."""
        said = {"error": {"type": "some_error", "message": f"not with {KEY}"}}
        finish = _finish(await self.outcome(status_answer(status, said, retry_after="2")))
        assert finish.failure is not None
        assert (finish.failure.code, finish.failure.status) == (code, status)
        assert finish.failure.provider_retry_after_ms == 2000
        assert "not with" in finish.failure.message
        assert "SECRET" not in finish.failure.message

    async def test_a_page_is_no_answer(self) -> None:
        """B-020, B-021: of a proxy, or nothing at all."""
        page = raw_answer("<html>Sign in</html>", content_type="text/html")
        assert _code(await self.outcome(page)) == "MALFORMED_RESPONSE"
        assert _code(await self.outcome(raw_answer(b""))) == "EMPTY_RESPONSE"

    async def test_refusals_do_not_use_up_connections(self) -> None:
        """B-130: thirty of them, then an answer."""
        server = FaultyModelServer(*[status_answer(429)] * 30, self.good)
        async with server, self.mounted(server) as (llm, request):
            for _ in range(30):
                assert _code(await self.answer_of(llm, request)) == "RATE_LIMIT"
            assert not _finish(await self.answer_of(llm, request)).failed
        assert server.connections == 1

    async def test_whatever_the_server_does_there_is_one_finish(self) -> None:
        """M-023, M-036: fifty random faults, and the grammar holds."""
        limits = {"firstByteTimeout": 0.05, "idleTimeout": 0.05}
        server = FaultyModelServer(then=random_faults(self.good, seed=7))
        async with server, self.mounted(server, **limits) as (llm, request):
            for _ in range(50):
                chunks = await self.answer_of(llm, request)
                assert list(grammar_faults(chunks)) == []


async def _cancel_at_rest(scope: anyio.CancelScope, server: FaultyModelServer) -> None:
    """Cancels as soon as the request has arrived and nothing moves any more."""
    while not server.requests:
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


def _finish(chunks: list[Chunk]) -> Any:
    assert isinstance(chunks[-1], FinishChunk)
    return chunks[-1].finish


def _code(chunks: list[Chunk]) -> str:
    failure = _finish(chunks).failure
    assert failure is not None, "the answer did not fail"
    return str(failure.code)


def _installed(plugin: Any) -> Any:
    if not isinstance(plugin, str):
        return plugin
    found = {each.name: each for each in installed_plugins()}
    if plugin not in found:
        raise LookupError(f'no plugin "{plugin}" is installed; installed: {", ".join(found)}')
    return found[plugin].load()
