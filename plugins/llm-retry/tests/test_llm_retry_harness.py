"""The plugin in a harness file."""

from pathlib import Path

from terret_agents import REQUEST_ERROR
from terret_loader import open_harness


async def test_a_harness_file_mounts_it(tmp_path: Path) -> None:
    """It listens while it is mounted, and needs no settings."""
    file = tmp_path / "harness.yml"
    file.write_text("plugins: {llm: {}, sessions: {}, agents: {}, llm-retry: {}}\n")
    async with open_harness(file) as root:
        assert root.snapshot()["listeners"][REQUEST_ERROR.name] == 1
