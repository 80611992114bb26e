"""Cancellation at each point of a turn: what is kept, what never starts."""

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    SESSION_PREFIX,
    STEP_RESULT,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    USER,
    Retry,
)
from terret_sessions import (
    FLUSH,
    Aborted,
    AssistantMessage,
    Completed,
    Session,
    StepStart,
    TurnStart,
)
from terret_system_prompt import ASSEMBLE
from terret_testing import call, fail, pause, raw_call, reply, say, script, think
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import count, on_event, ping

CHECKPOINTS = [
    "system-prompt/assemble",
    "agent/session-prefix",
    "agent/pre-step",
    "agent/request",
    "llm/stream",
    "agent/step-result",
    "agent/turn-continuation",
    "agent/turn-stop",
    "agent/turn-stopping",
    "tools/pre-execute",
    "agent/request-error",
]


WITHOUT_STEP = {"system-prompt/assemble", "agent/session-prefix", "agent/pre-step"}


class Interrupting(Chapter):
    """Cancellation at each point of a turn: what is kept, what never starts."""

    @pytest.mark.parametrize("name", CHECKPOINTS)
    async def test_one_cancel_ends_the_turn_at_every_checkpoint(self, name: str) -> None:
        """L-101, L-102, L-088, L-097: the listener is cancelled; no further step, log balanced."""
        serial = name in {"agent/turn-stop", "agent/turn-stopping"}
        model = script(say("x"))
        if name == "tools/pre-execute":
            model = script(call("ping"))
        elif name == "agent/request-error":
            model = script(fail("SERVER"))
        async with self.harness(model=model) as h:
            h.ctx[Tools].register(ping)
            waiting = anyio.Event()
            cancelled: list[str] = []

            async def wait(*payload: object) -> None:
                waiting.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    cancelled.append(name)

            async def around(payload: object, call_next: object) -> None:
                await wait()

            listener: Callable[..., object] = wait if serial else around
            h.ctx.on(name, listener)
            h.agent.send("go")
            await waiting.wait()
            h.agent.cancel(USER)
            await h.agent.when_idle()
            assert cancelled == [name]
            assert h.turn_end == Aborted(USER)
            assert count(h, StepStart) == (0 if name in WITHOUT_STEP else 1)

    @pytest.mark.parametrize(
        "event",
        [
            ASSEMBLE,
            SESSION_PREFIX,
            PRE_STEP,
            REQUEST,
            STEP_RESULT,
            TURN_CONTINUATION,
            TURN_STOP,
            TURN_STOPPING,
        ],
    )
    async def test_a_listener_that_cancels_and_returns_stops_the_turn_there(
        self, event: object
    ) -> None:
        """L-101, L-300: `check()` follows every awaited checkpoint."""
        async with self.harness(model=script(say("x"))) as h:

            async def around(payload: object, call_next: Callable[[], object]) -> object:
                h.agent.cancel(USER)
                return await call_next()  # type: ignore[misc]

            async def answer(payload: object) -> None:
                h.agent.cancel(USER)

            serial = event in (TURN_STOP, TURN_STOPPING)
            h.ctx.on(str(getattr(event, "name", "")), answer if serial else around)
            await h.send("go")
            assert h.turn_end == Aborted(USER)
            requested = event not in (ASSEMBLE, SESSION_PREFIX, PRE_STEP, REQUEST)
            assert len(h.requests) == (1 if requested else 0)

    async def test_an_interrupted_prefix_is_composed_again_in_the_next_turn(self) -> None:
        """L-062."""
        async with self.harness(model=script(say("x"))) as h:
            composed: list[int] = []

            async def prefix(request: object, call_next: Callable[[], object]) -> list[object]:
                composed.append(1)
                if len(composed) == 1:
                    h.agent.cancel(USER)
                return []

            h.ctx.on("agent/session-prefix", prefix)
            await h.send("a")
            await h.send("b")
            assert len(composed) == 2
            assert self.lines(h)[-1] == "assistant: x"

    @pytest.mark.parametrize(
        ("parts", "kept"),
        [
            ((say("par"), pause("p"), say("tial")), "par"),
            ((think("hm"), pause("p")), ""),
            ((raw_call("ping", "{}"), pause("p")), None),
            ((say("  "), pause("p")), None),
            ((pause("p"),), None),
        ],
    )
    async def test_what_was_visible_of_a_cancelled_stream_is_kept(
        self, parts: tuple[object, ...], kept: str | None
    ) -> None:
        """L-094: text, or reasoning alone; a tool call is dropped; nothing gives no message."""
        async with self.harness(model=script(reply(*parts))) as h:  # type: ignore[arg-type]
            h.agent.send("go")
            await h.model.reached("p")
            h.agent.cancel(USER)
            await h.agent.when_idle()
            answers = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
            assert h.turn_end == Aborted(USER)
            if kept is None:
                assert answers == []
            else:
                [answer] = answers
                assert (answer.interrupted, answer.message.text) == (True, kept)
                assert h.events[-3].sources is not None

    async def test_cancel_during_step_result_keeps_the_visible_text(self) -> None:
        """L-215."""
        async with self.harness(model=script(say("thought"))) as h:

            async def result(payload: object, call_next: Callable[[], object]) -> None:
                h.agent.cancel(USER)
                await anyio.sleep_forever()

            h.ctx.on("agent/step-result", result)
            await h.send("go")
            [answer] = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
            assert (answer.interrupted, answer.message.text) == (True, "thought")

    async def test_cancel_during_recovery_finalizes_nothing_and_beats_a_retry(self) -> None:
        """L-095, L-167: a Retry that is returned after the cancel is ignored."""
        async with self.harness(model=script(reply(say("x"), fail("SERVER")))) as h:

            def recover(payload: object, call_next: object) -> Retry:
                h.agent.cancel(USER)
                return Retry()

            h.ctx.on(REQUEST_ERROR, recover)
            await h.send("go")
            assert (len(h.requests), count(h, AssistantMessage)) == (1, 0)
            assert h.turn_end == Aborted(USER)

    async def test_cancel_from_an_observer_of_step_start_makes_no_request(self) -> None:
        """L-096: the step is closed."""
        async with self.harness() as h:
            on_event(h, "step/start", lambda: h.agent.cancel(USER))
            await h.send("go")
            assert (len(h.requests), count(h, StepStart), h.turn_end) == (0, 1, Aborted(USER))

    async def test_cancel_during_the_flush_keeps_the_written_reason_and_parks(self) -> None:
        """L-214."""
        async with self.harness(model=script(say("x"))) as h:

            async def flush(session: Session) -> None:
                h.agent.followup("queued")
                h.agent.cancel(USER, keep_inbox=True)

            h.ctx.on(FLUSH, flush)
            await h.send("go")
            assert (h.turn_end, count(h, TurnStart)) == (Completed(), 1)
            assert [m.text for m in h.agent.inbox.next_turn] == ["queued"]
