from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from terret_context import Container, Fiber
from terret_loader import open_harness
from terret_plugin_tools_demo import tools_demo
from terret_system_prompt import SystemPrompt
from terret_tools import ToolExec, ToolOutcome, Tools

HARNESS = "plugins: {system-prompt: {}, tools: {}, tools-demo: {}}"


@asynccontextmanager
async def mounted() -> AsyncIterator[tuple[Tools, Fiber]]:
    async with Container() as root:
        root.plugin(SystemPrompt)
        root.plugin(Tools)
        fiber = root.plugin(tools_demo)
        await fiber.ready()
        yield root[Tools], fiber


async def result_of(name: str, **arguments: object) -> ToolOutcome:
    async with mounted() as (tools, _):
        return await tools.execute(ToolExec(call_id="call-1", name=name, arguments=arguments))


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [(17, 25, "42"), (2.5, 7, "9.5"), (0.1, 0.2, "0.3"), (7, -9, "-2"), (10**9, 1, "1000000001")],
)
async def test_add_writes_the_sum_as_a_person_would(a: float, b: float, text: str) -> None:
    assert (await result_of("add", a=a, b=b)).text == text


async def test_add_refuses_what_is_no_number() -> None:
    outcome = await result_of("add", a="many", b=1)
    assert outcome.error is not None
    assert outcome.error.info is not None
    assert outcome.error.info.code == "INVALID_ARGS"


async def test_now_tells_the_time_in_utc() -> None:
    told = datetime.fromisoformat((await result_of("now")).text)
    assert told.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Kolkata"])
async def test_now_tells_the_time_of_a_zone_or_a_city(zone: str) -> None:
    told = datetime.fromisoformat((await result_of("now", zone=zone)).text)
    assert told.utcoffset() == timedelta(hours=5, minutes=30)


async def test_a_city_may_be_written_with_a_space() -> None:
    assert not (await result_of("now", zone="New York")).is_error


async def test_an_unknown_zone_is_an_error_result_that_names_it() -> None:
    outcome = await result_of("now", zone="Mars/Olympus")
    assert outcome.is_error
    assert "Mars/Olympus" in outcome.text


async def test_both_tools_may_run_beside_other_calls() -> None:
    calls = [("add", {"a": 1, "b": 2}), ("now", {})]
    async with mounted() as (tools, _):
        for name, arguments in calls:
            exec = ToolExec(call_id="call-1", name=name, arguments=arguments)
            assert tools.execution_mode(exec) == "parallel"


async def test_unmounting_the_plugin_takes_both_tools_away() -> None:
    async with mounted() as (tools, fiber):
        assert [schema.name for schema in tools.schemas()] == ["add", "now"]
        await fiber.dispose(check=True)
        assert tools.schemas() == ()


async def test_the_plugin_boots_from_a_harness_file(tmp_path: Path) -> None:
    file = tmp_path / "harness.yml"
    file.write_text(HARNESS, "utf-8")
    async with open_harness(file) as root:
        assert [schema.name for schema in root[Tools].schemas()] == ["add", "now"]
