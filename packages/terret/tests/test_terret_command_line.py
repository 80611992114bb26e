"""The command line in this process, on a model that answers from a script."""

from pathlib import Path

import pytest

from terret.__main__ import main

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


class Terret:
    """Runs command lines in a folder and gives exit code, standard output and error."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def agents(self, *names: str) -> None:
        listed = ", ".join(f"{{id: {name}, provider: echo, model: {name}}}" for name in names)
        (self.folder / "harness.yml").write_text(HARNESS.replace("AGENTS", listed))

    def __call__(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = self._capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err


@pytest.fixture
def terret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terret:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERRET_ROOT", raising=False)
    (tmp_path / "echo.py").write_text(ECHO)
    program = Terret(tmp_path, capsys)
    program.agents("main", "shop")
    return program


def test_the_version_is_that_of_the_distribution(terret: Terret) -> None:
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
def test_which_word_is_the_agent(terret: Terret, words: tuple[str, ...], answer: str) -> None:
    code, out, _ = terret("run", *words)
    assert (code, out) == (0, answer + "\n")


def test_the_only_agent_is_the_default_whatever_its_name(terret: Terret) -> None:
    terret.agents("desk")
    assert terret("run", "hi")[:2] == (0, "desk: hi\n")


def test_without_a_default_agent_the_known_ones_are_named(terret: Terret) -> None:
    terret.agents("desk", "shop")
    code, out, err = terret("run", "hi")
    assert (code, out) == (2, "")
    assert err == "terret: say which agent with --agent NAME (known: desk, shop)\n"


def test_a_fresh_session_is_named_and_can_be_shown_and_continued(terret: Terret) -> None:
    _, _, err = terret("run", "one")
    session = err.removeprefix("session ").splitlines()[0]
    assert session.startswith("main-session-")
    assert terret("run", "--session", session, "two")[:2] == (0, "main: two\n")
    _, shown, _ = terret("sessions", "show", session)
    assert shown.splitlines()[1:] == [
        "turn 1",
        "  user      one",
        "  assistant main: one",
        "turn 2",
        "  user      two",
        "  assistant main: two",
    ]
    _, listed, _ = terret("sessions", "list")
    assert listed.startswith(session)
    assert listed.endswith("2 turns\n")


def test_the_stored_log_is_printed_as_it_is(terret: Terret) -> None:
    _, live, _ = terret("run", "--json", "--session", "s", "one")
    _, stored, _ = terret("sessions", "show", "s", "--events")
    assert stored == live


def test_one_damaged_session_does_not_hide_the_others(terret: Terret) -> None:
    for session in ("good", "bad"):
        terret("run", "--session", session, "hi")
    [log] = (terret.folder / ".terret" / "sessions" / "bad").glob("*.jsonl")
    header, *rows = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([header, b"{broken\n", *rows]))
    code, listed, _ = terret("sessions", "list")
    assert code == 0
    assert sorted(line.split()[0] for line in listed.splitlines()) == ["bad", "good"]
    assert "cannot be read" in listed


def test_values_can_be_set_for_one_run(terret: Terret) -> None:
    more = "agent-loop.agents=[{id: solo, provider: echo, model: set}]"
    assert terret("run", "--set", more, "hi")[:2] == (0, "set: hi\n")


def test_a_sound_configuration_is_confirmed(terret: Terret) -> None:
    code, out, err = terret("config", "check")
    assert (code, err) == (0, "")
    assert out.endswith("no faults\n")


def test_installed_plugins_are_listed_with_what_they_provide_and_need(terret: Terret) -> None:
    code, out, err = terret("plugin", "list")
    assert (code, err) == (0, "")
    line = next(line for line in out.splitlines() if line.startswith("agent-loop "))
    provides, needs = line.split(maxsplit=4)[3:]
    assert provides == "agentLoop"
    assert needs.startswith("llm, sessions, systemPrompt, agents, tools")


def test_a_command_of_a_plugin_is_there(terret: Terret) -> None:
    _, out, _ = terret("--help")
    assert "model" in out
