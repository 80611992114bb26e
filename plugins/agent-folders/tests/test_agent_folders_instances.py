"""The running agents of definitions."""

from collections.abc import Iterable
from typing import cast

import anyio
import pytest

from agent_projects import HARNESS, Project, run_project
from terret_agents import CLOCK, SESSION_START, AgentBusyError, Agents
from terret_context import Context
from terret_loader import Fault, Loader
from terret_plugin_agent_folders import AgentUnavailableError, Definition
from terret_sessions import EVENT, MaxSteps, Session, SessionEvent, SessionKey, TurnEnd
from terret_testing import ManualClock, call, pause, reply, say
from terret_tools import ToolExec, Tools, tool

TOOL = """
from terret_tools import tool

@tool
def price(item: str) -> int:
    return {price}
"""


async def test_an_instance_has_prompt_tools_model_and_name_of_its_definition(
    project: Project,
) -> None:
    """E-282, E-285: its tools are its own; those of the harness are seen too."""
    project.agent("shop", "systemPrompt: Sell things.\nmodel: {provider: scripted, model: big}")
    project.agent("desk")
    project.write({"agents/shop/tools/price.py": TOOL.format(price=7)})

    @tool
    def shared() -> str:
        return "shared"

    async with run_project(project, call("price", item="hat"), say("Seven.")) as running:
        running.ctx[Tools].register(shared)
        seen: list[Definition | None] = []
        running.ctx.on(
            SESSION_START, lambda start: seen.append(running.folders.definition_of(start.agent))
        )
        agent = await running.folders.open("shop", "one")
        assert seen == [running.folders.definitions["shop"]]
        assert await running.say(agent, "How much is a hat?") == "Seven."
        first, second = running.model.requests
        assert (first.provider, first.model) == ("scripted", "big")
        assert "Sell things." in (first.system or "")
        assert {each.name for each in first.tools} == {"shared", "price"}
        assert second.model == "big"
        assert running.results(agent) == ["7"]
        assert agent.name == "shop"
        assert agent.id == str(SessionKey("default", "production", "shop", "one"))
        definition = running.folders.definition_of(agent)
        assert definition is running.folders.definitions["shop"]
        desk = await running.folders.open("desk")
        assert running.ctx[Tools].get("price", desk) is None


async def test_an_own_tool_hides_one_of_the_harness(project: Project) -> None:
    """E-286."""
    project.agent("shop")
    project.write({"agents/shop/tools/price.py": TOOL.format(price=7)})

    @tool
    def price(item: str) -> int:
        return 1

    async with run_project(project, call("price", item="hat"), say("Seven.")) as running:
        running.ctx[Tools].register(price)
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "How much is a hat?")
        assert running.results(agent) == ["7"]


async def test_a_conversation_has_one_instance_whoever_opens_it(project: Project) -> None:
    """The same key gives the same agent, other tenants and ids others."""
    project.agent("shop")
    async with run_project(project) as running:
        opened = []

        async def open_one() -> None:
            opened.append(await running.folders.open("shop", "one"))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(open_one)
        assert len(set(map(id, opened))) == 1
        assert await running.ctx[Agents].start("shop", session_id="one") is opened[0]
        others = [
            await running.folders.open("shop", "two"),
            await running.folders.open("shop", "one", tenant="acme"),
            await running.folders.open("shop"),
            await running.ctx[Agents].start("shop"),
        ]
        assert len({agent.id for agent in (opened[0], *others)}) == 5
        with pytest.raises(ValueError, match="tenant must not hold"):
            await running.folders.open("shop", "one", tenant="a/b")
        assert len(running.ctx[Agents].list()) == 5


async def test_a_conversation_goes_on_after_a_restart(project: Project) -> None:
    """E-292: from the log, with the same history."""
    project.agent("shop")
    async with run_project(project, say("Hello.")) as running:
        await running.say(await running.folders.open("shop", "one"), "Hi.")
    async with run_project(project, say("Again.")) as running:
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "And?")
        texts = [message.text for message in running.model.requests[0].messages]
        assert texts[-3:] == ["Hi.", "Hello.", "And?"]
        assert agent.name == "shop"


async def test_an_idle_instance_is_released_and_a_working_one_is_not(project: Project) -> None:
    """Others do not mind; the next `open` makes a new instance of the same log."""
    project.agent()
    answer = reply(pause("here"), say("Done."))
    async with run_project(project, answer) as running:
        agent = await running.folders.open("shop", "one")
        agent.send("Hello")
        await running.model.reached("here")
        with pytest.raises(AgentBusyError):
            await running.folders.release(agent)
        running.model.release("here")
        await agent.when_idle()
        await running.folders.release(agent)
        await running.folders.release(agent)
        assert agent.disposed
        again = await running.folders.open("shop", "one")
        assert [message.text for message in again.session.derive_messages()][-1] == "Done."


async def test_idle_instances_are_taken_down_and_come_back(project: Project) -> None:
    """E-292."""
    project.agent("shop")
    clock = ManualClock()
    project.write(
        {
            "harness.yml": HARNESS.replace(
                "plugins:", "plugins:\n  manual-clock: {use: ./clock.py}"
            ).replace("    defaults", "    idleEvictSeconds: 60\n    defaults"),
            "clock.py": "from terret_testing import ManualClock\nclock = ManualClock()\n"
            "plugin = clock.plugin()\n",
        }
    )
    async with run_project(project, say("Hello."), say("Again.")) as running:
        clock = cast(ManualClock, running.ctx.get(CLOCK))
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "Hi.")
        await clock.sleeping()
        clock.advance(59)
        await running.ctx.settle()
        assert not agent.disposed
        assert await running.folders.open("shop", "one") is agent  # used, so not idle any more
        for _ in range(2):  # the first deadline, then that of the later use
            await clock.sleeping()
            clock.advance(59)
        with anyio.fail_after(10):
            while running.ctx[Agents].get(agent.id) is not None:
                await anyio.lowlevel.checkpoint()
        again = await running.folders.open("shop", "one")
        assert again is not agent
        assert await running.say(again, "And?") == "Again."
        assert "Hi." in [message.text for message in running.model.requests[1].messages]


async def test_a_turn_has_as_many_model_calls_as_the_definition_says(project: Project) -> None:
    """E-290."""
    project.agent("shop", "systemPrompt: x\nmaxTurns: 3")
    project.write({"agents/shop/tools/price.py": TOOL.format(price=7)})
    loop = [call("price", item=str(number)) for number in range(3)]
    async with run_project(project, *loop) as running:
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "For ever.")
        assert len(running.model.requests) == 3
        end = agent.session.events[-1].view
        assert end == TurnEnd(1, MaxSteps(3))


PLUGIN = """
from terret_context import Context, plugin
from terret_tools import ToolExec, Tools, tool

log = []

@plugin(inject=(Tools,))
def plugin(ctx: Context):
    @tool
    def extra() -> str:
        return "extra"
    ctx[Tools].register(extra)
    log.append("up")
    yield
    log.append("down")
"""


@pytest.mark.parametrize(
    "files",
    [
        {"agent.yml": "systemPrompt: x\nplugins:\n  extra: {use: ./extra.py}"},
        {
            "agent.py": "from terret_plugin_agent_folders import AgentConfig\n"
            "from .extra import plugin\nconfig = AgentConfig(system_prompt='x')\n"
        },
        {
            "agent.py": "from terret_plugin_agent_folders import AgentConfig\n"
            "config = AgentConfig(system_prompt='x', plugins={'extra': {'use': './extra.py'}})\n"
        },
    ],
)
async def test_plugins_of_a_definition_live_with_each_instance(
    project: Project, files: dict[str, str]
) -> None:
    """E-291."""
    project.write({f"agents/shop/{name}": text for name, text in files.items()})
    project.write({"agents/shop/extra.py": PLUGIN})
    project.agent("desk")
    async with run_project(project) as running:
        assert running.faults == []
        fibers = len(running.ctx.fibers())
        one = await running.folders.open("shop", "one")
        two = await running.folders.open("shop", "two")
        assert running.ctx[Tools].get("extra", one) is not running.ctx[Tools].get("extra", two)
        assert running.ctx[Tools].get("extra", await running.folders.open("desk")) is None
        assert running.ctx[Tools].get("extra") is None
        for agent in running.ctx[Agents].list():
            await agent.ctx.fiber.dispose()
        await running.ctx.settle()
        assert running.ctx[Tools].get("extra", one) is None
        assert len(running.ctx.fibers()) == fibers


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def plugin(ctx):\n    raise RuntimeError('not today')\n", "not today"),
        (
            "from terret_context import plugin\n@plugin(inject=('nothing',))\n"
            "def plugin(ctx):\n    pass\n",
            "nothing",
        ),
    ],
)
async def test_an_instance_whose_plugin_does_not_run_is_not_made(
    project: Project, code: str, message: str
) -> None:
    """E-291."""
    project.agent("shop", "systemPrompt: x\nplugins:\n  extra: {use: ./extra.py}")
    project.write({"agents/shop/extra.py": code})
    async with run_project(project) as running:
        fibers = len(running.ctx.fibers())
        with pytest.raises(Exception, match=message):
            await running.folders.open("shop", "one")
        assert running.ctx[Agents].list() == ()
        await running.ctx.settle()
        assert len(running.ctx.fibers()) == fibers


async def test_a_missing_key_shows_at_the_first_call_only(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-279: discovery works, the call fails and says which variable is missing."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    project.write({"harness.yml": HARNESS + "  llm-anthropic: {}\n"})
    project.agent("shop", "systemPrompt: x\nmodel: {provider: anthropic, model: m}")
    async with run_project(project) as running:
        assert running.faults == []
        agent = await running.folders.open("shop", "one")
        agent.send("Hi.")
        await agent.when_idle()
        end = agent.session.events[-1].view
        assert isinstance(end, TurnEnd)
        assert "ANTHROPIC_API_KEY" in str(end.reason)


async def test_only_exact_true_lets_an_own_tool_run_beside_others(project: Project) -> None:
    """E-288: the predicate gets the arguments of the call."""
    project.agent("shop")
    project.write(
        {
            "agents/shop/tools/t.py": "from terret_tools import tool\n"
            "@tool(is_concurrency_safe=lambda args: {'a': True, 'b': 1}.get(args['what']))\n"
            "def look(what: str) -> str:\n    return what\n"
        }
    )
    async with run_project(project) as running:
        agent = await running.folders.open("shop", "one")

        def mode(what: str) -> str:
            exec = ToolExec(call_id="c", name="look", arguments={"what": what}, agent=agent)
            return running.ctx[Tools].execution_mode(exec)

        assert [mode(what) for what in "abc"] == ["parallel", "exclusive", "exclusive"]


async def test_reload_takes_over_new_changed_and_deleted_folders(project: Project) -> None:
    """E-262, E-263."""
    shop = project.agent("shop", "systemPrompt: Old.")
    project.agent("gone")
    async with run_project(project, say("1"), say("2"), say("3")) as running:
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "Hi.")
        assert await running.folders.reload() == ()
        assert await running.folders.open("shop", "one") is agent  # nothing has changed
        (shop / "agent.yml").write_text("systemPrompt: New.\n")
        (project.root / "agents/gone/agent.yml").unlink()
        project.agent("new")
        await running.folders.reload()
        assert running.folders.names == ("new", "shop")
        assert set(running.ctx[Agents].names()) == {"shop", "new"}
        again = await running.folders.open("shop", "one")
        assert again is not agent
        await running.say(again, "And?")
        assert "Old." in (running.model.requests[0].system or "")
        assert "New." in (running.model.requests[1].system or "")
        assert "Hi." in [message.text for message in running.model.requests[1].messages]


async def test_a_running_turn_finishes_on_the_old_definition(project: Project) -> None:
    """E-263."""
    shop = project.agent("shop", "systemPrompt: Old.")
    async with run_project(project, reply(pause("here"), say("1")), say("2")) as running:
        agent = await running.folders.open("shop", "one")
        agent.send("Hi.")
        await running.model.reached("here")
        (shop / "agent.yml").write_text("systemPrompt: New.\n")
        await running.folders.reload()
        assert await running.folders.open("shop", "one") is agent
        running.model.release("here")
        await agent.when_idle()
        again = await running.folders.open("shop", "one")
        assert await running.say(again, "And?") == "2"
        assert "New." in (running.model.requests[1].system or "")


async def test_an_instance_that_only_writes_its_last_turn_down_is_made_again(
    project: Project,
) -> None:
    """E-263: the next message counts, however soon it comes."""
    shop = project.agent("shop", "systemPrompt: Old.")
    async with run_project(project, say("1"), say("2")) as running:
        agent = await running.folders.open("shop", "one")
        (shop / "agent.yml").write_text("systemPrompt: New.\n")
        await running.folders.reload()
        ended = anyio.Event()

        def note(session: Session, event: SessionEvent) -> None:
            if isinstance(event.view, TurnEnd):
                assert agent.status == "running"
                ended.set()

        running.ctx.on(EVENT, note)
        agent.send("Hi.")
        await ended.wait()
        assert await running.folders.open("shop", "one") is not agent


async def test_an_invalid_change_leaves_the_last_valid_definition_in_force(
    project: Project,
) -> None:
    """The fault is shown; a name that is taken is a fault then."""
    shop = project.agent("shop", "systemPrompt: Old.")
    project.write(
        {"harness.yml": HARNESS.replace("agent-loop: {}", "agent-loop: {agents: [{id: main}]}")}
    )
    async with run_project(project) as running:
        (shop / "agent.yml").write_text("systemPromt: New.\n")
        project.agent("main")
        faults = [str(fault) for fault in await running.folders.reload()]
        assert 'the agent name "main" is given twice' in faults[0]
        assert faults[1].startswith("agents/shop/agent.yml:1:1 systemPromt: unknown key")
        assert running.folders.definitions["shop"].prompt == "Old."
        await running.folders.open("shop", "one")
        with pytest.raises(AgentUnavailableError, match="given twice"):
            await running.folders.open("main", "one")
        (shop / "agent.yml").write_text("systemPrompt: New.\n")
        (project.root / "agents/main/agent.yml").unlink()
        assert await running.folders.reload() == ()
        assert running.folders.definitions["shop"].prompt == "New."


class Greetings:
    """A part of definitions: those with a description have a tool that says it."""

    def __init__(self) -> None:
        self.installed: list[SessionKey] = []

    async def check(self, definition: Definition) -> Iterable[Fault]:
        if definition.config.description == "bad" and definition.node is not None:
            return [definition.node.items["description"].fault("is a bad one")]
        return []

    async def install(self, ctx: Context, definition: Definition, key: SessionKey) -> None:
        self.installed.append(key)
        text = definition.config.description or ""

        @tool
        def greet() -> str:
            return text

        ctx[Tools].register(greet)


async def test_parts_check_definitions_and_compose_instances(project: Project) -> None:
    project.agent("shop", "systemPrompt: x\ndescription: Hello")
    bad = project.agent("bad", "systemPrompt: x\ndescription: bad")
    async with run_project(project) as running:
        part = Greetings()
        effect = running.folders.add_part(part)
        line = "agents/bad/agent.yml:2:14 description: is a bad one"
        assert running.faults == []
        assert [str(fault) for fault in await running.folders.check()] == [line]
        with pytest.raises(AgentUnavailableError, match="is a bad one"):
            await running.folders.open("bad")
        agent = await running.folders.open("shop", "one", tenant="acme")
        assert part.installed == [SessionKey("acme", "production", "shop", "one")]
        assert running.ctx[Tools].get("greet", agent) is not None
        (bad / "agent.yml").write_text("systemPrompt: y\ndescription: bad\n")
        assert [str(fault) for fault in await running.folders.reload()] == [line]
        effect.close()
        assert await running.folders.reload() == ()
        assert running.ctx[Tools].get("greet", await running.folders.open("shop", "two")) is None


async def test_the_environment_is_a_part_of_the_session(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("shop")
    monkeypatch.setenv("TERRET_ENV", "staging")
    async with run_project(project) as running:
        agent = await running.folders.open("shop", "one")
        assert SessionKey.parse(agent.id).environment == "staging"


async def test_everything_goes_with_the_plugin(project: Project) -> None:
    project.agent("shop")
    async with run_project(project) as running:
        await running.folders.open("shop", "one")
        fiber = running.ctx[Loader].fiber("agent-folders")
        assert fiber is not None
        await fiber.dispose(check=True)
        assert running.ctx[Agents].list() == ()
        assert running.ctx[Agents].names() == ()
