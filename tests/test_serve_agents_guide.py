"""What the guide about the HTTP API shows is what the service answers."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_projects import Project
from end_to_end import ROOT
from http_apps import ASK_ALL, SELL, Reply, Service, run_service
from terret_plugin_http import HttpConfig
from terret_testing import call, say

GUIDE = (ROOT / "docs/guides/serve-agents.md").read_text("utf-8")
SHOWN = re.compile(r"^```sh\n(?P<command>.*?)^```\n\n^```(json)?\n(?P<answer>.*?)^```", re.M | re.S)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project that the guide speaks of."""
    for name in ("TERRET_ENV", "TERRET_API_TOKEN", "TERRET_ADMIN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    project = Project(tmp_path)
    project.agent("shop", ASK_ALL)
    project.write({"agents/shop/tools/sell.py": SELL})
    return project


async def run_curl(service: Service, command: str, urls: dict[str, str]) -> Reply:
    """Does what a curl command does."""
    words = shlex.split(command.replace("\\\n", " "))
    headers: dict[str, str] = {}
    method, body, address = "GET", None, ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                body = words.pop(0).encode()
            case "curl" | "-N":
                pass
            case address:
                pass
    path = address.removeprefix("localhost:8787").replace("$APPROVE_URL", urls.get("approve", ""))
    return await service.client.request(method, path, body, headers=headers)


def agrees(shown: Any, given: Any) -> bool:
    """Tells whether an answer is the one that is shown; `...` stands for anything."""
    if isinstance(shown, dict) and isinstance(given, dict):
        return shown.keys() == given.keys() and all(agrees(shown[k], given[k]) for k in shown)
    return bool(shown == "..." or shown == given)


async def test_the_answers_of_the_guide_are_those_of_the_service(shop: Project) -> None:
    """Request by request, in the order of the page."""
    answers = (say("Hello, Ann."), call("sell", item="hat"), say("Sold."))
    async with run_service(shop, *answers) as service:
        urls: dict[str, str] = {}
        blocks = list(SHOWN.finditer(GUIDE))
        assert len(blocks) == 6
        for block in blocks:
            reply = await run_curl(service, block["command"], urls)
            if not block["answer"].startswith("{"):
                assert reply.body.decode().startswith(block["answer"])
                continue
            assert agrees(json.loads(block["answer"]), reply.json), reply.json
            urls["approve"] = reply.json.get("approveUrl", "")


def test_the_settings_of_the_guide_are_settings() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        HttpConfig.model_validate(yaml.safe_load(block)["http"])
