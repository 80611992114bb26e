"""The plugin in a harness file."""

from pathlib import Path

from terret_loader import open_harness
from terret_sessions import TOKEN_METER, Session


async def test_a_harness_file_mounts_it(tmp_path: Path) -> None:
    """M-080: with a setting of its own."""
    file = tmp_path / "harness.yml"
    file.write_text("plugins: {sessions: {}, token-meter: {bytesPerToken: 3}}\n")
    async with open_harness(file) as root:
        meter = root.get(TOKEN_METER)
        assert meter is not None
        assert meter.measure(Session()).total == 0
