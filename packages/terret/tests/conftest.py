"""The command line in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from terret.__main__ import main


@pytest.fixture
def terret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs command lines in an empty folder; gives exit code, standard output and error.

    There is no terminal, whoever runs the tests.
    """
    monkeypatch.setattr("terret._terminal.TERMINAL", str(tmp_path / "no-terminal"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERRET_ROOT", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run
