"""Registrations of one scope."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from terret_context import Container, Context, DuplicateEntryError, Next
from terret_llm import ToolSchema
from terret_system_prompt import (
    ASSEMBLE,
    PERSONA,
    AssembleContext,
    Assembling,
    Assembly,
    ProvidedTools,
    SystemPrompt,
    assemble_context_for,
    render,
)


class Someone:
    """A scope key; agents are."""


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Container, Someone, Context]]:
    async with Container() as root:
        config = {"persona": "everybody", "includeHarnessIdentity": False}
        await root.plugin(SystemPrompt, config).ready()
        agent = Someone()
        yield root, agent, root.scope(agent)


async def text_for(root: Container, agent: object) -> str:
    return render(await root[SystemPrompt].assemble(assemble_context_for(agent)))


def shout(context: AssembleContext) -> str:
    raise AssertionError("a shadowed text was evaluated")


async def test_a_scoped_persona_shadows_the_general_one() -> None:
    """P-019: A scoped persona shadows; scoped-only sections work; nothing stays behind."""
    async with running() as (root, agent, ctx):
        ctx[SystemPrompt].section(PERSONA, 0, "one")
        ctx[SystemPrompt].section("own", 1, "own")
        assert await text_for(root, agent) == "one\n\nown"
        assert await text_for(root, Someone()) == "everybody"
        await ctx.fiber.dispose()
        assert await text_for(root, agent) == "everybody"


async def test_shadowing_does_not_depend_on_the_order_of_registration() -> None:
    """P-019: Either order of registration; shadowed text is not evaluated; duplicates per layer."""
    async with running() as (root, agent, ctx):
        ctx[SystemPrompt].section("part", 1, "scoped")
        root[SystemPrompt].section("part", 1, shout)
        assert await text_for(root, agent) == "everybody\n\nscoped"
        with pytest.raises(DuplicateEntryError):
            ctx[SystemPrompt].section("part", 1, "again")


async def test_a_scoped_variable_shadows_and_cleans_up() -> None:
    """P-020: Scoped variables shadow and clean up."""
    async with running() as (root, agent, ctx):
        root[SystemPrompt].section("part", 1, "{{name}}")
        root[SystemPrompt].variable("name", lambda context: "all")
        scoped = ctx[SystemPrompt].variable("name", lambda context: "one")
        assert await text_for(root, agent) == "everybody\n\none"
        assert await text_for(root, None) == "everybody\n\nall"
        scoped.close()
        assert await text_for(root, agent) == "everybody\n\nall"


async def test_contexts_shadow_and_are_suppressed_per_scope() -> None:
    """P-021: Scoped contexts shadow and can be suppressed per scope, those below included."""
    async with running() as (root, agent, ctx):
        root[SystemPrompt].context("date", 0, "Monday")
        scoped = ctx[SystemPrompt].context("date", 0, "Friday")
        below = Someone()
        ctx.scope(below)

        async def facts(scope: object) -> list[str]:
            assembly = await root[SystemPrompt].assemble(assemble_context_for(scope))
            return [fact.text for fact in assembly.contexts]

        assert (await facts(agent), await facts(None)) == (["Friday"], ["Monday"])
        scoped.close()
        silence = ctx[SystemPrompt].suppress_runtime_context()
        assert (await facts(agent), await facts(below)) == ([], [])
        assert await facts(None) == ["Monday"]
        silence.close()
        assert await facts(below) == ["Monday"]


async def test_a_scoped_provider_is_asked_only_for_its_scope() -> None:
    """P-022: Scoped tool providers are asked only for their scope; disposal leaves no residue."""
    asked: list[object] = []

    def provider(context: AssembleContext) -> ProvidedTools:
        asked.append(context.scope)
        return ProvidedTools([ToolSchema("own", "", {})])

    async with running() as (root, agent, ctx):
        ctx[SystemPrompt].tools(provider)
        prompt = root[SystemPrompt]
        assert (await prompt.assemble(AssembleContext())).tools == ()
        assert (await prompt.assemble(assemble_context_for(Someone()))).tools == ()
        assert len((await prompt.assemble(assemble_context_for(agent))).tools) == 1
        await ctx.fiber.dispose()
        assert (await prompt.assemble(assemble_context_for(agent))).tools == ()
        assert asked == [agent]


async def test_a_scoped_listener_shapes_only_its_own_agent() -> None:
    """P-023: A scoped assemble listener shapes only its own agent."""

    async def shape(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        return replace(await call_next(), sections=())

    async with running() as (root, agent, ctx):
        ctx.on(ASSEMBLE, shape)
        assert await text_for(root, agent) == ""
        assert await text_for(root, Someone()) == "everybody"
        assert await text_for(root, None) == "everybody"


async def test_a_registration_is_seen_by_the_next_assembly_of_every_scope() -> None:
    """P-004: Merged plans are made again when a contributor changed."""
    async with running() as (root, agent, ctx):
        ctx[SystemPrompt].section("own", 1, "own")
        for scope in (agent, None):
            await text_for(root, scope)
        added = root[SystemPrompt].section("late", 2, "late")
        assert await text_for(root, agent) == "everybody\n\nown\n\nlate"
        assert await text_for(root, None) == "everybody\n\nlate"
        added.close()
        assert await text_for(root, agent) == "everybody\n\nown"
