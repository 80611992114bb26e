"""What README and quickstart show works."""

import importlib.util
import re
from pathlib import Path

import pytest

from terret_context import Plugin
from terret_loader import check_document
from terret_testing import call, running_harness, say, script
from workspace import ROOT

PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def shown_plugin(page: Path, folder: Path) -> Plugin:
    (source,) = blocks(page, "python")
    path = folder / "words.py"
    path.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location("words", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.words
    assert isinstance(found, Plugin)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_configuration_shown_has_no_faults(page: Path, tmp_path: Path) -> None:
    shown_plugin(page, tmp_path)
    path = tmp_path / "harness.yml"
    for block in blocks(page, "yaml"):
        path.write_text(f"extends: {ROOT / 'harness.yml'}\n{block}", "utf-8")
        assert check_document(path, env={}).faults == ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_the_plugin_shown_gives_the_model_its_tool(page: Path, tmp_path: Path) -> None:
    model = script(call("count_words", text="to be or not"), say("Four."))
    async with running_harness(plugins=[shown_plugin(page, tmp_path)], model=model) as harness:
        assert await harness.send("How many words?") == "Four."
        assert "result: 4" in harness.transcript


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", prose(page))
        if not (page.parent / target).exists()
    ]
    assert not broken, "\n".join(broken)
