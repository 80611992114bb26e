"""Sections, contexts, variables and tool providers in one layer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from terret_context import ContainedError, Container, DuplicateEntryError, Next
from terret_llm import ToolSchema
from terret_system_prompt import (
    ASSEMBLE,
    CHANGE,
    AssembleContext,
    Assembling,
    Assembly,
    PromptAssemblyError,
    ProvidedTools,
    Section,
    SystemPrompt,
    SystemPromptConfig,
    render,
    render_contexts,
)

EVERYBODY = AssembleContext()


@asynccontextmanager
async def running(**config: object) -> AsyncIterator[Container]:
    async with Container() as root:
        await root.plugin(SystemPrompt, {"include_harness_identity": False} | config).ready()
        yield root


def schema(name: str) -> ToolSchema:
    return ToolSchema(name, "", {"type": "object"})


async def text_of(root: Container) -> str:
    return render(await root[SystemPrompt].assemble(EVERYBODY))


async def test_identity_and_persona_open_the_text() -> None:
    """P-001: Identity and persona are registered."""
    async with running(include_harness_identity=True, persona="You bake bread.") as root:
        identity, persona = (await text_of(root)).split("\n\n")
        assert "Terret" in identity
        assert persona == "You bake bread."


async def test_an_empty_persona_and_a_disabled_identity_render_nothing() -> None:
    """P-001, P-010: Empty text is filtered."""
    async with running() as root:
        root[SystemPrompt].section("silent", 5, lambda context: "  ")
        assembly = await root[SystemPrompt].assemble(EVERYBODY)
        assert assembly.sections == ()
        assert render(assembly) == ""


async def test_runtime_context_can_be_switched_off() -> None:
    """P-001: Runtime context can be suppressed."""
    async with running(include_runtime_context=False) as root:
        root[SystemPrompt].context("date", 0, "Monday")
        assert (await root[SystemPrompt].assemble(EVERYBODY)).contexts == ()


async def test_a_service_made_by_hand_has_the_default_settings() -> None:
    """P-002: Direct construction without config uses the defaults."""
    async with Container() as root:
        service = SystemPrompt(root)
        service.init()
        assembly = await service.assemble(EVERYBODY)
        assert [section.name for section in assembly.sections] == ["harness-identity"]


async def test_sections_stand_in_their_order_and_functions_get_the_context() -> None:
    """P-003: Sections are ordered; text functions are evaluated per assembly."""
    seen: list[AssembleContext] = []

    async def late(context: AssembleContext) -> str:
        seen.append(context)
        return f"late {len(seen)}"

    async with running() as root:
        prompt = root[SystemPrompt]
        prompt.section("late", 10, late)
        prompt.section("first", -1.5, "first")
        prompt.section("twin", 10, "twin")
        assert await text_of(root) == "first\n\nlate 1\n\ntwin"
        assert await text_of(root) == "first\n\nlate 2\n\ntwin"
        assert seen == [EVERYBODY, EVERYBODY]


async def test_contributions_end_with_their_fiber_or_their_effect() -> None:
    """P-004, P-011: Contributions vanish, and each change is announced."""
    changes = 0

    def count() -> None:
        nonlocal changes
        changes += 1

    async with running() as root:
        root.on(CHANGE, count)
        single = root[SystemPrompt].section("single", 0.5, "single")
        child = root.scope(object())
        child[SystemPrompt].variable("who", lambda context: "you")
        fiber = root.inject([SystemPrompt], contribute)
        await fiber.ready()
        assert await text_of(root) == "single\n\nplugin"
        single.close()
        single.close()
        await fiber.dispose()
        await child.fiber.dispose()
        assert await text_of(root) == ""
        assert changes == 10


def contribute(ctx: Container) -> None:
    prompt = ctx[SystemPrompt]
    prompt.section("plugin", 1, "plugin")
    prompt.context("fact", 1, "fact")
    prompt.tools(lambda context: ProvidedTools(()))


@pytest.mark.parametrize("order", [inf, -inf, nan])
async def test_an_order_must_be_finite(order: float) -> None:
    """P-005: Non-finite sections and contexts are refused without leaks."""
    async with running() as root:
        with pytest.raises(ValueError, match="finite"):
            root[SystemPrompt].section("x", order, "x")
        with pytest.raises(ValueError, match="finite"):
            root[SystemPrompt].context("x", order, "x")
        root[SystemPrompt].section("x", 0, "x")


async def test_a_name_is_taken_once_per_layer() -> None:
    """P-005, P-012: Duplicates are refused and leave the first one alone."""
    async with running() as root:
        prompt = root[SystemPrompt]
        prompt.section("x", 0, "first")
        prompt.context("x", 0, "fact")
        prompt.variable("x", lambda context: "value")
        with pytest.raises(DuplicateEntryError):
            prompt.section("x", 0, "second")
        with pytest.raises(DuplicateEntryError):
            prompt.context("x", 0, "second")
        with pytest.raises(DuplicateEntryError):
            prompt.variable("x", lambda context: "second")
        assert await text_of(root) == "first"


async def test_a_listener_that_throws_does_not_undo_a_registration() -> None:
    """P-006: A throwing change listener is contained and the registration stands."""
    errors: list[ContainedError] = []

    def throw() -> None:
        raise ValueError("no")

    async with running() as root:
        root.on("internal/error", errors.append)
        root.on(CHANGE, throw)
        root[SystemPrompt].section("x", 0, "x")
        assert await text_of(root) == "x"
        assert [str(each.error) for each in errors] == ["no"]


async def test_what_is_registered_during_an_assembly_waits_for_the_next() -> None:
    """P-007: The set of providers is fixed before evaluation."""
    async with running() as root:
        prompt = root[SystemPrompt]

        def provider(context: AssembleContext) -> ProvidedTools:
            prompt.tools(lambda context: ProvidedTools([schema("late")]))
            return ProvidedTools([schema("early")])

        effect = prompt.tools(provider)
        first = await prompt.assemble(EVERYBODY)
        effect.close()
        second = await prompt.assemble(EVERYBODY)
        assert [tool.name for tool in first.tools] == ["early"]
        assert [tool.name for tool in second.tools] == ["late"]


async def test_listeners_wrap_the_draft_and_may_replace_it() -> None:
    """P-008, P-024: Assemble listeners compose and short-circuit; their result is used."""
    calls: list[str] = []

    async def outer(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        calls.append("outer")
        inner = await call_next()
        return replace(inner, sections=(*inner.sections, Section("outer", 9, "outer")))

    async def inner(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        calls.append("inner")
        return replace(payload.assembly, sections=(Section("inner", 1, "inner"),))

    async with running(persona="gone") as root:
        root.on(ASSEMBLE, outer)
        root.on(ASSEMBLE, inner)
        root.on(ASSEMBLE, unreachable)
        assert await text_of(root) == "inner\n\nouter"
        assert calls == ["outer", "inner"]


async def unreachable(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
    raise AssertionError("a listener above did not call on")


async def test_a_complete_section_stands_alone_after_all_listeners() -> None:
    """P-008: One complete section is restored afterwards."""

    async def drop(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        return replace(await call_next(), sections=(Section("other", 0, "other"),))

    async with running(persona="persona") as root:
        root[SystemPrompt].section("all", 50, "All there is.", complete=True)
        root.on(ASSEMBLE, drop)
        assert await text_of(root) == "All there is."


async def test_two_complete_sections_are_refused_by_name() -> None:
    """P-008: Several complete sections are refused."""
    async with running() as root:
        root[SystemPrompt].section("a", 1, "a", complete=True)
        root[SystemPrompt].section("b", 2, "b", complete=True)
        with pytest.raises(PromptAssemblyError, match='sections "a", "b"'):
            await root[SystemPrompt].assemble(EVERYBODY)


async def test_an_assembly_is_no_handle_on_the_next_one() -> None:
    """P-009: Changing one assembly does not affect the next."""
    async with running() as root:
        root[SystemPrompt].section("x", 0, "x")
        root[SystemPrompt].variable("v", lambda context: "v")
        first = await root[SystemPrompt].assemble(EVERYBODY)
        with pytest.raises(TypeError):
            first.variables["v"] = "w"  # type: ignore[index]  # read-only is what is tested
        assert replace(first, sections=()) != first
        assert await root[SystemPrompt].assemble(EVERYBODY) == first


async def test_a_failure_names_the_contributor() -> None:
    """P-010: A failure names the contributor."""

    def broken(context: AssembleContext) -> str:
        raise KeyError("missing")

    async with running() as root:
        root[SystemPrompt].context("weather", 0, broken)
        with pytest.raises(PromptAssemblyError, match='context "weather" failed: KeyError') as info:
            await root[SystemPrompt].assemble(EVERYBODY)
        assert info.value.contributor == 'context "weather"'
        assert isinstance(info.value.__cause__, KeyError)


@pytest.mark.parametrize("result", [None, "text", ["sections"]])
async def test_a_listener_that_gives_no_assembly_is_reported(result: object) -> None:
    """P-024: Only a well-formed assembly is authoritative."""

    async def wrong(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        return result  # type: ignore[return-value]  # the mistake under test

    async with running() as root:
        root.on(ASSEMBLE, wrong)
        with pytest.raises(PromptAssemblyError, match="not an Assembly"):
            await root[SystemPrompt].assemble(EVERYBODY)


async def test_a_listener_that_doubles_a_name_is_reported() -> None:
    """P-024: Names are unique in an assembly."""

    async def double(payload: Assembling, call_next: Next[Assembly]) -> Assembly:
        return replace(payload.assembly, sections=payload.assembly.sections * 2)

    async with running(persona="x") as root:
        root.on(ASSEMBLE, double)
        with pytest.raises(PromptAssemblyError, match="gave the sections persona twice"):
            await root[SystemPrompt].assemble(EVERYBODY)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("section", 'section "x" gave 5, which is no text'),
        ("context", 'context "x" gave 5, which is no text'),
        ("variable", 'variable "x" gave 5, not text or None'),
        ("tools", r"tool provider .*wrong gave 5, not ProvidedTools"),
    ],
)
async def test_a_contribution_of_the_wrong_type_is_named(kind: str, problem: str) -> None:
    """P-010: A failure names the contributor."""

    def wrong(context: AssembleContext) -> Any:
        return 5

    async with running() as root:
        prompt = root[SystemPrompt]
        match kind:
            case "section":
                prompt.section("x", 0, wrong)
            case "context":
                prompt.context("x", 0, wrong)
            case "variable":
                prompt.variable("x", wrong)
            case _:
                prompt.tools(wrong)
        with pytest.raises(PromptAssemblyError, match=problem):
            await prompt.assemble(EVERYBODY)


async def test_a_changed_setting_applies_without_a_restart() -> None:
    """P-001: Settings are live; consumers of the service keep running."""
    async with running(persona="old") as root:
        root[SystemPrompt].section("x", 1, "x")
        (fiber,) = root.fibers(SystemPrompt)
        before = root[SystemPrompt]
        await fiber.update(SystemPromptConfig(include_harness_identity=False, persona="new"))
        assert root[SystemPrompt] is before
        assert await text_of(root) == "new\n\nx"


async def test_equal_registrations_give_equal_bytes() -> None:
    """P-003: Two services with the same registrations render the same text."""
    texts = []
    for _ in range(2):
        async with running(persona="{{who}}") as root:
            root[SystemPrompt].variable("who", lambda context: "me")
            root[SystemPrompt].context("date", 0, "Monday")
            assembly = await root[SystemPrompt].assemble(EVERYBODY)
            texts.append((render(assembly), render_contexts(assembly)))
    assert texts[0] == texts[1] == ("me", "Monday")
