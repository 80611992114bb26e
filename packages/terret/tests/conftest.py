"""The command line in this process."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terret.__main__ import main


@pytest.fixture
def environment() -> Iterator[None]:
    """No variable of this machine reaches a command, and none of a `.env` outlives a test."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("TERRET_") or name.endswith("_API_KEY") or name == "PORT":
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def terret(
    tmp_path: Path,
    environment: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs command lines in an empty folder; gives exit code, standard output and error.

    There is no terminal, whoever runs the tests.
    """
    monkeypatch.setattr("terret._terminal.TERMINAL", str(tmp_path / "no-terminal"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run
