"""Which folders are agents, and what is wrong with the others."""

import sys

import pytest

from agent_projects import HARNESS, Project, run_project
from terret_agents import Agents, NoSuchAgentError
from terret_loader import HarnessConfigError
from terret_plugin_agent_folders import AgentUnavailableError


async def test_folders_with_a_definition_are_agents(project: Project) -> None:
    """E-275, E-276, E-289."""
    project.agent("shop")
    project.agent("desk", "name: help-desk\nsystemPrompt: Help.")
    project.agent(".hidden")
    project.agent("_draft")
    project.write({"agents/notes/readme.md": "no agent", "agents/file.txt": ""})
    async with run_project(project) as running:
        assert running.folders.names == ("help-desk", "shop")
        assert running.ctx[Agents].names() == ("help-desk", "shop")
        assert running.faults == []
        shop = running.folders.definitions["shop"]
        assert (shop.tools, shop.children, shop.config.max_turns) == ((), (), 25)
        assert shop.config.skill_index_budget_tokens == 200
        assert shop.permissions == project.root / "agents/shop/permissions.yml"
        assert shop.skills_dirs == (project.root / "agents/shop/skills",)


async def test_a_project_without_agents_has_none(project: Project) -> None:
    async with run_project(project) as running:
        assert running.folders.names == ()
        with pytest.raises(NoSuchAgentError):
            await running.folders.open("shop")


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (
            {"agent.yml": "a: b", "agent.py": ""},
            ["{folder}/agent.yml: there is {folder}/agent.py too"],
        ),
        (
            {"agent.yml": "systemPromt: x"},
            ['{folder}/agent.yml:1:1 systemPromt: unknown key (did you mean "systemPrompt"?)'],
        ),
        (
            {"agent.yml": "name: Shop_1\nsystemPrompt: x\nmaxTurns: 0"},
            ["{folder}/agent.yml:3:11 maxTurns: "],
        ),
        (
            {"agent.yml": "name: Shop_1\nsystemPrompt: x"},
            ['{folder}/agent.yml:1:7 name: "Shop_1" is no name of an agent: use lowercase words'],
        ),
        (
            {"agent.yml": "name: config\nsystemPrompt: x"},
            ['{folder}/agent.yml:1:7 name: "config" is no name of an agent: this word is reserved'],
        ),
        (
            {"agent.yml": "description: x"},
            ["{folder}/agent.yml systemPrompt: is missing: write it here, into prompt.md, or"],
        ),
        (
            {"agent.yml": "systemPrompt: x\npromptFile: a.md"},
            ["{folder}/agent.yml:2:13 promptFile: give either systemPrompt or promptFile"],
        ),
        ({"agent.yml": "promptFile: a.md"}, ["{folder}/agent.yml:1:13 promptFile: "]),
        (
            {"agent.yml": "systemPrompt: x\npermissions: my.yml"},
            ["{folder}/agent.yml:2:14 permissions: there is no such file"],
        ),
        (
            {"agent.yml": "systemPrompt: x\ntools: [a.py, b]\ncwd: ../../../x"},
            [
                "{folder}/agent.yml:2:9 tools[0]: there is no such file",
                "{folder}/agent.yml:2:15 tools[1]: expected a file such as tools/search.py",
                "{folder}/agent.yml:3:6 cwd: the path leaves the project {root}",
            ],
        ),
        (
            {"agent.yml": "systemPrompt: x\nmodel: {provider: p, baseUrl: x}"},
            ["{folder}/agent.yml:2:8 model: baseUrl belongs to the entry of the provider's plugin"],
        ),
        (
            {"agent.yml": "systemPrompt: x\nplugins:\n  agent-loop:\n    agnts: []"},
            ["{folder}/agent.yml:4:5 plugins.agent-loop.agnts: unknown key"],
        ),
        (
            {"agent.yml": "systemPrompt: ${env:NAME}"},
            ["{folder}/agent.yml:1:15 systemPrompt: environment variable NAME is not set"],
        ),
        ({"agent.py": "config = 3"}, ["{folder}/agent.py config: is no AgentConfig"]),
        ({"agent.py": "x = 1\n1 / 0\n"}, ["{folder}/agent.py:2:1: cannot be imported: ZeroDiv"]),
        ({"agent.py": "x = (\n"}, ["{folder}/agent.py:1:5: cannot be imported: SyntaxError"]),
    ],
)
async def test_faults_of_a_definition_have_their_place(
    project: Project, files: dict[str, str], lines: list[str]
) -> None:
    """E-274, E-277, E-278, E-281, E-272, E-291: the agent is not available, others are."""
    project.write({f"agents/shop/{name}": text for name, text in files.items()})
    project.agent("valid")
    async with run_project(project) as running:
        expected = [line.format(folder="agents/shop", root=project.root) for line in lines]
        assert len(running.faults) == len(expected), running.faults
        for fault, line in zip(running.faults, expected, strict=True):
            assert fault.startswith(line)
        assert tuple(running.folders.definitions) == ("valid",)
        name = next(name for name in running.folders.names if name != "valid")
        with pytest.raises(AgentUnavailableError) as refused:
            await running.folders.open(name)
        assert running.faults[0] in str(refused.value)


async def test_all_faults_of_all_folders_are_listed(project: Project) -> None:
    """So that a service can refuse to start with all of them."""
    project.agent("a", "systemPromt: x\nmaxTurns: none")
    project.agent("b", "systemPrompt: x\npromptFile: y\nname: B")
    async with run_project(project) as running:
        assert [fault.partition(" ")[0] for fault in running.faults] == [
            "agents/a/agent.yml:1:1",
            "agents/a/agent.yml:2:11",
            "agents/b/agent.yml:3:7",
            "agents/b/agent.yml:2:13",
        ]


async def test_one_name_twice_names_both_files(project: Project) -> None:
    """E-276."""
    project.agent("a", "name: same\nsystemPrompt: x")
    project.agent("b", "name: same\nsystemPrompt: x")
    async with run_project(project) as running:
        (fault,) = running.faults
        assert "in agents/a/agent.yml and in agents/b/agent.yml" in fault
        assert running.folders.definitions == {}
        with pytest.raises(AgentUnavailableError):
            await running.folders.open("same")


async def test_a_name_in_the_list_of_the_loop_and_in_a_folder_stops_the_start(
    project: Project,
) -> None:
    """E-562: naming both places."""
    project.agent("shop")
    project.write(
        {"harness.yml": HARNESS.replace("agent-loop: {}", "agent-loop: {agents: [{id: shop}]}")}
    )
    with pytest.raises(HarnessConfigError) as refused:
        async with run_project(project):
            pass
    assert "harness.yml#agent-loop" in str(refused.value)
    assert "in agents/shop/agent.yml" in str(refused.value)


async def test_a_model_is_needed_unless_a_plugin_may_bring_it(project: Project) -> None:
    """E-278."""
    project.write({"harness.yml": HARNESS.partition("    defaults")[0].rstrip(" \n:") + ": {}\n"})
    project.agent("bare")
    project.agent("own", "systemPrompt: x\nmodel: {provider: p}")
    project.agent("brings", "systemPrompt: x\nplugins: {step-limit: {}}")
    async with run_project(project) as running:
        assert running.faults == [
            "agents/bare/agent.yml model: is missing: give it here, or "
            "agent-folders.defaults.model in harness.yml"
        ]
        assert set(running.folders.definitions) == {"own", "brings"}


async def test_yaml_and_python_define_the_same(project: Project) -> None:
    """E-273."""
    project.agent(
        "a",
        "systemPrompt: Sell.\nmodel: {provider: p, model: m, maxTokens: 9}\nmaxTurns: 3\n"
        "skillsDirs: [../../skills]\nparallelSafe: true\ncwd: .",
    )
    project.write(
        {
            "agents/b/agent.py": "from terret_plugin_agent_folders import *\n"
            "config = AgentConfig(system_prompt='Sell.', max_turns=3, cwd='.', parallel_safe=True,"
            " skills_dirs=('../../skills',), "
            "model=ModelConfig(provider='p', model='m', max_tokens=9))\n"
        }
    )
    async with run_project(project) as running:
        assert running.faults == []
        a, b = running.folders.definitions.values()
        assert a.config == b.config
        assert (a.prompt, a.model, a.tools) == (b.prompt, b.model, b.tools)
        assert a.options() == b.options()
        assert a.skills_dirs == b.skills_dirs == (project.root / "skills",)
        assert (a.cwd, b.cwd) == (a.folder, b.folder)


async def test_paths_begin_at_their_file_whatever_the_working_directory(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-270, E-272: with references evaluated as in harness.yml."""
    outside = tmp_path_factory.mktemp("outside") / "prompt.md"
    outside.write_text("From ${env:X} outside.\n")
    project.agent("a", "promptFile: texts/p.md\ndescription: ${env:SAID} ${file:said.txt}")
    project.agent("b", f"promptFile: {outside}")
    project.write({"agents/a/texts/p.md": "Inside.\n", "agents/a/said.txt": "world\n"})
    monkeypatch.chdir(outside.parent)
    async with run_project(project, env={"SAID": "hello"}) as running:
        assert running.faults == []
        a, b = running.folders.definitions.values()
        assert (a.prompt, a.config.description) == ("Inside.", "hello world")
        assert b.prompt == "From ${env:X} outside."
        assert running.folders.root == project.root


async def test_subagents_are_found_at_any_depth_and_must_describe_themselves(
    project: Project,
) -> None:
    """E-447: found in the nested folder, and none is called like one above it."""
    shop = project.agent("shop")
    below = "systemPrompt: x\ntoolDescription: Does x."
    project.write(
        {
            "agents/shop/subagents/bills/agent.yml": below,
            "agents/shop/subagents/bills/subagents/taxes/agent.yml": below,
        }
    )
    async with run_project(project) as running:
        (bills,) = running.folders.definitions["shop"].children
        assert [child.name for child in bills.children] == ["taxes"]
        assert running.folders.names == ("shop",)
        taxes = shop / "subagents/bills/subagents/taxes"
        (taxes / "agent.yml").write_text("systemPrompt: x\nname: shop\n")
        project.write({"agents/shop/tools/t.py": TOOL.format(name="bills")})
        faults = [str(fault) for fault in await running.folders.reload()]
        place = "agents/shop/subagents/bills/subagents/taxes/agent.yml"
        assert faults == [
            f'{place}:2:7 name: an agent above this one is called "shop" too',
            f"{place} toolDescription: is missing: the model of the agent above reads it",
        ]


async def test_a_tool_and_a_subagent_of_one_name_are_refused(project: Project) -> None:
    """E-287."""
    project.agent("shop")
    project.agent("shop/subagents/bills", "systemPrompt: x\ntoolDescription: y")
    project.write({"agents/shop/tools/t.py": TOOL.format(name="bills")})
    async with run_project(project) as running:
        (fault,) = running.faults
        assert fault == (
            "agents/shop/agent.yml tools: the subagent in agents/shop/subagents/bills/agent.yml "
            'and a tool are both called "bills"'
        )


async def test_a_folder_that_leads_back_to_itself_is_refused(project: Project) -> None:
    """Links may not make the folders endless."""
    shop = project.agent("shop")
    (shop / "subagents").mkdir()
    (shop / "subagents" / "again").symlink_to(shop, target_is_directory=True)
    async with run_project(project) as running:
        (fault,) = running.faults
        assert fault == (
            "agents/shop/subagents/again/agent.yml: "
            "the folder leads back to one of the agents above it"
        )


TOOL = "from terret_tools import tool\n@tool\ndef {name}() -> str:\n    return '{name}'\n"


async def test_tools_are_collected_in_order_of_file_and_definition(project: Project) -> None:
    """E-282."""
    tools = project.agent("shop") / "tools"
    project.write(
        {
            "agents/shop/tools/b.py": TOOL.format(name="one") + TOOL.format(name="another"),
            "agents/shop/tools/a.py": "from ._shared import hidden\n" + TOOL.format(name="last"),
            "agents/shop/tools/_shared.py": TOOL.format(name="hidden"),
            "agents/shop/tools/c.py": TOOL.format(name="once") + "again = once\n",
        }
    )
    assert tools.is_dir()
    async with run_project(project) as running:
        assert running.faults == []
        found = running.folders.definitions["shop"].tools
        assert [tool.name for tool in found] == ["last", "one", "another", "once"]


async def test_equal_file_names_do_not_meet_and_relative_imports_work(project: Project) -> None:
    """E-283."""
    before = list(sys.path)
    for name in ("shop", "desk"):
        project.agent(name)
        project.write(
            {
                f"agents/{name}/texts.py": f"NAME = 'of_{name}'\n",
                f"agents/{name}/tools/search.py": "from terret_tools import tool\n"
                "from ..texts import NAME\n"
                "@tool(name=NAME)\ndef search() -> str:\n    return NAME\n",
            }
        )
    modules = set(sys.modules)
    async with run_project(project) as running:
        assert running.faults == []
        desk, shop = running.folders.definitions.values()
        assert ([t.name for t in desk.tools], [t.name for t in shop.tools]) == (
            ["of_desk"],
            ["of_shop"],
        )
        assert sys.path == before
    assert {name for name in set(sys.modules) - modules if "_terret_agent" in name} == set()


async def test_a_list_of_tools_replaces_the_folder(project: Project) -> None:
    """E-282, E-285: shared files, single functions, modules, or none."""
    project.agent("none", "systemPrompt: x\ntools: []")
    project.agent(
        "some",
        "systemPrompt: x\ntools: [../../tools/shared.py, tools/own.py:two, my_tools_module:three]",
    )
    project.write(
        {
            "agents/none/tools/own.py": TOOL.format(name="one"),
            "agents/some/tools/own.py": TOOL.format(name="one") + TOOL.format(name="two"),
            "tools/shared.py": TOOL.format(name="shared"),
            "lib/my_tools_module.py": TOOL.format(name="three"),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project.root / "lib")
        async with run_project(project) as running:
            assert running.faults == []
            none, some = running.folders.definitions.values()
            assert none.tools == ()
            assert [tool.name for tool in some.tools] == ["shared", "two", "three"]
    sys.modules.pop("my_tools_module", None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nimport no_such_module\n", "agents/shop/tools/t.py:2:1: cannot be imported: "),
        ("def f(:\n", "agents/shop/tools/t.py:1:7: cannot be imported: SyntaxError"),
        ("from .helper import x\n", "agents/shop/tools/helper.py:1:1: cannot be imported: "),
        (
            TOOL.format(name="one") + "two = one\n" + TOOL.format(name="one"),
            'agents/shop/agent.yml tools: two tools are called "one"',
        ),
    ],
)
async def test_a_tool_file_that_cannot_be_used_is_a_fault_with_its_line(
    project: Project, text: str, line: str
) -> None:
    """E-284."""
    project.agent("shop")
    project.write({"agents/shop/tools/t.py": text, "agents/shop/tools/_h.py": ""})
    project.write({"agents/shop/tools/helper.py": "1 / 0\n"} if "helper" in text else {})
    async with run_project(project) as running:
        assert any(fault.startswith(line) for fault in running.faults), running.faults
        assert "shop" not in running.folders.definitions


async def test_hooks_are_functions_of_files_or_exports(project: Project) -> None:
    project.agent("a", "systemPrompt: x\nsessionIdFor: hooks.py:pick\ntenantFor: hooks.py:tenant")
    code = "def pick(body): return body['id']\nasync def tenant(headers): return 'acme'\n"
    project.write({"agents/a/hooks.py": code})
    project.write(
        {
            "agents/b/agent.py": "from terret_plugin_agent_folders import AgentConfig\n"
            "config = AgentConfig(system_prompt='x')\n"
            "def session_id_for(body): return 'b'\n"
        }
    )
    project.agent("c", "systemPrompt: x\nsessionIdFor: hooks.py\ntenantFor: none.py:x")
    async with run_project(project) as running:
        a, b = running.folders.definitions.values()
        assert a.session_id_for is not None
        assert a.session_id_for({"id": "7"}) == "7"
        assert a.tenant_for is not None
        assert b.session_id_for is not None
        assert (b.session_id_for({}), b.tenant_for) == ("b", None)
        assert running.faults == [
            "agents/c/agent.yml:2:15 sessionIdFor: expected FILE.py:FUNCTION",
            "agents/c/agent.yml:3:12 tenantFor: there is no such file",
        ]
