"""Requests: frozen, logged, each an extension of the one before."""

from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest

from terret_agents import REQUEST, Agents, RequestProposal
from terret_context import Next
from terret_llm import (
    GenerateOptions,
    LlmCallConfig,
    Message,
    PluginSource,
    create_user_message,
    is_loop_request,
)
from terret_sessions import Errored, Replace, RequestHeader, Sources, TurnStart, derive_messages
from terret_system_prompt import SystemPrompt
from terret_testing import SCRIPTED, Part, call, say, script
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import headers, ping


class CountingCodec:
    key = "counting"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_message(self, message: Message) -> bytes:
        self.encoded.append(message.id)
        return message.text.encode()


class Requesting(Chapter):
    """Requests: frozen, logged, each an extension of the one before."""

    async def test_each_request_extends_the_one_before(self) -> None:
        """L-140: within a turn and over turns; all frozen and marked."""
        async with self.harness(model=script(call("ping"), say("x"), say("y"))) as h:
            h.ctx[Tools].register(ping)
            await h.send("a")
            await h.send("b")
            sent = [list(request.messages) for request in h.requests]
            assert sent[1][: len(sent[0])] == sent[0]
            assert sent[2][: len(sent[1])] == sent[1]
            for request in h.requests:
                assert is_loop_request(request)
                with pytest.raises(FrozenInstanceError):
                    request.system = "other"  # type: ignore[misc]

    async def test_a_stable_prompt_logs_one_header_and_a_change_a_full_one(self) -> None:
        """L-141, L-143."""
        async with self.harness(model=script(say("x"), say("y"), say("z"))) as h:
            await h.send("a")
            await h.send("b")
            assert [header.reason for header in headers(h)] == ["initial"]
            h.ctx[SystemPrompt].section("mood", 50, "Be kind.")
            await h.send("c")
            assert [header.reason for header in headers(h)] == ["initial", "change"]
            assert "Be kind." in str(headers(h)[1].header.system)
            assert headers(h)[1].header.config == headers(h)[0].header.config

    async def test_a_fresh_instance_over_a_log_says_resume_and_sends_the_same_prefix(self) -> None:
        """L-143, L-144: even if nothing changed."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
            await h.send("a")
            log = tuple(h.events)
            async with await h.ctx[Agents].create(
                session_id="again", seed=log, agent_options=SCRIPTED
            ) as again:
                again.agent.send("b")
                await again.agent.when_idle()
                events = again.agent.session.events
            assert [e.view.reason for e in events if isinstance(e.view, RequestHeader)][
                -1
            ] == "resume"
            first, second = h.requests
            assert list(second.messages[:2]) == [*first.messages, events[len(log) - 3].view.message]  # type: ignore[attr-defined]
            assert (first.system, first.tools) == (second.system, second.tools)

    async def test_a_request_can_be_rebuilt_from_the_log(self) -> None:
        """L-154, L-207: by the header in force and the derivation over the events before it."""
        async with self.harness(model=script(call("ping"), say("x"), say("y"))) as h:
            h.ctx[Tools].register(ping)
            seen: list[tuple[int, GenerateOptions]] = []

            async def look(request: GenerateOptions, call_next: Next[object]) -> object:
                seen.append((len(h.events), request))
                return await call_next()

            h.ctx.on("llm/stream", look)
            await h.send("a")
            await h.send("b")
            for length, request in seen:
                before = h.events[:length]
                header = [e.view for e in before if isinstance(e.view, RequestHeader)][-1].header
                assert tuple(request.messages) == derive_messages(before)
                assert (request.config, request.system or None) == (header.config, header.system)
                assert request.tools == header.tools

    async def test_input_injected_while_the_request_is_made_joins_the_next_one(self) -> None:
        """L-151."""
        async with self.harness(model=script(call("ping"), say("x"))) as h:
            h.ctx[Tools].register(ping)

            async def inject(
                proposal: RequestProposal, call_next: Next[LlmCallConfig]
            ) -> LlmCallConfig:
                if proposal.step == 1:
                    h.agent.inject("late")
                return await call_next()

            h.ctx.on(REQUEST, inject)
            await h.send("a")
            assert [m.text for m in h.requests[0].messages] == ["a"]
            assert h.requests[1].messages[-1].text == "late"

    async def test_the_seed_is_frozen_and_a_delegating_listener_cannot_change_it(self) -> None:
        """L-152, L-153: changing it raises into the step."""
        async with self.harness() as h:

            async def meddle(
                proposal: RequestProposal, call_next: Next[LlmCallConfig]
            ) -> LlmCallConfig:
                config = await call_next()
                config.model = "other"  # type: ignore[misc]
                return config

            h.ctx.on(REQUEST, meddle)
            await h.send("a")
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert "FrozenInstanceError" in failed.failure.message
            assert h.requests == []

    async def test_a_replacement_of_history_rewrites_the_next_request(self) -> None:
        """L-150: and the log explains it."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
            await h.send("a long story")
            first, last = h.session.surface.seqs[0], h.session.surface.seqs[-1]
            summary = create_user_message("summary", PluginSource("compaction"))
            h.session.append(
                "user/message",
                summary,
                surface_op=Replace(first, last),
                sources=Sources([(first, first), (last, last)]),
            )
            await h.send("go on")
            assert [m.text for m in h.requests[1].messages] == ["summary", "go on"]

    async def test_requests_share_their_messages_and_each_is_encoded_once(self) -> None:
        """L-226: what a step costs besides model and tools does not grow with the history."""
        codec = CountingCodec()

        def encode(request: GenerateOptions) -> Part:
            return say(str(len([message.encoded(codec) for message in request.messages])))

        async with self.harness(model=script(*[encode] * 10)) as h:
            for number in range(10):
                await h.send(f"prompt {number}")
            assert [len(request.messages) for request in h.requests] == list(range(1, 20, 2))
            assert len(codec.encoded) == 19
            appended = [e.seq for e in h.events if isinstance(e.view, TurnStart)]
            assert len({b - a for a, b in pairwise(appended[1:])}) == 1
