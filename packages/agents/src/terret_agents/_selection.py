"""A model selection that prompt and request of one agent share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from terret_context import Context, Effect, Next
from terret_llm import LlmCallConfig
from terret_system_prompt import ASSEMBLE, Assembling, Assembly

from ._events import REQUEST
from ._payloads import RequestProposal


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """Which model answers; without an effort, an inherited one is cleared."""

    provider: str
    model: str
    reasoning_effort: str | None = None


def install_model_selection(agent_ctx: Context, ref: Callable[[], ModelSelection | None]) -> Effect:
    """Lets `ref` choose the model of an agent, for prompt text and request alike.

    `ref` is asked once a step, during assembly, and `None` leaves everything as it is. The
    selection that assembly saw is the one the request uses. Ending the effect removes both.
    """
    selected: ModelSelection | None = None

    async def assemble(assembling: Assembling, call_next: Next[Assembly]) -> Assembly:
        nonlocal selected
        selected = ref()
        assembly = await call_next()
        if selected is None:
            return assembly
        chosen = {"provider": selected.provider, "model": selected.model}
        return replace(assembly, variables={**assembly.variables, **chosen})

    async def request(proposal: RequestProposal, call_next: Next[LlmCallConfig]) -> LlmCallConfig:
        config = await call_next()
        if selected is None:
            return config
        return replace(
            config,
            provider=selected.provider,
            model=selected.model,
            reasoning_effort=selected.reasoning_effort,
        )

    def install() -> Iterator[Effect]:
        yield agent_ctx.on(ASSEMBLE, assemble)
        yield agent_ctx.on(REQUEST, request)

    return agent_ctx.effect(install, label="model selection")
