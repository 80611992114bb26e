"""The code that guides show is that of the examples, and the examples work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from end_to_end import ROOT

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


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_tests_of_an_example_pass(folder: Path) -> None:
    """As somebody runs them who has copied the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
