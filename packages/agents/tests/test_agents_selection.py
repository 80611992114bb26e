from dataclasses import replace

from terret_agents import REQUEST, ModelSelection, RequestProposal, install_model_selection
from terret_context import Context, Next, plugin
from terret_llm import Llm, LlmCallConfig
from terret_system_prompt import SystemPrompt
from terret_testing import running_harness, say, script

Route = Next[LlmCallConfig]


async def test_prompt_and_request_of_a_step_agree_on_the_selection() -> None:
    """A-015: snapshotted during assembly, also when it changes before the request."""
    model = script(say("x"), say("y"))

    @plugin(inject=(Llm,))
    def second(ctx: Context) -> None:
        ctx[Llm].register_adapter(["second"], model)

    async with running_harness(model=model, plugins=[second]) as h:
        selected = [ModelSelection("second", "large")]
        h.ctx[SystemPrompt].section("model", 50, "You are {{provider}}/{{model}}.")
        effect = install_model_selection(h.agent.ctx, lambda: selected[0])

        async def change(
            proposal: RequestProposal, call_next: Next[LlmCallConfig]
        ) -> LlmCallConfig:
            selected[0] = ModelSelection("scripted", "scripted")
            return await call_next()

        h.ctx.once(REQUEST, change)
        await h.send("a")
        first = h.requests[0]
        assert (first.provider, first.model) == ("second", "large")
        assert "You are second/large." in str(first.system)
        await effect.aclose()
        await h.send("b")
        assert "You are second/large." in str(h.requests[1].system)
        assert (h.requests[1].provider, h.requests[1].model) == ("second", "large")


async def test_an_absent_effort_clears_an_inherited_one() -> None:
    """A-015: and without a selection everything stays as it is."""
    async with running_harness(model=script(say("x"))) as h:
        selected: list[ModelSelection | None] = [None]
        install_model_selection(h.agent.ctx, lambda: selected[0])
        seen: list[LlmCallConfig] = []

        async def outer(proposal: RequestProposal, call_next: Route) -> LlmCallConfig:
            config = await call_next()
            seen.append(config)
            return replace(config, reasoning_effort=None)

        async def inner(proposal: RequestProposal, call_next: Route) -> LlmCallConfig:
            return replace(await call_next(), reasoning_effort="high")

        h.ctx.on(REQUEST, outer, prepend=True)
        h.ctx.on(REQUEST, inner)
        await h.send("a")
        selected[0] = ModelSelection("scripted", "scripted")
        h.model.add(say("y"))
        await h.send("b")
        assert [config.reasoning_effort for config in seen] == ["high", None]
