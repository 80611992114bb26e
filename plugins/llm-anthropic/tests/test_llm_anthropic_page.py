"""What the page of the plugin shows works."""

import re
from pathlib import Path

import pytest

from terret_llm import Llm
from terret_loader import check_document, open_harness

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "llm-anthropic.md"
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_configuration_on_the_page_has_no_faults(snippet: str, tmp_path: Path) -> None:
    file = tmp_path / "harness.yml"
    file.write_text(snippet, "utf-8")
    assert check_document(file, env={}).faults == ()


async def test_a_harness_file_mounts_it(tmp_path: Path) -> None:
    """Two servers are two entries of the same plugin."""
    file = tmp_path / "harness.yml"
    file.write_text(
        "plugins:\n"
        "  llm: {}\n"
        "  llm-anthropic: {model: claude-sonnet-4-5}\n"
        "  local: {use: llm-anthropic, provider: local, baseUrl: 'http://localhost:1/v1'}\n"
    )
    async with open_harness(file) as root:
        names = {info.name for info in root[Llm].list_providers()}
    assert names == {"anthropic", "local"}
