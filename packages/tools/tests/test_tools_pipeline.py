"""The stages around a body, without cancellation."""

from collections.abc import AsyncIterator, Callable
from dataclasses import FrozenInstanceError, replace
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_agents import Agents
from terret_context import ContainedError, Next
from terret_llm import HarnessError, Message, TextBlock, UnknownBlock, create_user_message
from terret_testing import Harness, running_harness
from terret_tools import (
    DENIED,
    EXECUTE,
    INVALID_ARGS,
    INVALID_TOOL_OUTPUT,
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    UNKNOWN_TOOL,
    Accept,
    Allow,
    Block,
    Decision,
    Deny,
    Executed,
    Invocation,
    PostDecision,
    Tool,
    ToolExec,
    ToolOutcome,
    ToolOutput,
    ToolRun,
    Tools,
    failure,
    success,
    tool,
)


@pytest.fixture
async def h() -> AsyncIterator[Harness]:
    async with running_harness() as harness:
        harness.ctx[Tools].register(double)
        yield harness


def note(text: str) -> Message:
    return create_user_message(text)


@tool
async def double(run: ToolRun, number: int) -> int:
    """Double a number."""
    run.defer_context(note("body"))
    if number < 0:
        raise HarnessError("negative", "TOO_SMALL")
    run.conclude_turn()
    return number * 2


def exec_of(name: str = "double", **arguments: object) -> ToolExec:
    return ToolExec(call_id="c", name=name, arguments=arguments)


async def run(h: Harness, name: str = "double", **arguments: object) -> ToolOutcome:
    return await h.ctx[Tools].execute(exec_of(name, **arguments))


def texts(outcome: ToolOutcome) -> list[str]:
    return [message.text for message in outcome.additional_contexts]


def post(h: Harness, decide: Callable[[Executed], PostDecision | None]) -> None:
    async def listener(payload: Executed, call_next: Next[PostDecision]) -> PostDecision:
        accepted = await call_next()
        return decide(payload) or accepted

    h.ctx.on(POST_EXECUTE, listener)


async def test_the_stages_run_in_order(h: Harness) -> None:
    """T-010, T-021: pre-execute, guards, execute, post-execute, result; one token, one value."""
    order: list[str] = []
    seen: list[tuple[object, object]] = []

    def mark(stage: str, call: ToolExec) -> None:
        order.append(stage)
        seen.append((call.token, call.arguments))

    async def pre(call: ToolExec, call_next: Next[Decision]) -> Decision:
        mark("pre", call)
        return await call_next()

    async def around(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        mark("execute", call)
        return await call_next()

    h.ctx.on(PRE_EXECUTE, pre)
    h.ctx[Tools].guard(lambda call: mark("guard", call))
    h.ctx.on(EXECUTE, around)
    post(h, lambda done: mark("post", done.exec))
    h.ctx.on(RESULT, lambda done: mark("result", done.exec))
    outcome = await run(h, number=4)
    assert order == ["pre", "guard", "execute", "post", "result"]
    assert all(token is seen[0][0] and value is seen[0][1] for token, value in seen)
    assert (outcome.value, outcome.text, outcome.concludes_turn) == (8, "8", True)


async def test_wrapper_and_guard_make_a_sandbox(h: Harness) -> None:
    """T-010: Usable as a sandbox: a listener runs the call elsewhere, a guard says what may run."""

    async def elsewhere(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        return success(value=1000)

    h.ctx.on(EXECUTE, elsewhere)
    h.ctx[Tools].guard(lambda call: "odd" if dict(call.arguments)["number"] % 2 else None)  # type: ignore[call-overload]  # a mapping
    assert (await run(h, number=2)).text == "1000"
    assert (await run(h, number=1)).text == "Error: odd"


async def test_a_denial_goes_past_the_body_to_post_execute(h: Harness) -> None:
    """T-011, T-029: A denial short-circuits; code and data are in the error of the result."""
    later: list[str] = []

    async def deny(call: ToolExec, call_next: Next[Decision]) -> Decision:
        return Deny("no doubling", code="RULE", data={"rule": "r1"})

    async def never(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        raise AssertionError("a denied call was dispatched")

    h.ctx.on(PRE_EXECUTE, deny)
    h.ctx.on(EXECUTE, never)
    post(h, lambda done: later.append(done.outcome.text))
    outcome = await run(h, number=1)
    assert outcome.error is not None
    assert outcome.error.info is not None
    assert (outcome.error.info.code, outcome.error.info.data) == ("RULE", {"rule": "r1"})
    assert later == ["Error: no doubling"]


async def test_an_exception_of_a_policy_is_a_final_error_result(h: Harness) -> None:
    """T-011: Codes of HarnessErrors are kept; an exception gives an error result, unreviewed."""

    async def broken(call: ToolExec, call_next: Next[Decision]) -> Decision:
        raise HarnessError("rules are missing", "NO_RULES")

    h.ctx.on(PRE_EXECUTE, broken)
    post(h, unasked)
    outcome = await run(h, number=1)
    assert (outcome.text, outcome.code) == ("Error: rules are missing", "NO_RULES")


def unasked(done: Executed) -> PostDecision:
    raise AssertionError("post-execute ran for a final result")


@pytest.mark.parametrize("wrong", [None, True, "yes"])
async def test_a_decision_that_is_none_fails_closed(h: Harness, wrong: Any) -> None:
    """T-011: Only Allow lets a call through, and a guard answers text or None."""
    h.ctx[Tools].guard(lambda call: wrong)
    if wrong is not None and not isinstance(wrong, str):
        assert "gave True, not text or None" in (await run(h, number=1)).text
    h.ctx.on(PRE_EXECUTE, lambda call, call_next: wrong)
    assert "not Allow, Deny or Ask" in (await run(h, number=1)).text


async def test_a_tool_that_raises_is_an_error_result_that_wrappers_see(h: Harness) -> None:
    """T-014: A throwing tool is normalized before wrappers see it and reaches post-execute."""
    seen: list[str | None] = []

    async def around(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        outcome = await call_next()
        seen.append(outcome.code)
        return outcome

    h.ctx.on(EXECUTE, around)
    post(h, lambda done: seen.append(done.outcome.code))
    outcome = await run(h, number=-1)
    assert (outcome.text, outcome.concludes_turn) == ("Error: negative", False)
    assert seen == ["TOO_SMALL", "TOO_SMALL"]


async def test_a_wrapper_may_bound_a_body(h: Harness) -> None:
    """T-015: A wrapper bounds a body with a cancel scope around `call_next()`."""

    @tool
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    async def bound(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        with anyio.move_on_after(0):
            return await call_next()
        return failure("took too long", code="TIMEOUT", contexts=[note("wrapper")])

    h.ctx[Tools].register(hang)
    h.ctx.on(EXECUTE, bound)
    outcome = await run(h, "hang")
    assert (outcome.text, outcome.code) == ("Error: took too long", "TIMEOUT")
    assert texts(outcome) == ["wrapper"]


async def test_a_wrapper_may_run_the_body_again(h: Harness) -> None:
    """T-015, T-107: A second `call_next()` after the first ended is fine around execute."""
    attempts: list[int] = []

    @tool
    async def flaky(run: ToolRun) -> str:
        """Fail once."""
        attempts.append(1)
        run.defer_context(note(f"attempt {len(attempts)}"))
        if len(attempts) == 1:
            raise ValueError("again")
        return "done"

    async def retry(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        first = await call_next()
        return await call_next() if first.is_error else first

    h.ctx[Tools].register(flaky)
    h.ctx.on(EXECUTE, retry)
    outcome = await run(h, "flaky")
    assert (outcome.text, texts(outcome)) == ("done", ["attempt 2"])


@pytest.mark.parametrize("event", [PRE_EXECUTE, POST_EXECUTE])
async def test_a_second_call_next_raises_elsewhere(h: Harness, event: Any) -> None:
    """T-107: Listeners are `(payload, call_next)`; a second `call_next()` raises."""

    async def twice(payload: Any, call_next: Next[Any]) -> Any:
        await call_next()
        return await call_next()

    h.ctx.on(event, twice)
    assert "NextCalledTwiceError" in (await run(h, number=1)).text


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        (success("cached", value=3), None, "cached"),
        (success(value=3), None, "3"),
        (success("cached", value="three"), INVALID_TOOL_OUTPUT, ""),
        (success("cached"), INVALID_TOOL_OUTPUT, ""),
        (replace(success(value=3), content=("no block",)), INVALID_TOOL_OUTPUT, ""),  # type: ignore[arg-type]  # the mistake under test
        (replace(failure("why"), content=()), None, "Error: why"),
        (None, INVALID_TOOL_OUTPUT, ""),
        ("text", INVALID_TOOL_OUTPUT, ""),
    ],
)
async def test_a_foreign_result_is_validated(
    h: Harness, given: ToolOutcome, code: str | None, text: str
) -> None:
    """T-015: A foreign or cached result is validated again."""
    h.ctx.on(EXECUTE, lambda call, call_next: given)
    outcome = await run(h, number=1)
    assert outcome.code == code
    assert outcome.text.startswith(text)


async def test_an_exception_of_a_wrapper_is_a_final_error_result(h: Harness) -> None:
    """T-015: An exception gives an error result."""

    async def broken(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        await call_next()
        raise OSError("disk full")

    h.ctx.on(EXECUTE, broken)
    post(h, unasked)
    assert (await run(h, number=1)).text == "Error: OSError: disk full"


async def test_a_wrapper_may_serve_a_tool_that_nobody_registered(h: Harness) -> None:
    """T-015: A short circuit needs no definition."""
    h.ctx.on(EXECUTE, lambda call, call_next: success("served"))
    assert (await run(h, "ghost")).text == "served"


@pytest.mark.parametrize(
    ("decision", "value", "text"),
    [
        (Accept(), 8, "8"),
        (Accept(content="hidden"), 8, "hidden"),
        (Accept(content=[TextBlock("a"), TextBlock("b")]), 8, "ab"),
        (Accept(value=9), 9, "9"),
        (Accept(value="nine"), None, "Error: double gave a value that is not what it declares"),
        (Accept(content="x", value=9), None, "Error: ValueError: tools/post-execute: Accept takes"),
        (Accept(content=5), None, "Error: TypeError: a value of type int"),  # type: ignore[arg-type]  # the mistake under test
        ("fine", None, "Error: TypeError: tools/post-execute gave 'fine'"),
    ],
)
async def test_post_execute_accepts_content_or_value(
    h: Harness, decision: Any, value: object, text: str
) -> None:
    """T-016: Accept replaces content (value kept) or value (rendered); both or invalid fails."""
    post(h, lambda done: decision)
    outcome = await run(h, number=4)
    assert outcome.value == value
    assert outcome.text.startswith(text)
    assert outcome.concludes_turn is not outcome.is_error


async def test_a_failed_call_takes_no_value(h: Harness) -> None:
    """T-016: A failed dispatch takes no value, its content may change; so for a vanished tool."""
    post(h, lambda done: Accept(value=1))
    assert "takes no value" in (await run(h, number=-1)).text
    assert "takes no value" in (await run(h, "vanished")).text


async def test_a_tool_without_output_takes_no_value(h: Harness) -> None:
    """T-016: A value needs an output declaration that can render it."""

    @tool
    async def talk() -> str:
        """Talk."""
        return "text"

    h.ctx[Tools].register(talk)
    post(h, lambda done: Accept(value=1))
    outcome = await run(h, "talk")
    assert outcome.code == INVALID_TOOL_OUTPUT
    assert "no output declaration" in outcome.text


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ValueError("seven is too much"), INVALID_ARGS, "- /: seven is too much"),
        (KeyError("broken"), None, "Error: KeyError: 'broken'"),
    ],
)
async def test_a_definition_may_bring_its_own_parser(
    h: Harness, error: Exception, code: str | None, text: str
) -> None:
    """T-040: What `parse` refuses is INVALID_ARGS; its own failure is an error result."""

    def parse(arguments: object) -> dict[str, object]:
        raise error

    h.ctx[Tools].register(replace(double, name="own", parse=parse))
    outcome = await run(h, "own")
    assert (outcome.code, outcome.text[-len(text) :]) == (code, text)


async def test_a_run_shows_the_call(h: Harness) -> None:
    """T-021: The body sees what policies see."""

    @tool
    async def look(run: ToolRun) -> str:
        """Look at the run."""
        assert (run.exec.token, run.arguments, run.parent) == (run.token, {}, None)
        assert not run.cancelled
        return run.name

    h.ctx[Tools].register(look)
    assert (await run(h, "look")).text == "look"


async def test_the_content_of_a_failure_may_be_replaced(h: Harness) -> None:
    """T-016: Error and code stay, the model reads the new content."""
    post(h, lambda done: Accept(content="something failed"))
    outcome = await run(h, number=-1)
    assert (outcome.text, outcome.code, outcome.is_error) == ("something failed", "TOO_SMALL", True)


@pytest.mark.parametrize(
    ("feedback", "message", "text"),
    [
        ("secret", "secret", "Error: secret"),
        ([TextBlock("a"), TextBlock("b")], "ab", "ab"),
        ([], "the result was withheld", "Error: the result was withheld"),
        ("  ", "the result was withheld", "Error: the result was withheld"),
        ([UnknownBlock("image", {"type": "image"})], "the result was withheld", ""),
    ],
)
async def test_block_is_a_failure_with_the_feedback(
    h: Harness, feedback: Any, message: str, text: str
) -> None:
    """T-016, T-017: Block is a failure, drops deferred contexts and may add some."""
    post(h, lambda done: Block(feedback, additional_contexts=(note("policy"),)))
    outcome = await run(h, number=4)
    assert outcome.error is not None
    assert (outcome.error.message, outcome.text) == (message, text)
    assert texts(outcome) == ["policy"]
    assert (outcome.value, outcome.concludes_turn) == (None, False)


@pytest.mark.parametrize("number", [4, -1])
async def test_contexts_keep_their_order(h: Harness, number: int) -> None:
    """T-018: body, wrapper, post-execute, also when the call fails."""

    async def around(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        outcome = await call_next()
        contexts = (*outcome.additional_contexts, note("wrapper"))
        return replace(outcome, additional_contexts=contexts)

    h.ctx.on(EXECUTE, around)
    post(h, lambda done: Accept(additional_contexts=(note("post"),)))
    outcome = await run(h, number=number)
    assert outcome.is_error is (number < 0)
    assert texts(outcome) == ["body", "wrapper", "post"]


@pytest.mark.parametrize(
    ("result", "text"), [(None, "plain"), ("changed", "changed"), (5, "Error: TypeError: ")]
)
async def test_the_tool_has_the_last_word_on_its_content(
    h: Harness, result: Any, text: str
) -> None:
    """T-019: finalize_content runs once; None keeps the content; an exception is normalized."""
    calls: list[str] = []

    def finalize(call: ToolExec, outcome: ToolOutcome) -> Any:
        calls.append(outcome.text)
        return result

    @tool(finalize_content=finalize)
    async def plain() -> str:
        """Answer."""
        return "raw"

    h.ctx[Tools].register(plain)
    post(h, lambda done: Accept(content="plain"))
    assert (await run(h, "plain")).text.startswith(text)
    assert calls == ["plain"]


async def test_observers_get_the_final_outcome_once(h: Harness) -> None:
    """T-020: Once, for every call; failures are contained; dispatch is scoped."""
    seen: list[tuple[str, str]] = []
    errors: list[ContainedError] = []

    def throw(done: Executed) -> None:
        raise ValueError("observer")

    h.ctx.on("internal/error", errors.append)
    h.ctx.on(RESULT, throw)
    h.ctx.on(RESULT, lambda done: seen.append(("all", done.outcome.text)))
    h.agent.ctx.on(RESULT, lambda done: seen.append(("own", done.outcome.text)))
    outcome = await run(h, number=4)
    agent_call = replace(exec_of(number=-1), agent=h.agent)
    await h.ctx[Tools].execute(agent_call)
    await run(h, "ghost")
    assert seen[:3] == [("all", "8"), ("all", "Error: negative"), ("own", "Error: negative")]
    assert seen[3:] == [("all", 'Error: there is no tool "ghost"')]
    assert len(errors) == 3
    with pytest.raises(FrozenInstanceError):
        outcome.content = ()  # type: ignore[misc]  # frozen is what is tested


async def test_arguments_are_frozen_and_detached(h: Harness) -> None:
    """T-021: Nobody changes what the others see, the body included."""
    given: dict[str, Any] = {"items": [{"n": 1}]}
    call = ToolExec(call_id="c", name="spoil", arguments=given)
    given["items"].append("late")

    async def spoil(run: ToolRun, /, items: list[Any]) -> str:
        items[0]["n"] = 2
        return f"{run.arguments}"

    h.ctx[Tools].register(
        Tool(name="spoil", description="", parameters={"type": "object"}, execute=spoil)
    )
    frozen = call.arguments
    assert isinstance(frozen, MappingProxyType)
    assert (await h.ctx[Tools].execute(call)).text == str(frozen)
    assert call.plain_arguments() == {"items": [{"n": 1}]}
    with pytest.raises(TypeError):
        frozen["items"] = ()  # type: ignore[index]  # frozen is what is tested
    assert isinstance(frozen["items"], tuple)


@pytest.mark.parametrize("bad", [{"a": float("nan")}, {"a": 2**53}, {"a": {1}}, {1: 2}, object()])
async def test_arguments_that_are_no_json_fail_before_any_phase(h: Harness, bad: object) -> None:
    """T-023: Snapshot of the arguments: a failure is final and no phase runs."""
    h.ctx.on(PRE_EXECUTE, lambda call, call_next: pytest.fail("a phase ran"))
    post(h, unasked)
    call = ToolExec(call_id="c", name="double", arguments=bad)
    assert h.ctx[Tools].execution_mode(call) == "exclusive"
    assert (await h.ctx[Tools].execute(call)).code == INVALID_ARGS


async def test_a_value_that_cannot_be_shown_is_one_failed_call(h: Harness) -> None:
    """T-025: Throwing projectors, and results that are neither text nor blocks."""

    def render(args: Any, value: object) -> str:
        raise LookupError("no template")

    async def execute(run: ToolRun, /) -> object:
        return 5

    definition = Tool(name="a", description="", parameters={"type": "object"}, execute=execute)
    output = ToolOutput(schema={}, render=render)
    h.ctx[Tools].register(definition)
    h.ctx[Tools].register(replace(definition, name="b", output=output))
    assert (await run(h, "a")).code == INVALID_TOOL_OUTPUT
    assert (await run(h, "b")).text == "Error: LookupError: no template"


async def test_lone_surrogates_of_a_tool_are_replaced(h: Harness) -> None:
    """T-004: Text and values of a tool are lossless when they leave it."""

    @tool
    async def names() -> list[str]:
        """List names."""
        return ["ok", "\udcff"]

    @tool
    async def name() -> str:
        """Name one."""
        raise ValueError("no \ud800")

    h.ctx[Tools].register(names)
    h.ctx[Tools].register(name)
    assert (await run(h, "names")).text == '["ok","\ufffd"]'
    assert (await run(h, "name")).text == "Error: ValueError: no \ufffd"


async def test_the_conclusion_of_a_nested_call_stays_with_it(h: Harness) -> None:
    """T-026, T-060: Contexts and conclusion reach the outer result only if they are forwarded."""
    inner: list[ToolOutcome] = []

    @tool
    async def outer(run: ToolRun) -> str:
        """Call another tool."""
        call = ToolExec(call_id="inner", name="double", arguments={"number": 2}, parent=run.exec)
        inner.append(await h.ctx[Tools].execute(call))
        assert (call.root_call_id, run.exec.root_call_id) == ("c", "c")
        return inner[0].text

    h.ctx[Tools].register(outer)
    outcome = await run(h, "outer")
    assert (outcome.text, outcome.concludes_turn, texts(outcome)) == ("4", False, [])
    assert (inner[0].concludes_turn, texts(inner[0])) == (True, ["body"])


class Mute(Exception):
    """An exception without text."""


class Hostile(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Mute(), "Error: Mute"),
        (Hostile(), "Error: Hostile: (its text cannot be read)"),
        (StopIteration(), "Error: RuntimeError"),
        (ExceptionGroup("several", [Mute(), ValueError("x")]), "Error: ExceptionGroup: several"),
        (SystemExit(2), "Error: SystemExit: 2"),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_exceptions_are_reported_whatever_they_are(
    h: Harness, error: BaseException, text: str, threaded: bool
) -> None:
    """T-027: Exceptions without message or with failing `str()`; a command line that exits."""

    def raise_it() -> str:
        raise error

    async def raise_async() -> str:
        raise error

    h.ctx[Tools].register(tool(name="x")(raise_it if threaded else raise_async))
    assert (await run(h, "x")).text.startswith(text)


async def test_a_policy_of_one_agent_gates_only_that_agent(h: Harness) -> None:
    """T-028: An agent-scoped pre-execute gates only its agent, never calls without agent."""
    h.agent.ctx.on(PRE_EXECUTE, lambda call, call_next: Deny("not you"))
    async with await h.ctx[Agents].create(session_id="other") as handle:
        codes = [
            (await h.ctx[Tools].execute(replace(exec_of(number=1), agent=agent))).code
            for agent in (h.agent, handle.agent, None)
        ]
    assert codes == [DENIED, None, None]


async def test_a_stage_out_of_order_is_a_mistake_of_the_loop(h: Harness) -> None:
    """T-060: Stage order, and results unchanged after the final stage."""
    scheduler, call = h.ctx[Tools].scheduler, Invocation(exec_of(number=4))
    with pytest.raises(RuntimeError, match="finalize does not follow new"):
        await scheduler.finalize(call)
    await scheduler.prepare(call)
    with pytest.raises(RuntimeError, match="no outcome"):
        scheduler.finish(call)
    await scheduler.dispatch(call)
    with pytest.raises(RuntimeError, match="dispatch does not follow dispatch"):
        await scheduler.dispatch(call)
    await scheduler.finalize(call)
    await scheduler.finalize(call)
    seen: list[Executed] = []
    h.ctx.on(RESULT, seen.append)
    assert scheduler.finish(call) is scheduler.finish(call) is seen[0].outcome
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="prepare does not follow finalize"):
        await scheduler.prepare(call)


def test_a_call_has_an_id() -> None:
    """T-060: Non-empty ids."""
    with pytest.raises(ValueError, match="id"):
        ToolExec(call_id="", name="x")


async def test_listeners_registered_late_hear_later_calls(h: Harness) -> None:
    """T-060: Late registration counts from the next call on."""
    seen: list[Executed] = []

    async def late(call: ToolExec, call_next: Next[Decision]) -> Decision:
        h.ctx.on(PRE_EXECUTE, lambda call, call_next: Deny("late"))
        return await call_next()

    once = h.ctx.on(PRE_EXECUTE, late)
    h.ctx.on(RESULT, seen.append)
    await run(h, number=1)
    once.close()
    await run(h, number=1)
    assert [done.outcome.code for done in seen] == [None, DENIED]


@given(st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.lists(st.text(max_size=2))))
async def test_whatever_a_body_returns_is_an_outcome(result: Any) -> None:
    """T-025: The pipeline is total in what bodies return."""
    async with running_harness() as h:

        async def execute(run: ToolRun, /) -> Any:
            return result

        definition = Tool(name="x", description="", parameters={"type": "object"}, execute=execute)
        h.ctx[Tools].register(definition)
        outcome = await run(h, "x")
        assert outcome.is_error is not (isinstance(result, str) or result == [])


async def test_allow_is_the_answer_without_policies(h: Harness) -> None:
    """T-010, T-002: Without listeners a call runs, and an unknown one does not."""
    answers: list[Decision] = []

    async def look(call: ToolExec, call_next: Next[Decision]) -> Decision:
        answers.append(await call_next())
        return answers[-1]

    h.ctx.on(PRE_EXECUTE, look)
    assert (await run(h, "ghost")).code == UNKNOWN_TOOL
    assert answers == [Allow()]
