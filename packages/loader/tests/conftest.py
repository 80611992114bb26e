"""What the tests of the loader share: a folder with a `harness.yml`, and its check."""

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from terret_loader import Plan, check_document

BASH = """
from pathlib import Path
from typing import Literal

from pydantic import SecretStr, field_validator
from terret_context import Config, Context, plugin

class Limits(Config):
    max_bytes: int = 1

class BashConfig(Config):
    timeout: float = 30.0
    retries: int = 0
    name: str = ""
    stream: bool = True
    mode: Literal["fast", "careful"] = "fast"
    api_key: SecretStr | None = None
    cwd: Path | None = None
    roots: tuple[Path, ...] = ()
    allow: list[str] = []
    limits: Limits = Limits()
    either: int | bool = 0
    enabled: bool = False
    anything: object = None
    words: dict[str, str] = {}

    @field_validator("name")
    @classmethod
    def _polite(cls, name: str) -> str:
        if name.startswith("bad"):
            raise ValueError(f"{name} is a bad name")
        return name

@plugin(config=BashConfig)
def bash(ctx: Context, config: BashConfig) -> None: ...
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes files into an empty folder, which becomes the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bash.py").write_text(BASH)

    def files(harness: str = "", **others: str) -> Path:
        named = {"harness.yml": harness, **{k.replace("__", "."): v for k, v in others.items()}}
        for name, text in named.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return tmp_path / "harness.yml"

    return files


@pytest.fixture
def check(write: Callable[..., Path]) -> Callable[..., Plan]:
    """Writes files and checks the harness, with an environment that is empty by default."""

    def run(harness: str, *sets: str, env: Mapping[str, str] | None = None, **others: str) -> Plan:
        write(harness, **others)
        return check_document("harness.yml", sets=sets, env=env or {})

    return run


@pytest.fixture
def faults(check: Callable[..., Plan]) -> Callable[..., list[str]]:
    """Like `check`; gives the lines of the faults."""

    def lines(*arguments: str, **options: object) -> list[str]:
        return [str(fault) for fault in check(*arguments, **options).faults]

    return lines


@pytest.fixture
def config(check: Callable[..., Plan]) -> Callable[..., dict[str, object]]:
    """Like `check`; gives the configuration of the entry `bash`, which must be free of faults."""

    def read(*arguments: str, **options: object) -> dict[str, object]:
        plan = check(*arguments, **options)
        assert [str(fault) for fault in plan.faults] == []
        return dict(next(entry.config for entry in plan.entries if entry.id == "bash"))

    return read
