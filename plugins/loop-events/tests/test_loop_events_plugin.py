"""The plugin as an entry of a harness."""

from pathlib import Path

import pytest

from terret_loader import HarnessConfigError, open_harness
from terret_plugin_loop_events import LoopEvents


async def test_it_is_mounted_by_its_name(tmp_path: Path) -> None:
    """E-101: With the protocols that come with it."""
    path = tmp_path / "harness.yml"
    path.write_text("plugins:\n  sessions: {}\n  loop-events: {summaryMaxBytes: 100}\n")
    async with open_harness(path, env={}) as root:
        assert root[LoopEvents].protocols == ("v1", "log")


async def test_a_limit_below_one_is_a_fault_of_its_line(tmp_path: Path) -> None:
    """E-055: The configuration is checked."""
    path = tmp_path / "harness.yml"
    path.write_text("plugins:\n  sessions: {}\n  loop-events:\n    summaryMaxBytes: 0\n")
    with pytest.raises(HarnessConfigError, match=r"harness.yml:4:22 .*summaryMaxBytes"):
        async with open_harness(path, env={}):
            pass
