"""What `terret dev` makes of a changed file."""

from pathlib import Path

import pytest

from terret._changes import Effect, Running, is_of_project

RELOAD, RECONCILE, RESTART = Effect.RELOAD, Effect.RECONCILE, Effect.RESTART


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        (".env", {RESTART}),
        ("plugins/words.py", {RESTART}),
        ("agents/shop/agent.py", {RESTART}),
        ("agents/shop/tools/search.py", {RESTART}),
        ("plugins", {RESTART}),
        ("harness.yml", {RECONCILE}),
        ("secret.txt", {RECONCILE}),
        ("team.yml", {RECONCILE, RELOAD}),
        ("agents/shop/agent.yml", {RELOAD}),
        ("agents/shop/prompt.md", {RELOAD}),
        ("agents/shop/permissions.yml", {RELOAD}),
        ("agents/shop/skills/refunds/SKILL.md", {RELOAD}),
        ("agents/new", {RELOAD}),
        ("prompts/shared.md", {RELOAD, RECONCILE}),
        ("agents/shop/tools/new.py", {RELOAD, RECONCILE}),
        ("tests/test_words.py", {RELOAD, RECONCILE}),
        ("export.csv", set()),
        ("pyproject.toml", set()),
    ],
)
def test_only_imported_code_and_variables_need_another_process(
    tmp_path: Path, name: str, effects: set[Effect]
) -> None:
    """E-260, E-262, E-263, E-264."""
    modules = ("plugins/words.py", "agents/shop/agent.py", "agents/shop/tools/search.py")
    running = Running(
        root=tmp_path,
        env_file=tmp_path / ".env",
        documents={tmp_path / "harness.yml", tmp_path / "secret.txt"},
        modules={tmp_path / module for module in modules},
    )
    assert set(running.effects(tmp_path / name)) == effects


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("agents/shop/agent.yml", True),
        (".env", True),
        ("settings/prod.env", True),
        (".terret/sessions/a/log.jsonl", False),
        ("data/sessions/a/log.jsonl", False),
        (".git/index", False),
        (".venv/lib/python/site.py", False),
        ("python/lib/site.py", False),
        ("plugins/__pycache__/words.cpython-311.pyc", False),
        ("node_modules/x/readme.md", False),
        ("agents/shop/.agent.yml.swp", False),
        ("agents/shop/agent.yml~", False),
        ("../elsewhere/agent.yml", False),
    ],
)
def test_what_is_not_of_the_project_is_ignored(tmp_path: Path, name: str, counts: bool) -> None:
    """E-266: also an environment whose folder has another name, and a data directory."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python/pyvenv.cfg").touch()
    path = Path(tmp_path, name).resolve()
    env_file = tmp_path / ("settings/prod.env" if "settings" in name else ".env")
    data = tmp_path / "data"
    assert is_of_project(path, tmp_path, env_file=env_file, data=data) is counts
