"""New projects, agents and subagents."""

import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_projects import Project, run_project
from terret_loader import read_yaml
from terret_plugin_agent_folders import (
    AgentConfig,
    AgentExistsError,
    AgentModelError,
    AgentNameError,
    AgentNotFoundError,
    AgentTemplate,
    ModelConfig,
    ProjectExistsError,
    scaffold_agent,
    scaffold_project,
    scaffold_subagent,
)
from terret_testing import say


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("python", [False, True])
async def test_a_new_agent_is_one_file_that_loads_unedited(project: Project, python: bool) -> None:
    """The file is all that is written."""
    before = files_below(project.root)
    async with run_project(project, say("Hello.")) as running:
        path = running.folders.scaffold_agent("shop", provider="scripted", model="m", python=python)
        assert path == project.root / "agents/shop" / ("agent.py" if python else "agent.yml")
        new = files_below(project.root) - before
        assert {name for name in new if not name.startswith(".terret")} == {
            str(path.relative_to(project.root))
        }
        assert await running.folders.reload() == ()
        agent = await running.folders.open("shop", "one")
        assert await running.say(agent, "Hi.") == "Hello."
        assert running.model.requests[0].model == "m"


@pytest.mark.parametrize("python", [False, True])
async def test_an_agent_of_the_local_model_needs_neither_model_nor_key(
    project: Project, python: bool
) -> None:
    template = AgentTemplate(provider="local", python=python)
    assert "key" not in scaffold_agent(project.root, "shop", template).read_text()
    async with run_project(project) as running:
        assert running.folders.definitions["shop"].model == ModelConfig(provider="local")


def test_a_new_agent_has_the_usual_model_and_names_the_variable_of_its_key(tmp_path: Path) -> None:
    text = scaffold_agent(tmp_path, "shop").read_text()
    assert "ANTHROPIC_API_KEY" in text
    assert read_yaml(tmp_path / "agents/shop/agent.yml").items["model"].items["model"].value == (
        "claude-sonnet-5"
    )


@pytest.mark.parametrize(
    ("name", "template", "error", "message"),
    [
        ("there", None, AgentExistsError, 'there is an agent "there" already'),
        ("Shop", None, AgentNameError, '"Shop" is no name'),
        ("a--b", None, AgentNameError, '"a--b" is no name'),
        ("../x", None, AgentNameError, "is no name"),
        ("config", None, AgentNameError, "reserved"),
        ("a" * 101, None, AgentNameError, "longer than 100"),
        ("shop", AgentTemplate(provider="openai"), AgentModelError, '"openai"'),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path,
    name: str,
    template: AgentTemplate | None,
    error: type[Exception],
    message: str,
) -> None:
    """E-294."""
    scaffold_agent(tmp_path, "there", AgentTemplate(python=True))
    before = set(tmp_path.rglob("*"))
    with pytest.raises(error, match=message):
        scaffold_agent(tmp_path, name, template)
    assert set(tmp_path.rglob("*")) == before


PROMPTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))


@given(PROMPTS)
def test_any_prompt_survives_in_python(prompt: str) -> None:
    """E-295."""
    with tempfile.TemporaryDirectory() as folder:
        template = AgentTemplate(system_prompt=prompt, python=True)
        path = scaffold_agent(Path(folder), "shop", template)
        found: dict[str, object] = {}
        exec(compile(path.read_text("utf-8"), str(path), "exec"), found)
        config = found["config"]
        assert isinstance(config, AgentConfig)
        assert config.system_prompt == prompt


AWKWARD = (
    'He said: "no" # really',
    "it's\nthree\n\nlines \\n of \\ text\n",
    "- a: [b, {c}]\n\ttab",
    "costs $5, ${env:HOME} and $$",
    "true",
    "  blanks  ",
    "\u2028 \x85 \x07 🙂 ü",
    "",
    "- |",
)


async def test_awkward_prompts_survive_in_yaml(project: Project) -> None:
    """E-295."""
    for index, prompt in enumerate(AWKWARD):
        template = AgentTemplate(system_prompt=prompt, provider="p", model="$m: #1")
        scaffold_agent(project.root, f"agent-{index}", template)
    async with run_project(project) as running:
        assert running.faults == []
        definitions = running.folders.definitions
        assert [definitions[f"agent-{i}"].prompt for i in range(len(AWKWARD))] == list(AWKWARD)
        assert {each.model and each.model.model for each in definitions.values()} == {"$m: #1"}


@given(PROMPTS)
def test_any_prompt_survives_in_yaml(prompt: str) -> None:
    """E-295: as text; `$$` is how these files write a dollar."""
    with tempfile.TemporaryDirectory() as folder:
        path = scaffold_agent(Path(folder), "shop", AgentTemplate(system_prompt=prompt))
        value = read_yaml(path).items["systemPrompt"].value
        assert isinstance(value, str)
        assert value.replace("$$", "$") == prompt


async def test_subagents_are_found_and_describe_themselves(project: Project) -> None:
    """E-296: below any agent."""
    project.agent("shop")
    async with run_project(project) as running:
        path = running.folders.scaffold_subagent("shop", "bills")
        assert path == project.root / "agents/shop/subagents/bills/agent.yml"
        running.folders.scaffold_subagent("shop/bills", "taxes")
        assert await running.folders.reload() == ()
        (bills,) = running.folders.definitions["shop"].children
        assert bills.config.tool_description
        assert [child.name for child in bills.children] == ["taxes"]


@pytest.mark.parametrize(
    ("parent", "name", "error", "message"),
    [
        ("shop", "bills", AgentExistsError, "already"),
        ("none", "x", AgentNotFoundError, 'no agent "none"'),
        ("shop/none", "x", AgentNotFoundError, 'no agent "none"'),
        ("shop/Bills", "x", AgentNameError, '"Bills"'),
        ("shop/..", "x", AgentNameError, r'"\.\."'),
        ("", "x", AgentNameError, '""'),
        ("shop", "X", AgentNameError, '"X"'),
        ("shop/bills", "shop", AgentNameError, "above it"),
    ],
)
def test_a_subagent_that_cannot_be_is_refused_naming_the_segment(
    tmp_path: Path, parent: str, name: str, error: type[Exception], message: str
) -> None:
    """E-296."""
    scaffold_agent(tmp_path, "shop")
    scaffold_subagent(tmp_path, "shop", "bills")
    before = set(tmp_path.rglob("*"))
    with pytest.raises(error, match=message):
        scaffold_subagent(tmp_path, parent, name)
    assert set(tmp_path.rglob("*")) == before


def test_a_new_project_has_an_image_that_may_do_little(tmp_path: Path) -> None:
    """E-543."""
    scaffold_project(tmp_path)
    image = (tmp_path / "Dockerfile").read_text().splitlines()
    user = image.index("USER terret")
    assert any("useradd" in line for line in image[:user])
    assert not any(line.startswith(("RUN", "COPY", "USER")) for line in image[user + 1 :])
    assert "TERRET_DATA=/data" in next(line for line in image if "TERRET_HOST=0.0.0.0" in line)
    (service,) = yaml.safe_load((tmp_path / "compose.yml").read_text())["services"].values()
    assert service["read_only"] is True
    assert service["volumes"] == ["data:/data"]
    assert service["environment"]["TERRET_API_TOKEN"].startswith("${TERRET_API_TOKEN:?")
    assert service["environment"]["TERRET_ENV"] == "staging"
    ignored = (tmp_path / ".dockerignore").read_text().splitlines()
    assert {".env", ".terret"} <= set(ignored)


async def test_a_new_project_has_an_agent_with_a_tool_and_rules(project: Project) -> None:
    """E-253: the agent of it loads."""
    (project.root / "harness.yml").rename(project.root / "mine.yml")
    files = scaffold_project(project.root)
    assert {str(path.relative_to(project.root)) for path in files} == {
        "harness.yml",
        "agents/main/agent.yml",
        "agents/main/tools/sums.py",
        "agents/main/permissions.yml",
        ".env.example",
        ".gitignore",
        ".dockerignore",
        "Dockerfile",
        "compose.yml",
    }
    assert all(path.is_file() for path in files)
    (project.root / "mine.yml").replace(project.root / "harness.yml")
    async with run_project(project) as running:
        assert running.faults == []
        main = running.folders.definitions["main"]
        assert [tool.name for tool in main.tools] == ["add"]
        assert isinstance(main.permissions, Path)
        assert main.permissions.is_file()


@pytest.mark.parametrize("name", [".gitignore", "agents", "agents/main/tools"])
def test_nothing_of_a_new_project_is_written_over_what_is_there(tmp_path: Path, name: str) -> None:
    """E-253: a file in the place of a folder counts too."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(ProjectExistsError) as refused:
        scaffold_project(tmp_path)
    assert refused.value.files == (tmp_path / name,)
    assert files_below(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine\n"


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    """E-253."""
    (tmp_path / "Dockerfile").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProjectExistsError):
        scaffold_project(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
