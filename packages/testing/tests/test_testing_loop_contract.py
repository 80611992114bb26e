"""The suite of the contract of loops, seen from outside."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rows import CHECKLISTS, named_rows
from terret_testing.loop_contract import LoopContract

STARRED = re.compile(r"^- (L-\d{3})\*", re.MULTILINE)

ONE_SHOT = """
import sys
from pathlib import Path

sys.path.insert(0, str(Path({folder!r})))
from one_shot import one_shot
from terret_testing.loop_contract import LoopContract


class TestOneShot(LoopContract):
    loop = one_shot
    patience = 0.2
    not_applicable = {{"L-004": "it has no tools"}}
"""


def count(word: str, summary: str) -> int:
    found = re.search(rf"(\d+) {word}", summary)
    return int(found[1]) if found else 0


def test_every_starred_row_of_the_loop_is_in_the_suite() -> None:
    if not CHECKLISTS.is_dir():
        pytest.skip("there are no checklists beside this project")
    listed = (CHECKLISTS / "spine.md").read_text("utf-8").partition("## Appendix")[0]
    tests = (getattr(LoopContract, name) for name in dir(LoopContract) if name.startswith("test_"))
    proven = {row for test in tests for row, _ in named_rows(test.__doc__ or "")}
    assert sorted(set(STARRED.findall(listed)) - proven) == []


def test_a_loop_that_keeps_too_little_fails_and_rows_without_sense_are_skipped(
    tmp_path: Path,
) -> None:
    folder = Path(__file__).parents[3] / "examples" / "one-shot-loop"
    (tmp_path / "test_one_shot.py").write_text(ONE_SHOT.format(folder=str(folder)), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "-o", "anyio_mode=auto", "-k", "asyncio and turn", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 1
    assert "L-004 does not apply: it has no tools" in run.stdout
    assert count("failed", run.stdout) > 10
    assert count("passed", run.stdout) > 10
