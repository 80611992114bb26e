from pathlib import Path

import pytest

from agent_projects import Project
from http_apps import ALLOW_ALL, ASK_ALL, SELL


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the agent `shop`, which may use all tools; it is the working directory."""
    for name in ("TERRET_ENV", "TERRET_API_TOKEN", "TERRET_ADMIN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    project.agent("shop", ALLOW_ALL)
    return project


@pytest.fixture
def seller(project: Project) -> Project:
    """The agent sells things, and asks people before it uses a tool."""
    project.agent("shop", ASK_ALL)
    project.write({"agents/shop/tools/sell.py": SELL})
    return project
