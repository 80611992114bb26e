"""Every row of the checklist of wire faults is proven by a test, or excused with a reason."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rows import CHECKLISTS, docstrings, named_rows
from rows import test_modules as modules_with_tests

CHECKLIST = CHECKLISTS / "wire-faults.md"
EXCUSES = tomllib.loads(Path(__file__).with_name("wire_rows.toml").read_text("utf-8"))

needs_checklist = pytest.mark.skipif(not CHECKLIST.exists(), reason="the checklist is not here")


def areas() -> dict[str, str]:
    """The area of each row."""
    rows = (line.split("|") for line in CHECKLIST.read_text("utf-8").splitlines())
    return {row[1].strip(): row[2].strip() for row in rows if row[1:2] and row[1].startswith(" B-")}


def proven() -> set[str]:
    texts = (text for path in modules_with_tests() for _, text in docstrings(path))
    return {row for text in texts for row, _ in named_rows(text)}


@needs_checklist
def test_every_row_is_proven_or_excused() -> None:
    excused: dict[str, Any] = EXCUSES["rows"]
    found = proven()
    open_rows = {
        row: area
        for row, area in areas().items()
        if row not in found and row not in excused and area not in EXCUSES["areas"]
    }
    assert open_rows == {}


@needs_checklist
def test_no_excuse_is_left_for_what_is_proven_or_does_not_exist() -> None:
    listed = areas()
    assert set(EXCUSES["rows"]) & proven() == set()
    assert set(EXCUSES["rows"]) <= set(listed)
    assert set(EXCUSES["areas"]) <= set(listed.values())
