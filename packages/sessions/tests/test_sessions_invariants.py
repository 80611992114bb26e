from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from terret_context import Container, Context, plugin
from terret_llm import (
    LlmCallConfig,
    TextDelta,
    create_assistant_message,
    create_tool_result_message,
)
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    EndSeed,
    EpochHeader,
    ErrorInfo,
    LogInvariantError,
    Replace,
    RequestContext,
    RequestHeader,
    Session,
    Sessions,
    StepEnd,
    StepStart,
    TodoWrite,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    log_invariants,
    repair_closers,
)

Step = Callable[[Session], object]


@asynccontextmanager
async def checked() -> AsyncIterator[Context]:
    """The context of a plugin whose sessions are held to the invariants."""
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(log_invariants)
        fiber = root.plugin(plugin(inject=(Sessions,), name="host")(lambda ctx: None))
        await root.settle()
        yield fiber.ctx


def turn_start(turn: int = 1) -> Step:
    return lambda session: session.append("turn/start", TurnStart(turn))


def turn_end(turn: int = 1) -> Step:
    return lambda session: session.append("turn/end", TurnEnd(turn, Completed()))


def step_start(step: int = 1, turn: int = 1) -> Step:
    return lambda session: session.append("step/start", StepStart(turn, step))


def step_end(step: int = 1, turn: int = 1) -> Step:
    return lambda session: session.append("step/end", StepEnd(turn, step))


def chunk(step: int = 1, turn: int = 1) -> Step:
    view = AssistantChunk(turn, step, TextDelta(0, "x"))
    return lambda session: session.append("assistant/chunk", view)


def answer(step: int = 1) -> Step:
    view = AssistantMessage(1, step, create_assistant_message("x", "p", "m"))
    return lambda session: session.append("assistant/message", view, surface_op="append")


def call(step: int = 1, id: str = "c") -> Step:
    return lambda session: session.append("tool/call", ToolCall(1, step, id, "add", "{}"))


def result(step: int = 1, id: str = "c", code: str | None = None) -> Step:
    error = None if code is None else ErrorInfo("E", code)
    view = ToolResult(1, step, create_tool_result_message(id, "3", id=f"r-{id}"), error)
    return lambda session: session.append("tool/result", view, surface_op="append")


def rewrite(seq: int) -> Step:
    def append(session: Session) -> object:
        message = create_tool_result_message("c", "cut", id="r-c")
        view = ToolResult(1, 1, message)
        return session.append("tool/result", view, surface_op=Replace(seq, seq), sources=[seq])

    return append


def header(session: Session) -> object:
    view = RequestHeader(EpochHeader(config=LlmCallConfig(provider="p", model="m")), "initial")
    return session.append("request/header", view)


def context(session: Session) -> object:
    return session.append("request/context", RequestContext("p", "m"))


def todo(session: Session) -> object:
    return session.append("todo/write", TodoWrite(()))


def end_seed(session: Session) -> object:
    return session.append("session/end-seed", EndSeed())


def decision(session: Session) -> object:
    return session.append("tool/decision", {})


GOOD: dict[str, list[Step]] = {
    "a turn without a step": [turn_start(), turn_end(), turn_start(2), turn_end(2)],
    "a step": [turn_start(), step_start(), header, context, chunk(), answer(), step_end()],
    "steps count in each turn": [
        turn_start(),
        step_start(),
        step_end(),
        step_start(2),
        step_end(2),
        turn_end(),
        turn_start(2),
        step_start(1, 2),
        step_end(1, 2),
        turn_end(2),
    ],
    "overlapping calls": [
        turn_start(),
        step_start(),
        answer(),
        call(id="a"),
        call(id="b"),
        result(id="b"),
        result(id="a"),
        todo,
        step_end(),
        turn_end(),
    ],
    "an id used again": [turn_start(), step_start(), call(), result(), call(), result()],
    "a call that was not started": [
        turn_start(),
        step_start(),
        result(code="TOOL_NOT_STARTED"),
        step_end(),
    ],
    "between turns": [decision, end_seed, turn_start(), end_seed, turn_end(), decision],
    "a rewritten result": [
        turn_start(),
        step_start(),
        call(),
        result(),
        step_end(),
        turn_end(),
        turn_start(2),
        rewrite(3),
    ],
}
BAD: dict[str, tuple[list[Step], Step, str]] = {
    "the first turn is 1": ([], turn_start(2), "turn 1 is next"),
    "no gap": ([turn_start(), turn_end()], turn_start(3), "turn 2 is next"),
    "one turn at a time": ([turn_start()], turn_start(2), "turn 1 is open"),
    "no end without start": ([], turn_end(), "no turn is open"),
    "the end of another turn": ([turn_start()], turn_end(2), "turn 1 is open, not 2"),
    "a step needs a turn": ([], step_start(), "no turn is open"),
    "the first step is 1": ([turn_start()], step_start(2), "step 1 is next"),
    "one step at a time": ([turn_start(), step_start()], step_start(2), "step 1 is open"),
    "a turn ends without a step": ([turn_start(), step_start()], turn_end(), "step 1 is open"),
    "the end of another step": ([turn_start(), step_start()], step_end(2), "not step 2"),
    "a chunk needs a step": ([turn_start()], chunk(), "no step is open"),
    "a chunk of another step": ([turn_start(), step_start()], chunk(2), "not step 2"),
    "a chunk of another turn": ([turn_start(), step_start()], chunk(1, 2), "of turn 2"),
    "a message of another step": ([turn_start(), step_start()], answer(2), "not step 2"),
    "a call of another step": ([turn_start(), step_start()], call(2), "not step 2"),
    "a call twice": ([turn_start(), step_start(), call()], call(), "open already"),
    "a result of nothing": ([turn_start(), step_start()], result(), "no tool/call"),
    "a second result": (
        [turn_start(), step_start(), call(), result()],
        result(),
        "no tool/call",
    ),
    "an open call": ([turn_start(), step_start(), call()], step_end(), "without a result: c"),
    "a late result": (
        [turn_start(), step_start(), step_end(), step_start(2)],
        result(1),
        "not step 1",
    ),
    "a header outside": ([], header, "no turn"),
    "a context outside": ([turn_start(), turn_end()], context, "no turn"),
    "a todo outside": ([], todo, "no turn"),
    "a rewrite outside": (
        [turn_start(), step_start(), call(), result(), step_end(), turn_end()],
        rewrite(3),
        "inside a turn",
    ),
}


@pytest.mark.parametrize("case", GOOD)
async def test_what_a_loop_does_is_accepted(case: str) -> None:
    """S-080, S-077: Well-formed sequences pass."""
    async with checked() as ctx:
        session = ctx[Sessions].create()
        for step in GOOD[case]:
            step(session)

        assert len(session.events) == len(GOOD[case])


@pytest.mark.parametrize("case", BAD)
async def test_what_would_break_the_order_is_refused(case: str) -> None:
    """S-080, S-081: The veto names session, seq, type and reason; the log goes on as before."""
    before, step, reason = BAD[case]
    async with checked() as ctx:
        session = ctx[Sessions].create("s")
        for each in before:
            each(session)
        for _ in range(2):  # S-082: a vetoed event does not advance the checker
            with pytest.raises(LogInvariantError, match=reason) as caught:
                step(session)

        assert (caught.value.session_id, caught.value.seq) == ("s", len(before))
        assert len(session.events) == len(before)


async def test_the_veto_of_another_validator_does_not_advance_the_checker() -> None:
    """S-082: It follows the log, not the candidates."""
    async with checked() as ctx:
        session = ctx[Sessions].create()

        def refuse(session: Session, event: object) -> None:
            raise PermissionError

        veto = ctx[Sessions].validator(refuse)
        with pytest.raises(PermissionError):
            turn_start()(session)
        veto.close()
        turn_start()(session)

        assert session.open_turn == 1


async def test_each_session_is_checked_for_itself_and_from_its_seed_on() -> None:
    """S-082: The state is rebuilt on reload, independent per session."""
    async with checked() as ctx:
        first = ctx[Sessions].create()
        for step in (turn_start(), step_start(), call(), result()):
            step(first)
        second = ctx[Sessions].create(seed=first.events)
        turn_start()(ctx[Sessions].create())

        with pytest.raises(LogInvariantError, match="turn 1 is open"):
            turn_start(2)(second)
        step_end()(second)
        turn_end()(second)
        turn_start(2)(second)


async def test_what_repair_writes_is_accepted() -> None:
    """S-080: The closers of a crashed log pass the checker."""
    async with checked() as ctx:
        session = ctx[Sessions].create()
        for step in (turn_start(), step_start(), answer(), call()):
            step(session)
        for closer in repair_closers(session.events):
            session.append(
                closer.type, closer.view, surface_op=closer.surface_op, sources=closer.sources
            )

        assert session.open_turn is None


async def test_the_checker_goes_with_its_plugin() -> None:
    """S-082: Without it everything passes."""
    async with checked() as ctx:
        (fiber,) = ctx.root.fibers(log_invariants)
        await fiber.dispose(check=True)
        turn_end(7)(ctx[Sessions].create())
