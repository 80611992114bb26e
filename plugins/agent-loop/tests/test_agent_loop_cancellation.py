from collections.abc import AsyncIterator, Callable

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    DISCARDED,
    DISPOSED,
    PARENT,
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    SESSION_PREFIX,
    STATUS,
    STEP_RESULT,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    USER,
    InputDiscarded,
    Retry,
    StatusChange,
    hook,
)
from terret_llm import GenerateOptions, PluginSource, create_user_message
from terret_sessions import (
    EVENT,
    FLUSH,
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Session,
    SessionEvent,
    StepStart,
    ToolResult,
    TurnStart,
)
from terret_system_prompt import ASSEMBLE
from terret_testing import (
    Harness,
    call,
    fail,
    pause,
    raw_call,
    reply,
    running_harness,
    say,
    script,
    think,
)
from terret_tools import ToolRun, Tools, tool


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


def count(h: Harness, payload: type) -> int:
    return sum(isinstance(event.view, payload) for event in h.events)


def cancel_on(h: Harness, event_type: str) -> None:
    """Cancels from an observer of the log."""

    def observe(session: Session, event: SessionEvent) -> None:
        if event.type == event_type:
            h.agent.cancel(USER)

    h.ctx.on(EVENT, observe)


async def test_cancel_while_idle_and_empty_is_nothing() -> None:
    """L-080, L-093: the next prompt runs."""
    async with running_harness(model=script(say("x"))) as h:
        h.agent.cancel(USER)
        assert len(h.events) == 0
        assert await h.send("hi") == "x"


async def test_cancel_while_idle_discards_parked_input_without_a_turn() -> None:
    """L-080: no turn, no status event."""
    async with running_harness() as h:
        statuses: list[str] = []
        h.ctx.on(STATUS, lambda change: statuses.append(change.status))
        h.agent.inject("parked")
        h.agent.cancel(USER)
        assert (h.agent.inbox.has_pending, statuses, count(h, TurnStart)) == (False, [], 0)


@pytest.mark.parametrize("keep", [False, True])
async def test_cancel_during_a_step_aborts_the_turn_and_discards_or_parks_what_is_queued(
    keep: bool,
) -> None:
    """L-081, L-082, L-098: with keep_inbox queued input waits for the next wake."""
    async with running_harness(model=script(reply(pause("p"), say("one")))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.steer("steering")
        h.agent.followup("next")
        h.agent.cancel(USER, keep_inbox=keep)
        await h.agent.when_idle()
        assert (h.turn_end, count(h, TurnStart)) == (Aborted(USER), 1)
        pending = [*h.agent.inbox.next_step, *h.agent.inbox.next_turn]
        assert [m.text for m in pending] == (["steering", "next"] if keep else [])


async def test_a_waking_send_between_abort_and_idle_is_latched_and_runs() -> None:
    """L-083, L-085, L-091: waiters do not return early; steering becomes a prompt."""
    async with running_harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.cancel(USER, keep_inbox=True)
        h.agent.steer("replacement")
        assert [m.text for m in h.agent.inbox.next_turn] == ["replacement"]
        await h.agent.when_idle()
        h.assert_transcript("user: a", "user: replacement", "assistant: two")
        assert h.turn_end == Completed()


async def test_a_plain_cancel_clears_a_latched_wake() -> None:
    """L-084."""
    async with running_harness(model=script(reply(pause("p"), say("one")))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.cancel(USER)
        h.agent.send("replacement")
        h.agent.cancel(PARENT)
        await h.agent.when_idle()
        assert (count(h, TurnStart), h.turn_end) == (1, Aborted(USER))


async def test_removing_the_latched_message_suppresses_the_replay() -> None:
    """L-084."""
    async with running_harness(model=script(reply(pause("p"), say("one")))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.cancel(USER)
        late = h.agent.send("replacement")
        assert h.agent.inbox.remove(late.id)
        await h.agent.when_idle()
        assert count(h, TurnStart) == 1


async def test_a_cleared_latch_is_not_revived_by_contexts_that_come_later() -> None:
    """L-084, L-127: the turn is drained, its contexts stay parked."""
    async with running_harness(model=script(call("slow"))) as h:
        running, ending, released = anyio.Event(), anyio.Event(), anyio.Event()

        @tool
        async def slow(run: ToolRun) -> str:
            """End slowly and leave a note."""
            running.set()
            try:
                await anyio.Event().wait()
                return "never"
            finally:
                with anyio.CancelScope(shield=True):
                    ending.set()
                    await released.wait()
                    run.defer_context(create_user_message("note", PluginSource("slow")))

        h.ctx[Tools].register(slow)
        h.agent.send("a")
        await running.wait()
        h.agent.cancel(USER)
        await ending.wait()
        h.agent.send("replacement")
        h.agent.cancel(USER)
        released.set()
        await h.agent.when_idle()
        assert [m.text for m in h.agent.inbox.next_step] == ["note"]
        assert count(h, TurnStart) == 1


@pytest.mark.parametrize("keep", [False, True])
async def test_cancel_right_after_a_send_closes_the_opened_turn_without_a_step(keep: bool) -> None:
    """L-086, L-082: the claimed message is not restored."""
    async with running_harness() as h:
        h.agent.send("a")
        h.agent.cancel(USER, keep_inbox=keep)
        await h.agent.when_idle()
        assert (count(h, StepStart), h.turn_end) == (0, Aborted(USER))
        assert not h.agent.inbox.has_pending


async def test_cancel_inside_the_running_listener_drops_the_turn_and_replacement_replays() -> None:
    """L-090, L-311: no turn for the first send; status returns to idle."""
    async with running_harness(model=script(say("x"))) as h:
        first = [True]
        statuses: list[str] = []

        def listener(change: StatusChange) -> None:
            statuses.append(change.status)
            if change.status == "running" and first.pop() if first else False:
                h.agent.cancel(USER)
                h.agent.send("replacement")

        h.ctx.on(STATUS, listener)
        h.agent.send("dropped")
        assert count(h, TurnStart) == 0
        await h.agent.when_idle()
        h.assert_transcript("user: replacement", "assistant: x")
        assert statuses == ["running", "idle", "running", "idle"]


async def test_cancel_from_an_idle_listener_settles_its_waiter_and_later_work_runs() -> None:
    """L-089: and replacement work queued there runs before the waiter returns."""
    async with running_harness(model=script(say("one"), say("two"))) as h:
        first = [True]

        def listener(change: StatusChange) -> None:
            if change.status == "idle" and first:
                first.clear()
                h.agent.cancel(USER)
                h.agent.send("replacement")

        h.ctx.on(STATUS, listener)
        assert await h.send("a") == "two"
        assert h.turn_end == Completed()


async def test_replacement_queued_while_a_cancel_takes_effect_replays() -> None:
    """L-099: an answer to a discard is a replacement."""
    async with running_harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:

        def answer(event: InputDiscarded) -> None:
            h.agent.send("replacement")

        h.ctx.once(DISCARDED, answer)
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.followup("queued")
        h.agent.cancel(USER)
        await h.agent.when_idle()
        h.assert_transcript("user: a", "user: replacement", "assistant: two")


async def test_the_first_cause_wins() -> None:
    """L-100, A-014: a later cancel clears the inbox again and changes nothing else."""
    async with running_harness(model=script(reply(pause("p")))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.cancel(hook("over budget"), keep_inbox=True)
        h.agent.inject("x")
        h.agent.cancel(DISPOSED)
        await h.agent.when_idle()
        assert h.turn_end == Aborted(hook("over budget"))
        assert not h.agent.inbox.has_pending


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


@pytest.mark.parametrize("name", CHECKPOINTS)
async def test_one_cancel_ends_the_turn_at_every_checkpoint(name: str) -> None:
    """L-101, L-102, L-088, L-097: the listener is cancelled; no further step, log balanced."""
    serial = name in {"agent/turn-stop", "agent/turn-stopping"}
    model = script(say("x"))
    if name == "tools/pre-execute":
        model = script(call("ping"))
    elif name == "agent/request-error":
        model = script(fail("SERVER"))
    async with running_harness(model=model) as h:
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
async def test_a_listener_that_cancels_and_returns_stops_the_turn_there(event: object) -> None:
    """L-101, L-300: `check()` follows every awaited checkpoint."""
    async with running_harness(model=script(say("x"))) as h:

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


async def test_an_interrupted_prefix_is_composed_again_in_the_next_turn() -> None:
    """L-062."""
    async with running_harness(model=script(say("x"))) as h:
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
        assert h.transcript[-1] == "assistant: x"


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
    parts: tuple[object, ...], kept: str | None
) -> None:
    """L-094: text, or reasoning alone; a tool call is dropped; nothing gives no message."""
    async with running_harness(model=script(reply(*parts))) as h:  # type: ignore[arg-type]
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


async def test_cancel_during_step_result_keeps_the_visible_text() -> None:
    """L-215."""
    async with running_harness(model=script(say("thought"))) as h:

        async def result(payload: object, call_next: Callable[[], object]) -> None:
            h.agent.cancel(USER)
            await anyio.sleep_forever()

        h.ctx.on("agent/step-result", result)
        await h.send("go")
        [answer] = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
        assert (answer.interrupted, answer.message.text) == (True, "thought")


async def test_cancel_during_recovery_finalizes_nothing_and_beats_a_retry() -> None:
    """L-095, L-167: a Retry that is returned after the cancel is ignored."""
    async with running_harness(model=script(reply(say("x"), fail("SERVER")))) as h:

        def recover(payload: object, call_next: object) -> Retry:
            h.agent.cancel(USER)
            return Retry()

        h.ctx.on(REQUEST_ERROR, recover)
        await h.send("go")
        assert (len(h.requests), count(h, AssistantMessage)) == (1, 0)
        assert h.turn_end == Aborted(USER)


async def test_cancel_from_an_observer_of_the_answer_skips_its_tools() -> None:
    """L-092, L-121: each call gets its pair, with ABORTED_BEFORE_DISPATCH."""
    async with running_harness(model=script(reply(call("ping"), call("ping")))) as h:
        ran: list[int] = []

        @tool
        async def ping() -> str:
            """Ping."""
            ran.append(1)
            return "pong"

        h.ctx[Tools].register(ping)
        cancel_on(h, "assistant/message")
        await h.send("go")
        results = [e.view for e in h.events if isinstance(e.view, ToolResult)]
        codes = [result.error.code for result in results if result.error]
        assert codes == ["ABORTED_BEFORE_DISPATCH"] * 2
        assert (ran, h.turn_end) == ([], Aborted(USER))


async def test_cancel_from_an_observer_of_step_start_makes_no_request() -> None:
    """L-096: the step is closed."""
    async with running_harness() as h:
        cancel_on(h, "step/start")
        await h.send("go")
        assert (len(h.requests), count(h, StepStart), h.turn_end) == (0, 1, Aborted(USER))


async def test_cancel_during_the_flush_keeps_the_written_reason_and_parks() -> None:
    """L-214."""
    async with running_harness(model=script(say("x"))) as h:

        async def flush(session: Session) -> None:
            h.agent.followup("queued")
            h.agent.cancel(USER, keep_inbox=True)

        h.ctx.on(FLUSH, flush)
        await h.send("go")
        assert (h.turn_end, count(h, TurnStart)) == (Completed(), 1)
        assert [m.text for m in h.agent.inbox.next_turn] == ["queued"]


async def test_leaving_a_stream_early_closes_it_in_the_turns_task_before_the_step_ends() -> None:
    """L-312: cleanup of the adapter runs before `step/end`."""
    async with running_harness() as h:
        closed: list[tuple[bool, str]] = []

        async def around(request: GenerateOptions, call_next: Callable[[], object]) -> object:
            task = anyio.get_current_task().id
            inner = await call_next()  # type: ignore[misc]

            async def chunks() -> AsyncIterator[object]:
                try:
                    async for chunk in inner:
                        yield chunk
                finally:
                    await inner.aclose()
                    closed.append((anyio.get_current_task().id == task, h.events[-1].type))

            return chunks()

        h.ctx.on("llm/stream", around)
        h.model.add(say("a", "b"))
        cancel_on(h, "assistant/chunk")
        await h.send("go")
        assert closed == [(True, "assistant/chunk")]
        assert count(h, AssistantChunk) == 1
        assert h.turn_end == Aborted(USER)


async def test_a_cancelled_turn_leaves_the_task_as_it_was() -> None:
    """L-300: what the driver awaits afterwards is not cancelled."""
    async with running_harness(model=script(reply(pause("p")), say("x"))) as h:
        flushed: list[str] = []

        async def flush(session: Session) -> None:
            await anyio.lowlevel.checkpoint()
            flushed.append("done")

        h.ctx.on(FLUSH, flush)
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.cancel(USER)
        h.agent.send("b")
        await h.agent.when_idle()
        assert flushed == ["done", "done"]
        assert h.transcript[-1] == "assistant: x"
