from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from terret_agents import AgentOptions, Agents
from terret_context import Container, Context, plugin
from terret_llm import Llm
from terret_loader import HarnessConfigError, Loader, open_harness
from terret_plugin_default_model import default_model
from terret_testing import Harness, ScriptedModel, running_harness, say, script

OWN = AgentOptions(provider="scripted", model="own")


class Thinking(ScriptedModel):
    """A model that answers everything, under each of its names, and has efforts to choose."""

    def default_model(self, provider: str) -> str | None:
        return "usual"


@asynccontextmanager
async def harness(**config: object) -> AsyncIterator[tuple[Harness, ScriptedModel]]:
    other = Thinking(*[say("ok")] * 5)

    @plugin(inject=(Llm,))
    def provider(ctx: Context) -> None:
        ctx[Llm].register_adapter("other", other)

    plugins = [provider, (default_model, config)]
    model = script(*[say("ok")] * 5)
    async with running_harness(plugins=plugins, model=model, options=OWN) as h:
        yield h, other


def routes(model: ScriptedModel) -> list[tuple[str, str, str | None]]:
    return [(r.provider, r.model, r.reasoning_effort) for r in model.requests]


async def test_the_entry_goes_over_what_an_agent_was_created_with() -> None:
    """A-028: provider, model and effort."""
    async with harness(provider="other", model="new") as (h, other):
        await h.send("a")
        assert routes(other) == [("other", "new", None)]
        assert h.requests == []


async def test_what_the_entry_leaves_out_is_that_of_the_agent() -> None:
    """A-028: a partial entry is laid over; another provider has a model of its own."""
    async with harness(model="new") as (h, other):
        await h.send("a")
        assert routes(h.model) == [("scripted", "new", None)]
        [fiber] = h.ctx.fibers(default_model)
        await fiber.update({"provider": "other"})
        await h.send("b")
        assert routes(other) == [("other", "usual", None)]


async def test_an_effort_that_the_entry_does_not_name_is_cleared() -> None:
    """A-028: although an earlier request was made with one."""
    async with harness(model="new", reasoningEffort="high") as (h, _):
        await h.send("a")
        [fiber] = h.ctx.fibers(default_model)
        await fiber.update({"model": "new"})
        await h.send("b")
        assert routes(h.model) == [("scripted", "new", "high"), ("scripted", "new", None)]


async def test_agents_fall_back_to_their_own_model_when_nothing_is_chosen_any_more() -> None:
    """A-028: the file has no choice, or no longer one."""
    async with harness(provider="other", model="new", reasoningEffort="high") as (h, other):
        await h.send("a")
        [fiber] = h.ctx.fibers(default_model)
        await fiber.update({})
        await h.send("b")
        assert (len(other.requests), routes(h.model)) == (1, [("scripted", "own", None)])


async def test_an_unloaded_plugin_chooses_nothing() -> None:
    async with harness(model="new") as (h, _):
        [fiber] = h.ctx.fibers(default_model)
        await fiber.dispose()
        await h.send("a")
        assert routes(h.model) == [("scripted", "own", None)]


async def test_agents_that_come_later_are_included() -> None:
    async with harness(model="new") as (h, _):
        async with await h.ctx[Agents].create(session_id="b", agent_options=OWN) as later:
            later.agent.send("a")
            await later.agent.when_idle()
        assert routes(h.model) == [("scripted", "new", None)]


async def test_an_override_holds_over_the_entry_of_the_file(tmp_path: Path) -> None:
    """A-028, in part: the user's layer is an override in memory, since no settings are stored."""
    document = tmp_path / "harness.yml"
    document.write_text("plugins: {agents: {}, default-model: {model: small}}\n", "utf-8")
    async with open_harness(document) as root:
        [fiber] = root.fibers(default_model)
        await root[Loader].override("default-model.model", "large")
        assert chosen(root) == "large"
        with pytest.raises(HarnessConfigError):
            await root[Loader].override("default-model.model", 7)
        assert chosen(root) == "large"
        assert root.fibers(default_model) == (fiber,)


def chosen(root: Container) -> object:
    [fiber] = root.fibers(default_model)
    return fiber.config.model  # type: ignore[union-attr]
