"""`terret plugin`: list, check and new; `terret events`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_installed_plugins_are_listed_with_what_they_provide_and_need(terret: Run) -> None:
    code, out, err = terret("plugin", "list")
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("agent-loop "))
    provides, needs = line.split(maxsplit=4)[3:]
    assert provides == "agentLoop"
    assert needs.startswith("llm, sessions, systemPrompt, agents, tools")


def test_a_command_of_a_plugin_is_listed_and_runs(terret: Run) -> None:
    """C-426."""
    assert "terret plugin list" in terret("--help")[1]
    assert "terret model" in terret("plugin", "list")[1]
    assert terret("model", "--help")[:1] == (0,)
    assert terret("modle")[0] == 2


def test_the_new_plugin_is_sound_and_its_test_passes(terret: Run, tmp_path: Path) -> None:
    code, out, _ = terret("plugin", "new", "plugins/big-talk")
    assert code == 0
    assert out.splitlines()[:3] == [
        "plugins/big-talk/big_talk.py",
        "plugins/big-talk/test_big_talk.py",
        "plugins/big-talk/README.md",
    ]
    code, out, err = terret("plugin", "check", "plugins/big-talk")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["provides", "-"],
        ["needs", "tools"],
        ["settings", "greeting"],
    ]
    Path("harness.yml").write_text(
        "plugins: {tools: {}, system-prompt: {}, big: {use: ./plugins/big-talk/big_talk.py}}"
    )
    assert terret("explain", "big")[1].splitlines()[0] == "entry     big (harness.yml:1:41)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugins/big-talk"]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Big_Talk", '"Big_Talk" is no name for a plugin: use lowercase words joined by "-"'),
        ("there", "there exists already; nothing was written"),
    ],
)
def test_a_new_plugin_never_overwrites(terret: Run, name: str, complaint: str) -> None:
    Path("there").mkdir()
    assert terret("plugin", "new", name) == (2, "", f"terret: {complaint}\n")
    assert list(Path().iterdir()) == [Path("there")]


WRONG = """
import asyncio
from pydantic import BaseModel
from terret_context import plugin
from terret_llm._adapter import LlmAdapter
import terret_plugin_llm_local

class WrongConfig(BaseModel):
    enabled: bool = False
    size: int = "large"

@plugin(name="Wrong", config=WrongConfig, inject=("lmm",))
def wrong(ctx, config):
    ctx.on("agent/pre-stpe", print)
    raise AssertionError("no body runs")
"""

FINDINGS = """
wrong.py:12: the name "Wrong" is not words joined by "-"
wrong.py:12: needs "lmm", which nothing that is installed provides (did you mean "llm"?) (warning)
wrong.py:8: WrongConfig accepts unknown keys: derive it from terret_context.Config
wrong.py:8: WrongConfig.enabled has no description (warning)
wrong.py:8: "enabled" is a key of entries too, so it is set below "config" (warning)
wrong.py:8: WrongConfig.size has no description (warning)
wrong.py:8: default of size: Input should be a valid integer, unable to parse string as an integer
wrong.py:2: imports asyncio: with anyio it would run on trio too (warning)
wrong.py:5: imports terret_llm._adapter.LlmAdapter, which is private
wrong.py:6: imports terret_plugin_llm_local: plugins meet through services and events only
wrong.py:14: no event "agent/pre-stpe" (did you mean "agent/pre-step"?)
"""


def test_a_plugin_is_checked_without_running_it(terret: Run) -> None:
    """Record, settings, imports and event names, each with its line."""
    Path("wrong.py").write_text(WRONG)
    code, out, err = terret("plugin", "check", "wrong.py")
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if "Wrong Name" not in line] == FINDINGS.split("\n")[
        1:-1
    ]


def test_a_plugin_that_cannot_be_loaded_is_one_line(terret: Run) -> None:
    Path("broken.py").write_text("import jirra\n")
    line = "broken.py: ModuleNotFoundError: No module named 'jirra' (line 1)"
    assert terret("plugin", "check", "broken.py") == (2, "", f"{line}\n")
    code, _, err = terret("plugin", "check", "broken.py", "-v")
    assert (code, err.splitlines()[0]) == (2, line)
    assert "Traceback" in err
    assert terret("plugin", "check", "./gone.py")[2] == "./gone.py: there is no such file\n"


@pytest.mark.parametrize("use", ["tools-demo", "terret_plugin_tools_demo:tools_demo"])
def test_an_installed_plugin_is_checked_by_what_use_takes(terret: Run, use: str) -> None:
    code, out, err = terret("plugin", "check", use)
    assert (code, err) == (0, ""), err
    assert out.startswith('plugin "tools-demo": no faults\n')


TWO = """
from terret_context import plugin

@plugin
def one(ctx): ...

@plugin
def two(ctx): ...
"""


def test_a_folder_is_checked_as_the_distribution_that_it_is(terret: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one_of_two.py").write_text(TWO)
    Path("pyproject.toml").write_text("[project]\n")
    assert "no entry points in the group terret.plugins" in terret("plugin", "check", ".")[2]
    Path("pyproject.toml").write_text(
        '[project.entry-points."terret.plugins"]\none = "one_of_two:one"\ntwo = "one_of_two:two"\n'
    )
    _, out, _ = terret("plugin", "check", ".")
    assert [line for line in out.splitlines() if line.startswith("plugin")] == [
        'plugin "one": no faults',
        'plugin "two": no faults',
    ]


def test_events_are_listed_with_mode_payload_result_and_doc(terret: Run) -> None:
    code, out, err = terret("events")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    at = lines.index("  loader/entry  emit  EntryChange")
    assert lines[at + 1] == "      An entry of the harness was created, updated or removed."
    assert "  agent/request-error  waterfall  RequestFailure -> Retry | None" in lines


def test_events_are_listed_as_json(terret: Run) -> None:
    _, out, _ = terret("events", "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert rows["loader/entry"] == {
        "name": "loader/entry",
        "mode": "emit",
        "owner": "terret_loader",
        "payload": [
            {"type": "EntryChange", "fields": {"entry": "Entry | None", "previous": "Entry | None"}}
        ],
        "result": None,
        "hasSubject": False,
        "direct": False,
        "repeat": False,
        "doc": "An entry of the harness was created, updated or removed.",
    }
