"""Scopes and layered registries as agents use them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from terret_agents import STATUS, Agent, AgentBase, Agents, StatusChange
from terret_context import (
    AnonymousLayers,
    Container,
    DuplicateEntryError,
    NamedLayers,
    ScopeLinkError,
    link_scope,
    scope_chain,
    scope_of,
)
from terret_testing import Harness, running_harness


@asynccontextmanager
async def parent_and_child() -> AsyncIterator[tuple[Harness, AgentBase, AgentBase]]:
    """Two agents, the second linked below the first."""
    async with running_harness() as h, await h.ctx[Agents].create(session_id="child") as handle:
        parent, child = h.agent, handle.agent
        assert isinstance(parent, AgentBase)
        assert isinstance(child, AgentBase)
        link = link_scope(child, parent)
        yield h, parent, child
        link.move(None)


def hear(agent: Agent, heard: list[str], name: str) -> None:
    agent.ctx.on(STATUS, lambda change: heard.append(f"{name} hears {change.agent.id}"))


async def test_scope_keys_are_inherited_and_the_nearest_wins() -> None:
    """K-001: a scoped context is usable at once."""
    async with running_harness() as h:
        inner = object()
        scoped = h.agent.ctx.scope(inner)
        assert scope_of(h.agent.ctx) is h.agent
        assert scope_of(scoped) is inner
        assert list(scope_chain(inner)) == [inner, h.agent]
        undone: list[int] = []
        scoped.effect(lambda: lambda: undone.append(1))
        await scoped.fiber.dispose()
        assert undone == [1]


async def test_racing_disposals_of_a_scope_share_one_end() -> None:
    """K-002."""
    async with Container() as root:
        scoped = root.scope(object())
        undone: list[int] = []

        async def slow() -> None:
            await anyio.lowlevel.checkpoint()
            undone.append(1)

        scoped.effect(lambda: slow)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(scoped.fiber.dispose)
        assert undone == [1]


async def test_a_keyed_dispatch_reaches_matching_and_unscoped_listeners() -> None:
    """K-003, K-006: ancestors hear descendants, never the reverse."""
    async with parent_and_child() as (h, parent, child):
        heard: list[str] = []
        hear(parent, heard, "parent")
        hear(child, heard, "child")
        h.ctx.on(STATUS, lambda change: heard.append("all"))
        h.ctx.emit(STATUS, StatusChange(child, "idle"))
        assert heard == ["parent hears child", "child hears child", "all"]
        heard.clear()
        h.ctx.emit(STATUS, StatusChange(parent, "idle"))
        assert heard == ["parent hears test", "all"]


async def test_an_unscoped_listener_of_a_scoped_context_hears_everything() -> None:
    """K-004: the filter is that of the registration, whoever dispatches."""
    async with parent_and_child() as (_, parent, child):
        heard: list[str] = []
        child.ctx.on(STATUS, lambda change: heard.append(change.agent.id), unscoped=True)
        parent.ctx.emit(STATUS, StatusChange(parent, "idle"))
        assert heard == ["test"]


async def test_a_scope_has_one_parent_and_only_its_binder_moves_it() -> None:
    """K-005: cycles are refused."""
    async with running_harness() as h:
        key = object()
        scoped = h.ctx.scope(key)
        link = link_scope(key, h.agent)
        with pytest.raises(ScopeLinkError):
            link_scope(key, object())
        inner = object()
        below = scoped.scope(inner)
        with pytest.raises(ScopeLinkError):
            link.move(inner)
        assert list(scope_chain(inner)) == [inner, key, h.agent]
        link.move(None)
        assert list(scope_chain(inner)) == [inner, key]
        await below.fiber.dispose()


async def test_named_entries_shadow_in_place_and_duplicates_name_the_way_out() -> None:
    """K-007, K-009: ordered merge, immutable snapshots, exact idempotent undo."""
    async with parent_and_child() as (h, parent, child):
        names = NamedLayers[str]("name")
        first = names.add(h.ctx, "a", "global a")
        names.add(h.ctx, "b", "global b")
        names.add(parent.ctx, "a", "parent a")
        names.add(child.ctx, "c", "child c")
        with pytest.raises(DuplicateEntryError, match="agent"):
            names.add(h.ctx, "a", "again")
        seen = names.merged(child)
        assert list(seen.items()) == [("a", "parent a"), ("b", "global b"), ("c", "child c")]
        assert (names.get("a", child), names.get("a")) == ("parent a", "global a")
        first.close()
        again = names.add(h.ctx, "a", "new a")
        first.close()
        assert names.get("a") == "new a"
        assert seen["a"] == "parent a"
        assert dict(names.layer(object())) == {}
        again.close()


async def test_equal_anonymous_entries_are_independent() -> None:
    """K-008: same order and snapshots."""
    async with parent_and_child() as (h, parent, child):
        entries = AnonymousLayers[str]("entry")
        entries.add(child.ctx, "x")
        first = entries.add(h.ctx, "x")
        entries.add(h.ctx, "x")
        entries.add(parent.ctx, "y")
        before = entries.collect(child)
        first.close()
        assert entries.collect(child) == ("x", "y", "x")
        assert (before, entries.collect(parent)) == (("x", "x", "y", "x"), ("x", "y"))


async def test_one_context_decides_visibility_and_lifetime() -> None:
    """K-010: insert, changed, undo, changed; a failing change leaves nothing behind."""
    async with running_harness() as h:
        names = NamedLayers[str]("name")
        seen: list[dict[str, str]] = []
        handle = await h.ctx[Agents].create(session_id="b")
        agent = handle.agent

        def changed() -> None:
            seen.append(dict(names.layer(agent)))

        def fail() -> None:
            raise LookupError("refused")

        names.add(agent.ctx, "a", "mine", changed=changed)
        with pytest.raises(LookupError):
            names.add(agent.ctx, "b", "mine", changed=fail)
        assert dict(names.merged(agent)) == {"a": "mine"}
        assert dict(names.merged()) == {}
        await handle.dispose()
        assert seen == [{"a": "mine"}, {}]
