"""The code that guides show is that of the examples, and the examples work."""

import re
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import typer

from end_to_end import ROOT
from terret._app import app
from terret_agents import USER, Agents
from terret_llm import PluginSource, create_user_message
from terret_testing import SCRIPTED, Harness, say, script
from terret_testing.loop_contract import Dialect, LoopContract

Boot: TypeAlias = Callable[..., AbstractAsyncContextManager[Harness]]

EXAMPLES = sorted({path.parent for path in (ROOT / "examples").rglob("test_*.py")})
GUIDES = [
    *(ROOT / "docs" / "guides" / f"{name}.md" for name in ("write-a-plugin", "write-a-tool")),
    *(ROOT / "docs" / "guides" / f"{name}.md" for name in ("write-a-loop", "test-a-plugin")),
]
SHOWN = re.compile(
    r"^```(?:python|yaml|ini)\n# (?P<path>examples/\S+)\n(?P<code>.*?)^```", re.M | re.S
)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_code_of_a_guide_is_that_of_an_example(guide: Path) -> None:
    """A block names its file in its first line; `...` stands for what it leaves out."""
    blocks = list(SHOWN.finditer(guide.read_text("utf-8")))
    assert blocks
    for block in blocks:
        source = (ROOT / block["path"]).read_text("utf-8")
        for part in re.split(r"^ *\.\.\.\n", block["code"], flags=re.M):
            assert part.strip("\n") in source, f"{block['path']} has no such lines:\n{part}"


OTHER = re.compile(r"^```python\n(?!# examples/)(?P<code>.*?)^```", re.M | re.S)


def other_code(page: Path) -> list[str]:
    return [block["code"] for block in OTHER.finditer(page.read_text("utf-8"))]


@pytest.mark.parametrize(
    "page", [*GUIDES, ROOT / "docs/concepts/agents-and-turns.md"], ids=lambda path: path.stem
)
async def test_the_other_code_of_a_page_runs(page: Path, harness: Boot) -> None:
    """What a page shows by the way, with the names that its text speaks of."""
    async with harness(model=script(*[say("Hello.")] * 9)) as h:
        names: dict[str, Any] = {
            "Agents": Agents,
            "LoopContract": LoopContract,
            "MyDialect": Dialect,
            "USER": USER,
            "agent": h.agent,
            "ctx": h.ctx,
            "note": create_user_message("By the way.", PluginSource("note")),
            "options": SCRIPTED,
        }
        for block in other_code(page):
            running = eval(compile(block, str(page), "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if running is not None:
                await running


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_tests_of_an_example_pass(folder: Path) -> None:
    """As somebody runs them who has copied the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_the_reference_has_every_command_and_flag() -> None:
    """The page is written by hand; flags of one command stand in its row."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    program = typer.main.get_command(app)
    assert isinstance(program, typer.core.TyperGroup)
    groups = [(f"terret {name}", each) for name, each in program.commands.items()]
    for group, command in groups:
        inner = command.commands if isinstance(command, typer.core.TyperGroup) else {"": command}
        for name, each in inner.items():
            assert f"`{group} {name}".rstrip() in page, f"{group} {name}"
            flags = [flag for param in each.params for flag in param.opts if flag[:2] == "--"]
            known = {"--quiet": "`-q`", "--verbose": "`-v`", "--config": "`-c FILE`"}
            missing = [flag for flag in flags if known.get(flag, flag) not in page]
            assert not missing, f"{group} {name}: {missing}"
