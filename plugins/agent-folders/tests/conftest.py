from pathlib import Path

import pytest

from agent_projects import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project that is the working directory."""
    monkeypatch.delenv("TERRET_ENV", raising=False)
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)
