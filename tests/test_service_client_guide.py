"""The functions of the guide to the client work against a service."""

import re
from pathlib import Path
from typing import Any

import pytest

from end_to_end import ROOT
from served_projects import served_project, write_project
from terret_llm import GenerateOptions
from terret_testing import Part, ScriptedModel, call, say

PAGES = ["tutorial/first-service.md", "guides/use-the-python-client.md"]


def shown(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def answer(request: GenerateOptions) -> Part:
    last = request.messages[-1]
    found = re.search(r"Refund (\d+) euros for order (\S+)\.", last.text)
    if found and last.source.kind == "user":
        return call("issue_refund", order=found[2], amount=int(found[1]))
    return say("Done.")


def functions() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in shown("guides/use-the-python-client.md", "python"):
        exec(code, names)
    return names


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project of the tutorial."""
    (tool,) = shown("tutorial/first-service.md", "python")
    *_, rules = shown("tutorial/first-service.md", "yaml")
    files = {"agents/shop/tools/refunds.py": tool, "agents/shop/permissions.yml": rules}
    return write_project(tmp_path, files)


async def test_the_functions_of_the_guide_work(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-530, E-533."""
    monkeypatch.chdir(shop)
    guide = functions()
    model = ScriptedModel(*[answer] * 20)
    async with served_project(shop, model) as served, served.client() as client:
        assert await guide["refund"](client, "A-76", 12) == "Done."
        assert await guide["refund"](client, "A-77", 50) == "Done."
        assert (await guide["refund"](client, "A-78", 500)).startswith("Stopped: a person denied")
        seen = await guide["watch"](client, "Refund 200 euros for order A-79.")
        assert (seen[0], seen[-1]) == ("session", "done")
        assert (await guide["rest_of_turn"](client, "0"))[-1] == "done"
        assert await guide["written"](client, "ann") == "Done."
    assert (shop / "refunds.txt").read_text() == "A-76 12\nA-77 50\nA-79 200\n"
