"""The order of tool schemas."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from terret_context import ConfigError, Container, Next
from terret_llm import ToolSchema
from terret_system_prompt import (
    ASSEMBLE,
    REST,
    AssembleContext,
    Assembling,
    Assembly,
    PromptAssemblyError,
    ProvidedTools,
    SystemPrompt,
)


@asynccontextmanager
async def running(*names: str, order: list[str] | None = None) -> AsyncIterator[SystemPrompt]:
    async with Container() as root:
        await root.plugin(SystemPrompt, {"toolOrder": order} if order else None).ready()
        for name in names:
            provide(root[SystemPrompt], name)
        yield root[SystemPrompt]


def provide(prompt: SystemPrompt, *names: str, known: set[str] | None = None) -> None:
    schemas = [ToolSchema(name, "", {}) for name in names]
    prompt.tools(lambda context: ProvidedTools(schemas, known))


async def order_of(prompt: SystemPrompt) -> list[str]:
    return [tool.name for tool in (await prompt.assemble(AssembleContext())).tools]


async def test_tools_stand_by_name_whoever_came_first() -> None:
    """P-017: By name, independent of registration."""
    async with running("c", "a", "b") as prompt:
        assert await order_of(prompt) == ["a", "b", "c"]


async def test_a_configured_order_places_some_tools_and_the_rest() -> None:
    """P-017: Configured positions plus rest."""
    async with running("c", "z", "a", "b", order=["z", REST, "b"]) as prompt:
        assert await order_of(prompt) == ["z", "a", "c", "b"]


async def test_a_name_that_no_provider_knows_blocks_the_assembly() -> None:
    """P-017: An unknown name blocks, saying what is known."""
    async with running("a", order=["aa", REST]) as prompt:
        with pytest.raises(PromptAssemblyError, match="names aa which no provider knows; known: a"):
            await prompt.assemble(AssembleContext())


async def test_a_hidden_name_is_a_normal_absence() -> None:
    """P-022: A restricted-away ordered name is fine, a typo still fails."""
    async with running(order=["hidden", REST]) as prompt:
        provide(prompt, "a", known={"a", "hidden"})
        assert await order_of(prompt) == ["a"]


@pytest.mark.parametrize(
    ("order", "problem"),
    [(["a"], "the place of the tools"), ([REST, REST], "twice"), (["a", REST, "a"], "names a")],
)
async def test_an_order_that_cannot_be_meant_fails_at_load(order: list[str], problem: str) -> None:
    """P-017: Missing or duplicate rest and duplicates fail at load."""
    async with Container() as root:
        fiber = root.plugin(SystemPrompt, {"toolOrder": order})
        with pytest.raises(Exception, match=problem) as info:
            await fiber.ready()
        assert isinstance(info.value.__cause__, ConfigError)


async def test_a_tool_with_the_name_of_the_rest_is_refused() -> None:
    """P-018: A tool named like the rest entry is refused."""
    async with running(REST) as prompt:
        with pytest.raises(PromptAssemblyError, match="stands for all other tools"):
            await prompt.assemble(AssembleContext())


async def test_a_tool_offered_twice_is_refused() -> None:
    """P-024: No assembly with two tools of one name leaves the service."""
    async with running("a", "a") as prompt:
        with pytest.raises(PromptAssemblyError, match="tools a are offered twice"):
            await prompt.assemble(AssembleContext())


async def test_listeners_see_the_tools_in_order_and_have_the_last_word() -> None:
    """P-018: Ordering precedes the waterfall."""
    seen: list[str] = []

    async def turn(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        seen.extend(tool.name for tool in payload.assembly.tools)
        return replace(await call_next(), tools=payload.assembly.tools[::-1])

    async with running("b", "a") as prompt:
        prompt.caller.on(ASSEMBLE, turn)
        assert await order_of(prompt) == ["b", "a"]
        assert seen == ["a", "b"]
