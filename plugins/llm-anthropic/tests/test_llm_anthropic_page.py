"""What the page of the plugin shows works."""

import re
from pathlib import Path

import pytest

from terret_loader import check_document

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "llm-anthropic.md"
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_configuration_on_the_page_has_no_faults(snippet: str, tmp_path: Path) -> None:
    file = tmp_path / "harness.yml"
    file.write_text(snippet, "utf-8")
    assert check_document(file, env={}).faults == ()
