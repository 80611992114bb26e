"""What holds for the whole program."""

import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from obedient_project import write_obedient

Run = Callable[..., tuple[int, str, str]]

HELP = """
import sys
from terret._app import app
from terret.__main__ import main
import typer
command = typer.main.get_command(app)
words = [[name, *more] for name, each in command.commands.items()
         for more in ([[sub] for sub in each.commands] if hasattr(each, "commands") else [[]])]
for each in [[], *words]:
    try:
        main([*each, "--help"])
    except SystemExit as ended:
        assert ended.code == 0, each
heavy = ("terret_", "starlette", "uvicorn", "prompt_toolkit", "httpx2", "rich")
print("imported", sorted(name for name in sys.modules if name.startswith(heavy)))
"""


@pytest.mark.parametrize("words", [(), ("frobnicate",), ("sessions",), ("run", "--frobnicate")])
def test_what_is_no_command_shows_the_usage(terret: Run, words: tuple[str, ...]) -> None:
    """E-255"""
    code, out, err = terret(*words)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: terret") or "\nUsage: terret" in err or " Usage: terret" in err


def test_help_imports_nothing_that_runs() -> None:
    """E-569: No provider, server or plugin, whichever command is asked about."""
    ended = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "imported []"


def test_a_module_is_the_program_from_anywhere(tmp_path: Path) -> None:
    """E-256"""
    (tmp_path / "project").mkdir()
    write_obedient(tmp_path / "project")
    words = ["run", "--root", "project", "hello"]
    ended = subprocess.run(
        [sys.executable, "-m", "terret", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "You said: hello\n"), ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", "hi"),
        ("chat",),
        ("sessions", "list"),
        ("config", "check"),
        ("explain",),
        ("graph",),
    ],
)
def test_every_command_about_a_harness_reads_the_env_file(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """E-246, E-247: A malformed line is named by its place, not by what stands there."""
    monkeypatch.setattr("sys.stdin", StringIO())
    write_obedient(tmp_path)
    assert terret(*words)[0] == 0
    (tmp_path / ".env").write_text("GOOD=1\nsecret words\n")
    code, out, err = terret(*words)
    assert (code, out) == (2, "")
    assert err == ".env:2:1: malformed line (expected NAME=value)\n"
