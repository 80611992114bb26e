"""`terret explain` and `terret graph`: what runs, what does not, and why."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

HARNESS = """
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  tools: {}
  off: {use: ./gone.py, enabled: false}
  broken: {use: ./broken.py}
  gone: {use: ./gone.py}
  agent-loop: {agents: []}
"""
BROKEN = """
from terret_context import plugin

@plugin
def broken(ctx):
    raise RuntimeError("no good")
"""
LEAVING = """
from terret_context import plugin

@plugin
def broken(ctx):
    def leave():
        raise RuntimeError("cannot leave")

    ctx.effect(lambda: leave, label="stay")
"""


@pytest.fixture(autouse=True)
def harness(tmp_path: Path) -> None:
    (tmp_path / "harness.yml").write_text(HARNESS)
    (tmp_path / "broken.py").write_text(BROKEN)


def shown(text: str) -> list[str]:
    """The lines, with one blank between columns and without times."""
    return [re.sub(r" +", " ", re.sub(r"[\d.]+ s", "N s", line)) for line in text.splitlines()]


def test_what_does_not_run_is_explained(terret: Run) -> None:
    """C-289, C-328, E-567: one line each, with place and way out."""
    code, out, err = terret("explain")
    assert (code, err) == (0, "")
    assert shown(out) == [
        "broken FAILED for N s harness.yml:8:3 plugins.broken: failed: "
        "RuntimeError: no good (broken.py, line 6)",
        "gone skipped harness.yml:9:15 plugins.gone.use: ./gone.py: there is no such file",
        "agent-loop PENDING for N s harness.yml:10:3 plugins.agent-loop: "
        "waiting for agents, provided by no one (installed: agents)",
    ]


def test_one_entry_is_explained(terret: Run) -> None:
    _, out, _ = terret("explain", "tools")
    assert shown(out) == [
        "entry tools (harness.yml:6:3)",
        "plugin tools",
        "provides tools",
        "state ACTIVE for N s",
        "uses systemPrompt of system-prompt",
    ]
    _, out, _ = terret("explain", "system-prompt")
    assert shown(out)[-1] == "used by tools (systemPrompt)"
    _, out, _ = terret("explain", "off")
    assert shown(out) == ["entry off (harness.yml:7:3)", "state disabled"]
    _, out, _ = terret("explain", "broken")
    assert shown(out)[-1].startswith("fault harness.yml:8:3 plugins.broken: failed: RuntimeError")
    assert terret("explain", "tolls") == (
        2,
        "",
        'terret: there is no entry "tolls" (did you mean "tools"?)\n',
    )


def test_a_harness_in_which_all_runs_is_confirmed(terret: Run) -> None:
    Path("harness.yml").write_text("plugins: {llm: {}, sessions: {}}")
    assert terret("explain") == (0, "all 3 entries run\n", "")


def test_the_graph_shows_states_and_who_uses_whom(terret: Run) -> None:
    """C-299, E-567."""
    Path("harness.yml").write_text(HARNESS.replace("agents: []", "optional: true"))
    code, out, err = terret("graph")
    assert (code, err) == (0, "")
    numbers = dict(re.findall(r'f(\d+)\["([\w-]+)', out))
    lines = set(re.sub(r"\bf(\d+)", lambda m: numbers[m[1]], out).splitlines())
    assert lines >= {
        "flowchart LR",
        '  broken["broken<br>FAILED"]',
        '  agent-loop["agent-loop<br>PENDING"]',
        "  tools -->|systemPrompt| system-prompt",
        "  agent-loop -.->|agents| missing((agents))",
    }


def test_what_failed_at_the_end_is_told(terret: Run, tmp_path: Path) -> None:
    """Not only that something did."""
    (tmp_path / "broken.py").write_text(LEAVING)
    code, _, err = terret("explain")
    assert code == 1
    assert err == "terret: closing the container: RuntimeError: cannot leave\n"
