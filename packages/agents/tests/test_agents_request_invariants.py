from collections.abc import Callable
from dataclasses import replace

import pytest

from terret_agents import SESSION_PREFIX, RequestInvariantError, request_invariants
from terret_llm import (
    STREAM,
    GenerateOptions,
    Llm,
    PluginSource,
    create_user_message,
    mark_loop_request,
)
from terret_sessions import Completed, Errored
from terret_testing import Harness, running_harness, say, script

STRAY = create_user_message("stray", PluginSource("stray"))


async def ask(h: Harness, request: GenerateOptions) -> None:
    async for _ in h.ctx[Llm].stream(request):
        pass


async def test_the_loops_requests_are_those_of_the_log() -> None:
    """L-207: with a prefix; a request that no loop made is none of its business."""
    async with running_harness(
        model=script(say("x"), say("y"), say("z")), plugins=[request_invariants]
    ) as h:
        h.agent.ctx.on(SESSION_PREFIX, lambda request, call_next: [STRAY])
        assert await h.send("a") == "x"
        assert await h.send("b") == "y"
        await ask(h, replace(h.requests[-1], system="other"))
        assert h.turn_end == Completed()


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("config", lambda request: replace(request, temperature=0.5)),
        ("system text", lambda request: replace(request, system="other")),
        ("tools", lambda request: replace(request, tools=("x",))),
        ("messages differ", lambda request: replace(request, messages=())),
        ("messages differ", lambda request: replace(request, messages=(STRAY, *request.messages))),
        ("can be changed", lambda request: replace(request, messages=list(request.messages))),
        ("not live", lambda request: replace(request, session_id="gone")),
    ],
)
async def test_a_divergent_request_is_refused(
    what: str, change: Callable[[GenerateOptions], GenerateOptions]
) -> None:
    """L-207: also an unlogged prefix, and one that can still be changed."""
    async with running_harness(model=script(say("x"), say("y")), plugins=[request_invariants]) as h:
        await h.send("a")
        again = replace(h.requests[0], messages=tuple(h.session.derive_messages()))
        await ask(h, mark_loop_request(again))
        with pytest.raises(RequestInvariantError, match=what):
            await ask(h, mark_loop_request(change(again)))


async def test_it_stands_in_front_of_listeners_that_short_circuit() -> None:
    """L-207."""
    async with running_harness(plugins=[request_invariants]) as h:
        served: list[GenerateOptions] = []

        async def serve(request: GenerateOptions, call_next: object) -> object:
            served.append(request)
            raise LookupError("nothing recorded")

        h.ctx.on("llm/stream", serve)
        assert STREAM.name == "llm/stream"
        await h.send("a")
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert len(served) == 1
        with pytest.raises(RequestInvariantError):
            await ask(h, mark_loop_request(replace(served[0], system="other")))
        assert len(served) == 1
