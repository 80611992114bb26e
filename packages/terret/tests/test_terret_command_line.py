"""The command line in this process, on a model that answers from a script."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Agents = Callable[..., None]

HARNESS = """
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  session-jsonl: {}
  echo: {use: ./echo.py}
  agent-loop: {agents: [AGENTS]}
  """
ECHO = """
from terret_context import plugin
from terret_llm import (
    BlockEnd, BlockStart, Finish, FinishChunk, Llm, LlmAdapter, TextBlock, TextDelta
)


class Echo(LlmAdapter):
    async def stream(self, request):
        text = f"{request.model}: {request.messages[-1].text}"
        yield BlockStart(index=0, block_type="text")
        yield TextDelta(index=0, text=text)
        yield BlockEnd(index=0, block=TextBlock(text=text))
        yield FinishChunk(Finish.stop())


@plugin(inject=(Llm,))
def echo(ctx):
    ctx[Llm].register_adapter("echo", Echo())
"""


@pytest.fixture(autouse=True)
def agents(tmp_path: Path) -> Agents:
    """Writes a harness with agents of these names; there are `main` and `shop` from the start."""
    (tmp_path / "echo.py").write_text(ECHO)

    def write(*names: str, more: str = "") -> None:
        listed = ", ".join(f"{{id: {name}, provider: echo, model: {name}}}" for name in names)
        (tmp_path / "harness.yml").write_text(HARNESS.replace("AGENTS", listed) + more)

    write("main", "shop")
    return write


def test_the_version_is_that_of_the_distribution(terret: Run) -> None:
    assert terret("--version") == (0, "terret 0.1.0\n", "")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("hello", "there"), "main: hello there"),
        (("shop", "hello"), "shop: hello"),
        (("shop",), "main: shop"),
        (("shop hello",), "main: shop hello"),
        (("shop", "--input", "hello"), "shop: hello"),
        (("--agent", "shop", "main", "hello"), "shop: main hello"),
    ],
)
def test_which_word_is_the_agent(terret: Run, words: tuple[str, ...], answer: str) -> None:
    """E-233, E-560, E-561: A known name with something behind it, or what `--agent` says."""
    code, out, _ = terret("run", *words)
    assert (code, out) == (0, answer + "\n")


def test_the_only_agent_is_the_default_whatever_its_name(terret: Run, agents: Agents) -> None:
    """E-249"""
    agents("desk")
    assert terret("run", "hi")[:2] == (0, "desk: hi\n")


def test_without_a_default_agent_the_known_ones_are_named(terret: Run, agents: Agents) -> None:
    """E-235, E-249"""
    agents("desk", "shop")
    code, out, err = terret("run", "hi")
    assert (code, out) == (2, "")
    assert err == "terret: say which agent with --agent NAME (known: desk, shop)\n"


def test_a_fresh_session_is_named_and_can_be_shown_and_continued(terret: Run) -> None:
    """E-231, E-563: Also of an agent of the list."""
    _, _, err = terret("run", "one")
    session = err.removeprefix("session ").splitlines()[0]
    assert session.startswith("main-session-")
    assert terret("run", "--session", session, "two")[:2] == (0, "main: two\n")
    _, shown, _ = terret("sessions", "show", session)
    assert shown.splitlines()[1:] == [
        "turn 1",
        "  user      one",
        "  assistant main: one",
        "  ended     completed",
        "turn 2",
        "  user      two",
        "  assistant main: two",
        "  ended     completed",
    ]
    _, listed, _ = terret("sessions", "list")
    assert listed.startswith(session)
    assert "completed  2 turns" in listed


def test_events_of_clients_are_printed_live_and_from_the_log(terret: Run, agents: Agents) -> None:
    """E-236, E-564: `--json` is the projection of the log, and nothing else."""
    agents("main", more="loop-events: {}")
    code, live, err = terret("run", "--json", "--session", "s", "one")
    assert (code, err) == (0, "")
    assert [json.loads(line)["type"] for line in live.splitlines()] == [
        "session",
        "budget:check",
        "loop:done",
        "done",
    ]
    assert terret("sessions", "export", "s", "--protocol", "v1") == (0, live, "")


def test_events_of_clients_need_their_plugin(terret: Run) -> None:
    code, out, err = terret("run", "--json", "one")
    assert (code, out) == (2, "")
    assert err == "terret: --json needs the plugin loop-events in harness.yml\n"


def test_an_agent_of_the_list_that_failed_to_start_is_refused(terret: Run) -> None:
    """E-563: The others run."""
    lost = "{id: lost, provider: echo, model: m, resumeSessionId: gone}"
    more = f"agent-loop.agents=[{lost}, {{id: well, provider: echo, model: m}}]"
    code, out, err = terret("run", "--set", more, "--agent", "lost", "hi")
    assert (code, out) == (2, "")
    assert 'terret: the agent "lost" cannot start: ' in err
    assert terret("run", "--set", more, "--agent", "well", "hi")[:2] == (0, "m: hi\n")


def test_values_can_be_set_for_one_run(terret: Run) -> None:
    more = "agent-loop.agents=[{id: solo, provider: echo, model: set}]"
    assert terret("run", "--set", more, "hi")[:2] == (0, "set: hi\n")
