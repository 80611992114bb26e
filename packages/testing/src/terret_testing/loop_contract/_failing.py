"""Failures: of requests, of listeners, of the log."""

from collections.abc import AsyncIterator

import pytest

from terret_agents import ERROR, REQUEST_ERROR, AgentFailure, RequestFailure, Retry
from terret_context import Next
from terret_llm import GenerateOptions, HarnessError, LlmError, LlmFailure
from terret_sessions import (
    EVENT,
    FLUSH,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Errored,
    LogInvariantError,
    Session,
    SessionEvent,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)
from terret_testing import Harness, fail, reply, say, script

from ._chapter import Chapter
from ._kit import vetoing


def failed(h: Harness) -> LlmFailure:
    reason = h.turn_end
    assert isinstance(reason, Errored)
    return reason.failure


def errors_of(h: Harness) -> list[str]:
    """Collects what `agent/error` tells from here on."""
    seen: list[str] = []

    def listen(failure: AgentFailure) -> None:
        seen.append(str(failure.error))

    h.ctx.on(ERROR, listen)
    return seen


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Failing(Chapter):
    """Failures: of requests, of listeners, of the log."""

    @pytest.mark.parametrize("junk", [None, "text"])
    async def test_middleware_that_returns_no_stream_is_named(self, junk: object) -> None:
        """L-165: a forgotten `return` ends the turn with the name of the event."""
        async with self.harness() as h:
            h.ctx.on("llm/stream", lambda request, call_next: junk)
            await h.send("go")
            assert "llm/stream returned " in failed(h).message

    async def test_an_exception_of_middleware_is_not_offered_to_recovery(self) -> None:
        """L-165: it ends the turn."""
        async with self.harness() as h:
            offered: list[RequestFailure] = []

            async def broken(request: GenerateOptions, call_next: Next[object]) -> object:
                raise ConnectionError("proxy is down")

            def recover(failure: RequestFailure, call_next: object) -> Retry:
                offered.append(failure)
                return Retry()

            h.ctx.on("llm/stream", broken)
            h.ctx.on(REQUEST_ERROR, recover)
            await h.send("go")
            assert offered == []
            assert "proxy is down" in failed(h).message

    async def test_each_failed_attempt_may_be_retried_in_the_same_step(self) -> None:
        """L-166: chunks of failed attempts stay in the log and are cited by no message."""
        model = script(reply(say("lost"), fail("SERVER")), fail("TIMEOUT"), say("ok"))
        async with self.harness(model=model) as h:
            offered: list[tuple[str, str, int, int]] = []

            def recover(failure: RequestFailure, call_next: object) -> Retry:
                offered.append((failure.failure.code, failure.provider, failure.turn, failure.step))
                return Retry()

            h.ctx.on(REQUEST_ERROR, recover)
            assert await h.send("go") == "ok"
            assert offered == [("SERVER", "scripted", 1, 1), ("TIMEOUT", "scripted", 1, 1)]
            assert sum(isinstance(event.view, StepStart) for event in h.events) == 1
            [answer] = [e for e in h.events if isinstance(e.view, AssistantMessage)]
            chunks = [event.seq for event in h.events if isinstance(event.view, AssistantChunk)]
            assert answer.sources is not None
            assert list(answer.sources) == chunks[-len(answer.sources) :]
            assert len(answer.sources) == 4 + 1

    @pytest.mark.parametrize("broken", [False, True])
    async def test_a_recovery_without_action_or_with_a_failure_leaves_the_turn_failed(
        self,
        broken: bool,
    ) -> None:
        """L-168: the request's own failure, or that of the listener."""
        async with self.harness(model=script(fail("SERVER", "down"))) as h:

            async def recover(
                failure: RequestFailure, call_next: Next[Retry | None]
            ) -> Retry | None:
                if broken:
                    raise RuntimeError("recovery is down")
                return await call_next()

            h.ctx.on(REQUEST_ERROR, recover)
            await h.send("go")
            code, text = ("UNKNOWN", "recovery is down") if broken else ("SERVER", "down")
            assert failed(h).code == code
            assert text in failed(h).message

    async def test_an_aborted_finish_keeps_its_code(self) -> None:
        """L-169."""
        async with self.harness(
            model=script(fail("ABORTED", "by the provider", aborted=True))
        ) as h:
            await h.send("go")
            assert failed(h) == LlmFailure("by the provider", "ABORTED")

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (LlmError(LlmFailure("busy", "RATE_LIMIT", status=429)), "RATE_LIMIT"),
            (HarnessError("too much", "OVER_BUDGET"), "OVER_BUDGET"),
            (ExceptionGroup("one", [HarnessError("too much", "OVER_BUDGET")]), "OVER_BUDGET"),
            (LookupError("gone"), "UNKNOWN"),
            (Unprintable(), "UNKNOWN"),
        ],
    )
    async def test_facts_and_codes_of_failures_are_kept(self, error: Exception, code: str) -> None:
        """L-170: other exceptions are UNKNOWN; what cannot be rendered degrades safely."""
        async with self.harness() as h:

            async def broken(proposal: object, call_next: object) -> None:
                raise error

            h.ctx.on("agent/request", broken)
            await h.send("go")
            assert failed(h).code == code
            assert failed(h).status == (429 if code == "RATE_LIMIT" else None)

    async def test_throwing_observers_of_boundaries_change_nothing(self) -> None:
        """L-175."""
        async with self.harness(model=script(say("x"), say("y"))) as h:

            def observe(session: Session, event: SessionEvent) -> None:
                if isinstance(event.view, TurnStart | StepStart | StepEnd | TurnEnd):
                    raise RuntimeError(event.type)

            h.ctx.on(EVENT, observe)
            assert await h.send("a") == "x"
            assert await h.send("b") == "y"
            assert h.turn_end == Completed()

    async def test_a_veto_of_turn_start_leaves_no_turn(self) -> None:
        """L-176, L-227: reported; the input waits for the next wake."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
            errors = errors_of(h)
            vetoing(h, "turn/start")
            await h.send("a")
            assert errors == ["no turn/start"]
            assert h.session.last_turn == 0
            assert [m.text for m in h.agent.inbox.next_turn] == ["a"]
            await h.send("b")
            self.assert_lines(h, "user: a", "assistant: x", "user: b", "assistant: y")

    async def test_a_veto_of_step_start_invents_no_step(self) -> None:
        """L-176: an error end without that step."""
        async with self.harness() as h:
            errors = errors_of(h)
            vetoing(h, "step/start")
            await h.send("a")
            assert errors == ["no step/start"]
            assert [e.type for e in h.events][-2:] == ["agent/inbox/spliced", "turn/end"]
            reason = h.turn_end
            assert isinstance(reason, Errored)
            assert reason.step is None

    async def test_a_veto_of_step_end_surfaces_the_open_step(self) -> None:
        """L-176, L-177: the invariants then refuse `turn/end`, which is not tried again."""
        async with self.harness(model=script(say("x"))) as h:
            failures: list[AgentFailure] = []
            h.ctx.on(ERROR, failures.append)
            vetoing(h, "step/end")
            await h.send("a")
            assert [type(each.error) for each in failures] == [ValueError, LogInvariantError]
            assert (h.turn_end, h.agent.status) == (None, "idle")

    async def test_a_vetoed_turn_end_is_reported_and_not_tried_again(self) -> None:
        """L-177."""
        async with self.harness(model=script(say("x"))) as h:
            errors = errors_of(h)
            vetoing(h, "turn/end")
            await h.send("a")
            assert (errors, h.turn_end) == (["no turn/end"], None)

    async def test_a_waiter_returns_when_its_run_fails(self) -> None:
        """L-179, L-180: a rejected flush is reported and not fatal."""
        async with self.harness(model=script(fail("SERVER"), say("x"))) as h:
            errors = errors_of(h)

            async def flush(session: Session) -> None:
                raise OSError("disk full")

            h.ctx.on(FLUSH, flush)
            await h.send("a")
            assert errors == ["the scripted model fails", "disk full"]
            assert await h.send("b") == "x"
            assert h.turn_end == Completed()

    async def test_an_adapter_that_ends_without_a_finish_is_a_stop(self) -> None:
        """L-169: finish defaults to stop."""
        async with self.harness() as h:

            async def silent(request: GenerateOptions, call_next: Next[object]) -> object:
                async def chunks() -> AsyncIterator[object]:
                    return
                    yield

                return chunks()

            h.ctx.on("llm/stream", silent)
            await h.send("a")
            assert h.turn_end == Completed()
