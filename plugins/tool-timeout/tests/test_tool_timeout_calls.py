"""Calls that take too long."""

from typing import Any

import anyio
import pytest

from terret_context import ConfigError, Container
from terret_plugin_tool_timeout import TOOL_TIMEOUT, tool_timeout
from terret_sessions import Completed, ToolResult
from terret_testing import Harness, call, reply, running_harness, say, script
from terret_tools import Tools, tool

pytestmark = pytest.mark.virtual_time


@tool(timeout_ms=5_000)
async def search() -> str:
    """Searches for an hour."""
    await anyio.sleep(3600)
    return "found"


@tool
async def dig() -> str:
    """Digs for a minute."""
    await anyio.sleep(60)
    return "dug"


def codes(h: Harness) -> list[str | None]:
    results = [e.view for e in h.events if isinstance(e.view, ToolResult)]
    return [None if result.error is None else result.error.code for result in results]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [TOOL_TIMEOUT, None]),
        ({"defaultMs": 1_000}, [TOOL_TIMEOUT, TOOL_TIMEOUT]),
        ({"tools": {"search": None, "dig": 59_000}}, [None, TOOL_TIMEOUT]),
        ({"defaultMs": 1_000, "tools": {"search": 4_000_000, "dig": 61_000}}, [None, None]),
    ],
)
async def test_a_call_takes_no_longer_than_it_may(
    config: dict[str, Any], expected: list[str | None]
) -> None:
    """T-005: the configuration wins over the tool, and the tool over the default."""
    model = script(reply(call("search"), call("dig")), say("I see."))
    async with running_harness(plugins=[(tool_timeout, config)], model=model) as h:
        for each in (search, dig):
            h.ctx[Tools].register(each)
        assert await h.send("go") == "I see."
        assert codes(h) == expected


async def test_the_model_reads_why_and_the_body_cleans_up() -> None:
    """The turn goes on."""
    left: list[str] = []

    @tool(timeout_ms=1500)
    async def lock() -> str:
        """Holds something."""
        try:
            await anyio.sleep_forever()
        finally:
            left.append("lock")
        return ""

    async with running_harness(
        plugins=[tool_timeout], model=script(call("lock"), say("Too bad."))
    ) as h:
        h.ctx[Tools].register(lock)
        assert await h.send("go") == "Too bad."
        assert h.transcript[2] == "error: Error: lock took longer than 1500 ms and was stopped"
        assert (left, h.turn_end) == (["lock"], Completed())


async def test_an_unknown_tool_is_still_unknown() -> None:
    """And a default does not make a limit of nothing fail."""
    async with running_harness(
        plugins=[(tool_timeout, {"defaultMs": 1})], model=script(call("none"), say("No."))
    ) as h:
        assert await h.send("go") == "No."
        assert codes(h) == ["UNKNOWN_TOOL"]


@pytest.mark.parametrize("config", [{"defaultMs": 0}, {"tools": {"x": -1}}, {"default": 1}])
async def test_limits_are_positive(config: dict[str, Any]) -> None:
    """Refused when it is mounted."""
    async with Container() as root:
        fiber = root.plugin(tool_timeout, config)
        await root.settle()
        assert isinstance(fiber.error, ConfigError)
