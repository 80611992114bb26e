"""Which folder is the project, and what the environment sets in it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

PART = """
from terret_context import Config, plugin

class PartConfig(Config):
    size: int = 1

@plugin(config=PartConfig)
def part(ctx, config): ...
"""


def make(folder: Path, size: int) -> Path:
    """Makes a project that can be told from others by a value."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part.py").write_text(PART)
    (folder / "harness.yml").write_text(f"plugins: {{part: {{use: ./part.py, size: {size}}}}}")
    return folder


def size(terret: Run, *flags: str) -> str:
    code, out, err = terret("config", "show", "--origin", *flags)
    assert code == 0, err
    return next(line for line in out.splitlines() if line.startswith("part.size"))[12:13]


def test_the_root_is_a_flag_else_a_variable_else_the_nearest_file(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-271."""
    flag, variable = make(tmp_path / "flag", 1), make(tmp_path / "variable", 2)
    inner = make(tmp_path / "outer" / "inner", 3)
    make(tmp_path / "outer", 4)
    below = inner / "agents" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert size(terret) == "3"
    monkeypatch.setenv("TERRET_ROOT", str(variable))
    assert size(terret) == "2"
    assert size(terret, "--root", str(flag)) == "1"


def test_a_folder_with_agents_runs_the_preset(terret: Run, tmp_path: Path) -> None:
    """E-271: only there, not below it; a file above it wins."""
    (tmp_path / "agents").mkdir()
    code, out, _ = terret("config", "show", "--origin")
    assert code == 0
    assert "preset service (" in out
    folders = f'agent-folders.root = "{tmp_path}"'
    assert any(line.startswith(folders) for line in out.splitlines()), out
    _, explained, _ = terret("explain")
    assert re.fullmatch(r"all \d\d entries run\n", explained)
    assert terret("config", "check", "--root", str(tmp_path))[0] == 0


def test_a_file_that_says_something_wins_over_the_folder_of_agents(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-271."""
    make(tmp_path, 7)
    (tmp_path / "sub" / "agents").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "sub")
    assert size(terret) == "7"


def test_without_a_project_the_way_to_one_is_named(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-252."""
    for words in (("run", "hi"), ("chat",), ("sessions", "list"), ("explain",)):
        code, out, err = terret(*words)
        assert (code, out) == (2, "")
        assert "`terret init` makes a new project" in err
    monkeypatch.setenv("TERRET_ROOT", str(tmp_path / "no"))
    code, _, err = terret("run", "hi")
    assert code == 2
    assert f"there is no harness.yml in {tmp_path / 'no'} (TERRET_ROOT)" in err


def test_paths_begin_at_the_root_from_everywhere(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-270: also those of the preset, wherever it is installed, and of the data directory."""
    project = tmp_path / "project"
    (project / "agents").mkdir(parents=True)
    (project / "harness.yml").write_text("extends: [service]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERRET_DATA", "data")
    _, out, _ = terret("config", "show", "--origin", "--root", "project")
    for setting, folder in {
        "agent-folders.root": project,
        "session-jsonl.root": project / "data" / "sessions",
        "permissions.auditFolder": project / "data" / "audit",
    }.items():
        assert f'{setting} = "{folder}"' in out


def test_the_log_level_comes_from_the_environment(
    terret: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-541: an unknown one is refused; a flag beats it, and it beats the file."""
    make(tmp_path, 1).joinpath("harness.yml").write_text("plugins: {logging: {level: error}}")
    level = "logging.level"
    monkeypatch.setenv("TERRET_LOG", "debug")
    assert f'{level} = "debug"' in terret("config", "show", "--origin")[1]
    assert f'{level} = "info"' in terret("config", "show", "--origin", "--set", f"{level}=info")[1]
    monkeypatch.setenv("TERRET_LOG", "chatty")
    known = "(known: debug, info, warning, error, critical)"
    expected = f'terret: TERRET_LOG: there is no log level "chatty" {known}\n'
    assert terret("config", "check") == (2, "", expected)
