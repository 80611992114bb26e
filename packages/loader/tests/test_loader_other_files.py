"""Files beside harness.yml that are read by the same rules, such as those of an agent."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from terret_context import Config
from terret_loader import HarnessConfigError, Loader, Node, open_harness, read_yaml

Write = Callable[..., Path]

AGENT = """
name: ${env:NAME}
promptFile: texts/prompt.md
api_key: ${env:KEY}
plugins:
  bash:
    use: ./bash.py
    timeout: 3
"""


class AgentFile(Config):
    name: str
    prompt_file: Path | None = None
    api_key: SecretStr | None = None


def parts(path: Path) -> tuple[Node, Node]:
    """The entries in a file, and the rest of it."""
    whole = read_yaml(path)
    rest = {key: item for key, item in whole.items.items() if key != "plugins"}
    return whole.items["plugins"], whole.holding(rest)


async def test_a_part_of_a_file_becomes_a_model_and_another_entries(
    write: Write, tmp_path: Path
) -> None:
    """C-335, C-315, C-316: relative to that file, with its interpolations and secrets."""
    write("plugins: {}", **{"agents/agent__yml": AGENT})
    (tmp_path / "agents" / "bash.py").write_text((tmp_path / "bash.py").read_text())
    path = tmp_path / "agents" / "agent.yml"
    env = {"NAME": "shop", "KEY": "sk-0123456789"}
    async with open_harness("harness.yml", env=env) as root:
        entries, rest = parts(path)
        agent = root[Loader].evaluate(rest, AgentFile)
        assert (agent.name, agent.prompt_file) == ("shop", path.parent / "texts" / "prompt.md")
        root.logger.warning("uses sk-0123456789")
        assert root[Loader].recent(1)[0]["event"] == "uses [redacted]"
        group = root[Loader].mount(root, entries, base=path)
        await root.settle()
        (mounted,) = (fiber for fiber in root.fibers() if fiber.parent is group)
        assert mounted.source == {"timeout": 3}


async def test_their_faults_have_positions(write: Write, tmp_path: Path) -> None:
    """C-335, C-302, C-305, C-316."""
    text = AGENT.replace("promptFile", "promptFil").replace("timeout: 3", "timout: 3")
    write("plugins: {}", agent__yml=text)
    async with open_harness("harness.yml", env={"KEY": "sk-0123456789"}) as root:
        entries, rest = parts(tmp_path / "agent.yml")
        with pytest.raises(HarnessConfigError) as refused:
            root[Loader].evaluate(rest, AgentFile)
        assert str(refused.value).splitlines() == [
            "agent.yml:2:7 name: environment variable NAME is not set",
            'agent.yml:3:1 promptFil: unknown key (did you mean "promptFile"?)',
        ]
        with pytest.raises(HarnessConfigError) as refused:
            root[Loader].mount(root, entries, base=tmp_path / "agent.yml")
        line = 'agent.yml:8:5 plugins.bash.timout: unknown key (did you mean "timeout"?)'
        assert str(refused.value) == line
        (fault,) = root[Loader].check(entries, base=tmp_path / "agent.yml")
        assert str(fault) == line


async def test_an_empty_part_gives_the_defaults_or_says_what_is_missing(write: Write) -> None:
    write("plugins: {}", agent__yml="rest:\nmore: [1]\n")

    class Limits(Config):
        turns: int = 3

    async with open_harness("harness.yml") as root:
        whole = read_yaml("agent.yml")
        assert root[Loader].evaluate(whole.items["rest"], Limits) == Limits()
        with pytest.raises(HarnessConfigError, match=r"agent.yml:1:1 rest.name: is missing"):
            root[Loader].evaluate(whole.items["rest"], AgentFile)
        with pytest.raises(HarnessConfigError, match=r"agent.yml:2:7 more: expected a mapping"):
            root[Loader].evaluate(whole.items["more"], Limits)


def test_a_file_of_the_wrong_form_is_refused_with_all_its_faults(write: Write) -> None:
    """C-309, C-311, C-312."""
    write("", agent__yml="a: 1\na: 2\nb: !!python/none x\n")
    with pytest.raises(HarnessConfigError) as refused:
        read_yaml("agent.yml")
    assert str(refused.value).splitlines() == [
        "agent.yml:2:1 a: duplicate key (first given at line 1, column 1)",
        "agent.yml:3:4 b: tag !!python/none is not allowed: only plain YAML values are",
    ]
    with pytest.raises(HarnessConfigError, match=r"none.yml: cannot be read: No such file"):
        read_yaml("none.yml")
