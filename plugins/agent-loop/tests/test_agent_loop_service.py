"""What the default loop offers beyond the contract: a service, prompt variables, advice."""

import pytest

from terret_agents import AgentOptions, Agents
from terret_context import Context, plugin
from terret_llm import Llm
from terret_plugin_agent_loop import AgentLoop
from terret_sessions import Errored, SessionExistsError
from terret_system_prompt import SystemPrompt
from terret_testing import SCRIPTED, ScriptedModel, running_harness, say, script


class Shop(ScriptedModel):
    """A model whose name nobody has to know."""

    def default_model(self, provider: str) -> str | None:
        return "small"


async def test_an_agent_without_a_route_says_both_remedies() -> None:
    """L-010: the message names the options and `agent/request`."""
    async with running_harness(options=AgentOptions()) as h:
        await h.send("hi")
        assert isinstance(h.turn_end, Errored)
        failure = h.turn_end.failure
        assert failure.code != "NO_ADAPTER"
        assert "on the agent" in failure.message
        assert "agent/request" in failure.message


async def test_the_prompt_may_name_provider_model_and_cwd() -> None:
    """L-159: the model also when the adapter supplied it."""
    shop = Shop(say("hello"))

    @plugin(inject=(Llm,))
    def selling(ctx: Context) -> None:
        ctx[Llm].register_adapter("shop", shop)

    async with running_harness(plugins=[selling]) as h:
        h.ctx[SystemPrompt].section("where", 50, "{{provider}}/{{model}} in {{cwd}}")
        async with await h.ctx[Agents].create(
            session_id="b", meta={"cwd": "/srv"}, agent_options=AgentOptions(provider="shop")
        ) as other:
            other.agent.send("a")
            await other.agent.when_idle()
        assert "shop/small in /srv" in str(shop.requests[0].system)


async def test_the_loop_service_creates_at_once() -> None:
    """L-185: without a setup, owned by the accessing fiber."""
    async with running_harness(model=script(say("x"))) as h:

        @plugin(inject=(AgentLoop,))
        def owner(ctx: Context) -> None: ...

        fiber = h.ctx.plugin(owner)
        await fiber.ready()
        loop = fiber.ctx[AgentLoop]
        agent = loop.create("b", SCRIPTED)
        agent.send("a")
        await agent.when_idle()
        assert agent.session.derive_messages()[-1].text == "x"
        with pytest.raises(SessionExistsError):
            loop.create("b", SCRIPTED)
        await fiber.dispose()
        assert h.ctx[Agents].get("b") is None
