"""Every harness file in this repository starts."""

from pathlib import Path

import pytest

from end_to_end import ROOT
from terret_loader import open_harness

EXAMPLES = sorted(p for p in ROOT.glob("examples/**/*.yml") if "agents" not in p.parts)
FILES = [ROOT / "harness.yml", *EXAMPLES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
async def test_a_harness_file_starts_without_faults(file: Path, tmp_path: Path) -> None:
    store = f"session-jsonl.root={tmp_path}"
    async with open_harness(file, sets=[store]) as root:
        assert [fiber.name for fiber in root.fibers() if fiber.state.value != "ACTIVE"] == []
