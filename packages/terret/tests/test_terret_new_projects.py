"""`terret init`, `add-agent` and `add-subagent`."""

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def files(folder: Path) -> dict[str, str]:
    """The files that somebody wrote or wants to read, not the data."""
    found = (path for path in folder.rglob("*") if path.is_file())
    names = ((str(path.relative_to(folder)), path) for path in found)
    return {name: path.read_text() for name, path in names if "pycache" not in name}


def test_a_new_project_is_sound_and_the_next_steps_are_named(terret: Run, tmp_path: Path) -> None:
    """E-254: all entries run, and its agent is known."""
    code, out, err = terret("init", "shop")
    assert (code, err) == (0, "")
    listed, _, steps = out.partition("Next:\n")
    assert {line.removeprefix("shop/") for line in listed.splitlines()} == set(
        files(tmp_path / "shop")
    )
    assert "  cd shop\n" in steps
    assert "terret run" in steps
    assert terret("config", "check", "shop/harness.yml")[0] == 0
    assert "entries run" in terret("explain", "--root", "shop")[1]
    assert "(known: main)" in terret("run", "--root", "shop", "--agent", "no", "hi")[2]


def test_a_new_project_is_written_here_by_default(terret: Run, tmp_path: Path) -> None:
    code, out, _ = terret("init")
    assert code == 0
    assert "cd " not in out
    assert (tmp_path / "agents/main/agent.yml").is_file()


def test_nothing_is_written_over_what_is_there(terret: Run, tmp_path: Path) -> None:
    """E-253."""
    (tmp_path / "harness.yml").write_text("plugins: {}\n")
    code, out, err = terret("init")
    assert (code, out) == (2, "")
    assert err == "terret: there already: harness.yml; nothing was written\n"
    assert files(tmp_path) == {"harness.yml": "plugins: {}\n"}


@pytest.fixture
def project(terret: Run, tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    return tmp_path


def test_a_new_agent_is_one_file_and_its_defaults_are_told(terret: Run, project: Path) -> None:
    """E-293, E-298: it loads as it is."""
    code, out, err = terret("add-agent", "shop")
    assert (code, err) == (0, "")
    assert set(files(project)) == {"agents/shop/agent.yml"}
    lines = out.splitlines()
    assert lines[0] == "agents/shop/agent.yml"
    assert [line.split()[0] for line in lines[1:4]] == ["tools", "permissions", "skills"]
    assert lines[4] == 'Try it: terret run shop "Hello"'
    assert "(known: shop)" in terret("run", "--agent", "no", "hi")[2]


def test_the_options_of_a_new_agent_arrive(terret: Run, project: Path) -> None:
    """E-295: the prompt as it was typed."""
    prompt = 'He said: "$5" # \\ no\n'
    options = ("--system-prompt", prompt, "--provider", "openai", "--model", "m", "--python")
    assert terret("add-agent", "shop", *options)[0] == 0
    text = (project / "agents/shop/agent.py").read_text()
    assert f"system_prompt={prompt!r}" in text
    assert "model=ModelConfig(provider='openai', model='m')" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add-agent", "shop"), 'there is an agent "shop" already'),
        (("add-agent", "Shop"), '"Shop" is no name of an agent'),
        (("add-agent", "desk", "--provider", "openai"), "say which model"),
        (("add-subagent", "desk", "x"), 'there is no agent "desk"'),
        (("add-subagent", "shop/no", "x"), 'there is no agent "no"'),
        (("add-subagent", "shop", "X"), '"X" is no name of an agent'),
    ],
)
def test_what_cannot_be_added_is_refused(
    terret: Run, project: Path, words: tuple[str, ...], message: str
) -> None:
    """E-294, E-296, E-298."""
    terret("add-agent", "shop")
    before = files(project)
    code, out, err = terret(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.endswith("; nothing was written\n")
    assert files(project) == before


def test_subagents_are_written_below_their_parents(terret: Run, project: Path) -> None:
    """E-296: also below a path."""
    assert terret("add-agent", "shop")[0] == 0
    assert terret("add-subagent", "shop", "bills")[0] == 0
    code, out, _ = terret("add-subagent", "shop/bills", "taxes")
    path = "agents/shop/subagents/bills/subagents/taxes/agent.yml"
    assert (code, out.splitlines()[0]) == (0, path)
    assert "toolDescription" in (project / path).read_text()
    assert terret("explain")[0] == 0


def test_an_agent_can_be_added_although_something_else_is_broken(
    terret: Run, project: Path
) -> None:
    text = "extends: [service]\nplugins: {gone: {use: ./gone.py}}"
    (project / "harness.yml").write_text(text)
    assert terret("add-agent", "shop")[0] == 0
    (project / "harness.yml").write_text("extends: [service]\nplugins: {agent-folders: null}")
    code, _, err = terret("add-agent", "desk")
    assert code == 2
    assert "mounts no agent folders; add `agent-folders: {}`" in err
