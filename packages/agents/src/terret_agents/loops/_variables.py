"""Prompt variables that tell an agent where it runs."""

from collections.abc import Callable

from terret_agents import Agent
from terret_context import Context
from terret_llm import HarnessError, Llm, LlmCallConfig
from terret_system_prompt import AssembleContext, SystemPrompt


def register_variables(ctx: Context, route: Callable[[Agent], tuple[str, str]]) -> None:
    """Registers the prompt variables `provider`, `model` and `cwd`.

    `route` gives provider and model of an agent of this loop, empty text where it has none; a
    model that is not chosen is the adapter's default.
    """

    def provider(context: AssembleContext) -> str | None:
        return _route(context)[0] or None

    async def model(context: AssembleContext) -> str | None:
        chosen, name = _route(context)
        if name or not chosen:
            return name or None
        try:
            return (await ctx[Llm].resolve_call_config(LlmCallConfig(provider=chosen))).model
        except HarnessError:
            return None  # the request will say what is missing

    def _route(context: AssembleContext) -> tuple[str, str]:
        return route(context.agent) if isinstance(context.agent, Agent) else ("", "")

    prompt = ctx[SystemPrompt]
    prompt.variable("provider", provider)
    prompt.variable("model", model)
    prompt.variable("cwd", _cwd)


def _cwd(context: AssembleContext) -> str | None:
    return context.agent.session.header.cwd if isinstance(context.agent, Agent) else None
