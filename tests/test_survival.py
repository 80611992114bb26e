"""Whichever plugin of the repository's harness.yml breaks: with `--safe` it starts, and answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from end_to_end import ROOT
from terret.__main__ import main
from terret_loader import check_document

FILE = ROOT / "harness.yml"
PLUGINS = [entry.path for entry in check_document(FILE, env={}).entries if not entry.group]
NEEDED = {"llm", "sessions", "system-prompt", "agents", "tools", "agent-loop"}
"""Without these nothing can answer."""

SCRIPTED = """
from terret_context import plugin
from terret_llm import Llm
from terret_testing import ScriptedModel, say, script

@plugin(inject=(Llm,))
def scripted(ctx):
    ctx[Llm].register_adapter("scripted", script(say("I am here.")))
"""
BROKEN = {
    "its import fails": "import nowhere",
    "its body raises": "def plugin(ctx): raise RuntimeError('broken')",
    "its body fails later": """
async def plugin(ctx):
    async def fail(): raise RuntimeError("broken")
    ctx.spawn(fail)
""",
    "its settings are wrong": """
from terret_context import Config, plugin as record
class Strict(Config):
    needed: int
@record(config=Strict)
def plugin(ctx, config): ...
""",
    "it waits for ever": """
from terret_context import plugin as record
@record(inject=("nothing",))
def plugin(ctx): ...
""",
}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one turn of the harness on the scripted model, with one plugin replaced."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripted.py").write_text(SCRIPTED)
    (tmp_path / "harness.yml").write_text(
        f"extends: {FILE}\n"
        "plugins:\n"
        "  scripted: {use: ./scripted.py}\n"
        f"  session-jsonl: {{root: {tmp_path / 'sessions'}}}\n"
        "  agent-loop: {agents: [{id: main, provider: scripted, model: any}]}\n"
    )

    def replaced(name: str, source: str, *flags: str) -> tuple[int, str, str]:
        (tmp_path / "broken.py").write_text(source)
        broken = f"plugins.{name.replace('/', '.plugins.')}.use={tmp_path / 'broken.py'}"
        with pytest.raises(SystemExit) as ended:
            main(["run", "hi", "--set", broken, *flags])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return replaced


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", PLUGINS)
def test_a_broken_plugin_stops_the_start_and_a_safe_one_goes_on(
    run: Run, name: str, how: str
) -> None:
    """C-325, C-326, C-327."""
    code, out, err = run(name, BROKEN[how])
    assert (code, out) == (2, "")
    assert f"plugins.{name}" in err
    assert "Traceback" not in err
    code, out, err = run(name, BROKEN[how], "--safe")
    assert "Traceback" not in err
    if name in NEEDED:
        assert (code, out) == (2, "")
        assert "terret: no agent can run: `terret explain` says why" in err
    else:
        assert (code, out) == (0, "I am here.\n"), err


def test_the_whole_harness_answers(run: Run) -> None:
    """What the other tests break works."""
    assert run("unused", "def plugin(ctx): ...")[:2] == (0, "I am here.\n")
