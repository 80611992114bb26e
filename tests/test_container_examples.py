"""The page about the container shows its examples as they are, and what they print."""

import importlib.util
import re
from pathlib import Path

import pytest

from workspace import ROOT

EXAMPLES = sorted((ROOT / "examples" / "container").glob("*.py"))
PAGE = ROOT / "docs" / "concepts" / "container.md"
CORDIS = ROOT / "docs" / "coming-from-cordis.md"


def is_shown(path: Path, output: str) -> bool:
    shown = f"```python\n{path.read_text('utf-8')}```\n\n```text\n{output}```"
    return shown in PAGE.read_text("utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_an_example_prints_what_the_page_says(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    await module.main()
    assert is_shown(path, capsys.readouterr().out)


def test_every_defect_that_is_said_to_be_fixed_has_its_test() -> None:
    tests = "\n".join(
        path.read_text("utf-8")
        for folder in ("packages/context/tests", "packages/loader/tests")
        for path in (ROOT / folder).rglob("test_*.py")
    )
    named = re.findall(r"`(test_\w+)`", CORDIS.read_text("utf-8"))
    assert len(named) > 15
    assert [name for name in named if f"def {name}(" not in tests] == []
