"""Rules in files and in harness.yml: what is wrong with them, and what holds meanwhile."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from terret_agents import Agents
from terret_context import Container
from terret_llm import Llm
from terret_loader import HarnessConfigError, open_harness
from terret_plugin_permissions import Permissions, RuleSource
from terret_testing import SCRIPTED, ScriptedModel, call, say, script

SPINE = """\
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  agent-loop: {}
"""
VALID = "default: allow\n"


@asynccontextmanager
async def harness(tmp_path: Path, text: str = "  permissions: {}\n") -> AsyncIterator[Container]:
    path = tmp_path / "harness.yml"
    path.write_text(SPINE + text)
    async with open_harness(path, env={"TENANT": "acme", "STAGE": "staging"}) as root:
        yield root


def write(tmp_path: Path, text: str | None) -> Path:
    path = tmp_path / "permissions.yml"
    if text is None:
        path.unlink()
        return path
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))
    return path


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules:\n  - {tool: x, decison: allow}\n", r"permissions.yml:2:\d+ .*decison.*decision"),
        ("rules:\n  - {tool: x, decision: maybe}\n", r"permissions.yml:2:\d+ .*decision"),
        ("rules:\n  - tool: x\n    decision: ask\n    scope: a/b/c/d\n", r"permissions.yml:4:12"),
        (
            "rules:\n  - tool: x\n    decision: ask\n    when: {field: a}\n",
            r"permissions.yml:4:\d+",
        ),
        ("rules:\n  - decision: ask\n", r"permissions.yml:2:\d+ .*tool.*missing"),
        ("default: allow\ndefault: deny\n", r"permissions.yml:2:1 .*duplicate"),
        ('default: "${env:NONE}"\n', r"permissions.yml:1:\d+ .*NONE"),
    ],
)
async def test_a_fault_names_file_line_and_column(tmp_path: Path, text: str, fault: str) -> None:
    """E-309, E-302, E-307: An unknown key gets a suggestion."""
    async with harness(tmp_path) as root:
        with pytest.raises(HarnessConfigError, match=fault):
            await root[Permissions].read(write(tmp_path, text))


async def test_values_come_from_the_environment(tmp_path: Path) -> None:
    """As in harness.yml."""
    text = 'rules:\n  - {scope: "${env:TENANT}/*", tool: x, decision: allow}\n'
    async with harness(tmp_path) as root:
        source = await root[Permissions].read(write(tmp_path, text))
        assert [rule.scope for rule in source.rules.rules] == ["acme/*"]


async def test_a_missing_file_denies_and_a_required_one_is_a_fault(tmp_path: Path) -> None:
    """E-310: Fail-closed."""
    async with harness(tmp_path) as root:
        source = await root[Permissions].read(tmp_path / "permissions.yml")
        assert (source.rules.default, source.error) == ("deny", None)
        with pytest.raises(HarnessConfigError, match=r"permissions\.yml"):
            await root[Permissions].read(tmp_path / "permissions.yml", required=True)


async def test_an_invalid_edit_leaves_the_last_valid_rules_in_force(tmp_path: Path) -> None:
    """E-312, E-310: A deleted file denies all."""
    async with harness(tmp_path) as root:
        path = write(tmp_path, VALID)
        source = await root[Permissions].read(path)
        states = []
        for text in ("default: perhaps\n", "default: ask\n", None, VALID):
            write(tmp_path, text)
            await source.refresh()
            states.append((source.rules.default, source.error is not None))
        assert states == [("allow", True), ("ask", False), ("deny", False), ("allow", False)]


async def test_a_file_is_read_when_a_turn_begins(tmp_path: Path) -> None:
    """E-312, E-313: The next turn sees the edit; the status says what is wrong."""
    model = script(call("x"), say("one"), call("x"), say("two"))
    async with harness(tmp_path) as root, bound(root, tmp_path, model) as (permissions, source):
        agent = root[Agents].list()[0]
        for text, error in ((VALID, None), ("default: maybe\n", "permissions.yml:1:10")):
            write(tmp_path, text)
            agent.send("go")
            await agent.when_idle()
            found = permissions.status(agent).error
            assert error is None or (found is not None and error in found)
        assert source.rules.default == "allow"


@asynccontextmanager
async def bound(
    root: Container, tmp_path: Path, model: ScriptedModel
) -> AsyncIterator[tuple[Permissions, RuleSource]]:
    root[Llm].register_adapter(["scripted"], model)
    source = await root[Permissions].read(write(tmp_path, "default: ask\n"))
    async with await root[Agents].create(session_id="a", agent_options=SCRIPTED) as handle:
        own = handle.agent.ctx.get(Permissions)
        assert own is not None
        own.bind(rules=source)
        yield own, source


async def test_the_environment_of_the_harness_is_a_setting(tmp_path: Path) -> None:
    """E-316: From a variable, with a default."""
    text = '  permissions: {environment: "${env:STAGE:-production}"}\n'
    async with harness(tmp_path, text) as root:
        handle = await root[Agents].create(session_id="a")
        assert root[Permissions].scope_of(handle.agent).environment == "staging"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ('{environment: "a/b"}', r"harness.yml:8:\d+ .*environment.*separates"),
        ("{rules: [{tool: x, decision: no}]}", r"harness.yml:8:\d+ .*decision"),
        ("{rules: [{tol: x, decision: ask}]}", r"harness.yml:8:\d+ .*tol.*tool"),
        ("{auditFailure: stop}", r"harness.yml:8:\d+ .*auditFailure"),
    ],
)
async def test_bad_settings_stop_the_start(tmp_path: Path, settings: str, fault: str) -> None:
    """E-309, E-316: With the line of harness.yml."""
    with pytest.raises(HarnessConfigError, match=fault):
        async with harness(tmp_path, f"  permissions: {settings}\n"):
            pass


async def test_the_folder_of_the_audit_begins_at_the_harness(tmp_path: Path) -> None:
    """E-319: Wherever the program was started."""
    model = script(call("x"), say("ok"))
    async with harness(tmp_path) as root, bound(root, tmp_path, model):
        (agent,) = root[Agents].list()
        agent.send("go")
        await agent.when_idle()
    assert len(list((tmp_path / ".terret" / "audit").iterdir())) == 1
