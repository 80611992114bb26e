"""Which tools there are, for whom, and for how long."""

from collections.abc import AsyncIterator

import anyio
import pytest

from terret_agents import Agents
from terret_context import (
    AsyncEffectError,
    ContainedError,
    Container,
    DuplicateEntryError,
    Effect,
    TeardownTimeoutError,
)
from terret_system_prompt import SystemPrompt, assemble_context_for
from terret_testing import Harness, running_harness
from terret_tools import (
    CHANGE,
    DENIED,
    UNKNOWN_TOOL,
    Tool,
    ToolExec,
    ToolOutcome,
    ToolRun,
    Tools,
    tool,
)


@pytest.fixture
async def h() -> AsyncIterator[Harness]:
    async with running_harness() as harness:
        yield harness


def named(name: str, answer: str = "done") -> Tool:
    async def execute(run: ToolRun, /, **args: object) -> str:
        return answer

    return Tool(
        name=name, description=f"The tool {name}.", parameters={"type": "object"}, execute=execute
    )


def names(h: Harness, scope: object = None) -> list[str]:
    return [schema.name for schema in h.ctx[Tools].schemas(scope)]


async def ask(h: Harness, name: str, *, own: bool = False) -> ToolOutcome:
    agent = h.agent if own else None
    return await h.ctx[Tools].execute(ToolExec(call_id="c", name=name, agent=agent))


async def test_a_registration_shows_name_description_and_parameters_only(h: Harness) -> None:
    """T-001: A registration exposes its schema; callbacks, timeout and classifier never leak."""

    @tool(is_concurrency_safe=lambda args: True, timeout_ms=5, finalize_content=lambda *_: None)
    async def look(place: str) -> str:
        """Look around."""
        return place

    h.ctx[Tools].register(look)
    (schema,) = h.ctx[Tools].schemas()
    assert schema.to_wire() == {
        "name": "look",
        "description": "Look around.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
            "additionalProperties": False,
        },
    }


async def test_the_prompt_offers_the_tools_in_canonical_order(h: Harness) -> None:
    """T-001, P-022: A registration feeds prompt assembly, with the names a scope does not see."""
    for name in "ca":
        h.ctx[Tools].register(named(name))
    h.agent.ctx[Tools].register(named("b"))
    prompt = h.ctx[SystemPrompt]
    mine = await prompt.assemble(assemble_context_for(h.agent))
    others = await prompt.assemble(assemble_context_for(None))
    assert [schema.name for schema in mine.tools] == ["a", "b", "c"]
    assert [schema.name for schema in others.tools] == ["a", "c"]


async def test_get_returns_the_definition_or_nothing(h: Harness) -> None:
    """T-002: get returns the definition or nothing; an unknown name is UNKNOWN_TOOL."""
    one = named("one")
    h.ctx[Tools].register(one)
    assert h.ctx[Tools].get("one") is one
    assert h.ctx[Tools].get("two") is None
    assert (await ask(h, "two")).code == UNKNOWN_TOOL


async def test_a_name_is_taken_once_per_layer(h: Harness) -> None:
    """T-003: A duplicate per layer raises and names the agent context."""
    h.ctx[Tools].register(named("one"))
    with pytest.raises(DuplicateEntryError, match="agent"):
        h.ctx[Tools].register(named("one"))
    h.agent.ctx[Tools].register(named("one"))


async def test_an_undo_takes_back_exactly_its_registration(h: Harness) -> None:
    """T-003: Each undo is exact; disposal of the fiber unregisters."""
    first = h.ctx[Tools].register(named("one", "old"))
    await first.aclose()
    fiber = h.ctx.inject([Tools], lambda ctx: ctx[Tools].register(named("one", "new")) and None)
    await fiber.ready()
    await first.aclose()
    assert (await ask(h, "one")).text == "new"
    await fiber.dispose()
    assert names(h) == []


async def test_a_listener_that_throws_does_not_undo_a_registration(h: Harness) -> None:
    """T-003: A throwing change listener is contained and the registration stands."""
    errors: list[ContainedError] = []
    h.ctx.on("internal/error", errors.append)

    def throw() -> None:
        raise ValueError("no")

    h.ctx.on(CHANGE, throw)
    h.ctx[Tools].register(named("one"))
    assert names(h) == ["one"]
    assert [str(each.error) for each in errors] == ["no"]


async def test_schemas_are_copies_on_the_way_in_and_out(h: Harness) -> None:
    """T-004: Schema projections are detached and lossless."""
    properties: dict[str, object] = {"a": {"type": "number", "enum": [1.5, None, "x"]}}
    parameters = {"type": "object", "properties": properties}
    wide = Tool(name="wide", description="", parameters=parameters, execute=lambda run: "")
    h.ctx[Tools].register(wide)
    properties["b"] = {}
    first = h.ctx[Tools].schemas()[0]
    first.parameters["properties"]["a"]["enum"].append("y")  # type: ignore[index]  # it is a dict
    assert h.ctx[Tools].schemas()[0].parameters == {
        "type": "object",
        "properties": {"a": {"type": "number", "enum": [1.5, None, "x"]}},
    }


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_must_be_positive_and_finite(timeout: float) -> None:
    """T-005: timeout_ms is positive and finite."""
    with pytest.raises(ValueError, match="timeout_ms"):
        Tool(name="x", description="", parameters={}, execute=print, timeout_ms=timeout)


@pytest.mark.parametrize("name", ["", "run_code"])
async def test_some_names_are_refused(h: Harness, name: str) -> None:
    """T-001: A tool has a name, and not the reserved one."""
    with pytest.raises(ValueError, match=name or "name"):
        h.ctx[Tools].register(named(name))


async def test_a_scoped_tool_exists_in_its_scope_only(h: Harness) -> None:
    """T-006: Visible and executable only in its scope, shadows, leaves no residue."""
    own = h.agent.ctx[Tools].register(named("one", "own"))
    assert names(h) == []
    assert (await ask(h, "one")).code == UNKNOWN_TOOL
    assert (await ask(h, "one", own=True)).text == "own"
    h.ctx[Tools].register(named("one", "general"))
    assert (await ask(h, "one", own=True)).text == "own"
    assert (await ask(h, "one")).text == "general"
    await own.aclose()
    assert (await ask(h, "one", own=True)).text == "general"


async def test_a_restriction_hides_inherited_tools_and_later_ones(h: Harness) -> None:
    """T-007: restrict hides inherited tools, also ones registered later; several intersect."""
    for name in "abc":
        h.ctx[Tools].register(named(name))
    tools = h.agent.ctx[Tools]
    tools.register(named("own"))
    allow = tools.restrict(allow=["a", "b"])
    deny = tools.restrict(deny=["b", "c"])
    h.ctx[Tools].register(named("late"))
    assert names(h, h.agent) == ["a", "own"]
    assert (await ask(h, "late", own=True)).code == UNKNOWN_TOOL
    assert names(h) == ["a", "b", "c", "late"]
    allow.close()
    assert names(h, h.agent) == ["a", "late", "own"]
    deny.close()
    assert names(h, h.agent) == ["a", "b", "c", "late", "own"]


async def test_a_restriction_reaches_nested_scopes(h: Harness) -> None:
    """T-007: Its own layer is exempt; the scopes below see it as inherited."""
    h.ctx[Tools].register(named("a"))
    inner = object()
    below = h.agent.ctx.scope(inner)
    h.agent.ctx[Tools].register(named("own"))
    h.agent.ctx[Tools].restrict(deny=["a"])
    assert names(h, inner) == ["own"]
    below[Tools].restrict(deny=["own"])
    assert names(h, inner) == []
    assert names(h, h.agent) == ["own"]


async def test_a_restriction_needs_a_scope_and_names_that_exist(h: Harness) -> None:
    """T-007: It fails unscoped, empty or with unknown names."""
    h.ctx[Tools].register(named("a"))
    with pytest.raises(ValueError, match="scoped context"):
        h.ctx[Tools].restrict(deny=["a"])
    for allow, deny in ((None, None), ([], None), (None, [])):
        with pytest.raises(ValueError, match="needs the names"):
            h.agent.ctx[Tools].restrict(allow=allow, deny=deny)
    with pytest.raises(ValueError, match="unknown tools b; known: a"):
        h.agent.ctx[Tools].restrict(allow=["a", "b"])


async def test_tool_guards_abstain_or_deny_in_order(h: Harness) -> None:
    """T-008, T-029: Duplicates are independent; abstain, then deny with code DENIED."""
    asked: list[str] = []

    def guard(call: ToolExec) -> str | None:
        asked.append(call.name)
        return "not today" if len(asked) % 3 == 0 else None

    h.ctx[Tools].register(named("one"))
    first = h.ctx[Tools].guard(guard)
    h.ctx[Tools].guard(guard)
    h.agent.ctx[Tools].guard(guard)
    denied = await ask(h, "one", own=True)
    assert (denied.text, denied.code) == ("Error: not today", DENIED)
    assert (await ask(h, "one")).text == "done"
    first.close()
    assert (await ask(h, "one")).code == DENIED
    assert len(asked) == 6


async def test_guards_may_come_and_go_while_they_run(h: Harness) -> None:
    """T-008: Removal and replacement while they run are safe."""
    effects: list[Effect] = []

    def replace(call: ToolExec) -> None:
        effects.pop().close()
        h.ctx[Tools].guard(lambda call: "the new one denies")

    h.ctx[Tools].register(named("one"))
    effects.append(h.ctx[Tools].guard(replace))
    assert (await ask(h, "one")).text == "done"
    assert (await ask(h, "one")).text == "Error: the new one denies"


class Gate:
    """A tool whose body waits until it is let go."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.open = anyio.Event()

    async def pass_through(self, run: ToolRun) -> str:
        self.entered.set()
        await self.open.wait()
        return "through"

    def tool(self, **fields: object) -> Tool:
        return Tool(
            name="gate",
            description="",
            parameters={"type": "object"},
            execute=self.pass_through,
            **fields,  # type: ignore[arg-type]  # fields of the definition
        )


async def test_an_undo_hides_the_tool_at_once_and_waits_for_its_bodies(h: Harness) -> None:
    """T-102, T-103: Hidden first; a body in flight keeps its definition and finalizer."""
    gate, order = Gate(), list[str]()
    finalized = gate.tool(finalize_content=lambda exec, outcome: outcome.text.upper())
    effect = h.ctx[Tools].register(finalized)

    async def run() -> None:
        order.append((await ask(h, "gate")).text)

    async def undo() -> None:
        await effect.aclose()
        order.append("undone")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.entered.wait()
        group.start_soon(undo)
        await anyio.wait_all_tasks_blocked()
        assert names(h) == []
        exec = ToolExec(call_id="c", name="gate")
        assert h.ctx[Tools].execution_mode(exec) == "exclusive"
        assert (await h.ctx[Tools].execute(exec)).code == UNKNOWN_TOOL
        assert order == []
        gate.open.set()
    assert sorted(order) == ["THROUGH", "undone"]


async def test_a_body_that_outlasts_the_grace_is_named() -> None:
    """T-103: Beyond grace it is reported and the undo returns."""
    gate = Gate()
    async with Container(grace=0) as root, anyio.create_task_group() as group:
        root.plugin(SystemPrompt)
        await root.plugin(Tools).ready()
        tools = root[Tools]
        effect = tools.register(gate.tool())
        group.start_soon(tools.execute, ToolExec(call_id="c", name="gate"))
        await gate.entered.wait()
        with pytest.raises(ExceptionGroup) as info:
            await effect.aclose()
        assert info.group_contains(TeardownTimeoutError, match='tool "gate"')
        assert tools.get("gate") is None
        gate.open.set()


async def test_closing_a_tool_at_once_is_refused(h: Harness) -> None:
    """T-104: `effect.close()` on a tool registration raises and names `aclose()`."""
    effect = h.ctx[Tools].register(named("one"))
    with pytest.raises(AsyncEffectError, match="aclose"):
        effect.close()
    assert names(h) == ["one"]


async def test_a_body_may_take_back_its_own_tool(h: Harness) -> None:
    """T-104: A body that takes back its own tool does not deadlock."""

    @tool
    async def last() -> str:
        """Run once."""
        await effect.aclose()
        return "gone"

    effect = h.ctx[Tools].register(last)
    assert (await ask(h, "last")).text == "gone"
    assert names(h) == []


async def test_a_tool_of_an_agent_goes_with_the_agent(h: Harness) -> None:
    """T-006: Disposal of the scope leaves nothing behind."""
    async with await h.ctx[Agents].create(session_id="other") as handle:
        other = handle.agent
        other.ctx[Tools].register(named("one"))
        assert names(h, other) == ["one"]
    assert names(h, other) == []
