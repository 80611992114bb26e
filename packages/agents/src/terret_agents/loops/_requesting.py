"""The request of a step: configuration, header and history, as the log has them."""

from terret_agents import TurnAgent
from terret_llm import (
    GenerateOptions,
    HarnessError,
    Llm,
    LlmCallConfig,
    PreparedCall,
    ToolSchema,
    mark_loop_request,
)

from ._checkpoints import choose_config
from ._prompt import Prompt
from ._request_log import RequestLog


async def build_request(
    agent: TurnAgent, requests: RequestLog, prompt: Prompt, *, tools: tuple[ToolSchema, ...] = ()
) -> tuple[GenerateOptions, PreparedCall | None]:
    """Returns the next request and its prepared call, and logs the header if it is a new one.

    Dispatches `agent/request`. There is no prepared call for a route without adapter, which a
    listener of `llm/stream` may serve. Raises what preparing a call raises.
    """
    config = await choose_config(agent, requests.seed())
    call = await _prepare(agent, config)
    config = config if call is None else call.config
    requests.record(config, call, prompt)
    history = agent.session.derive_messages()
    request = GenerateOptions.of(
        config,
        messages=(*prompt.prefix, *history) if prompt.prefix else history,
        system=prompt.system or None,
        tools=tools,
        session_id=agent.id,
    )
    return mark_loop_request(request), call


async def _prepare(agent: TurnAgent, config: LlmCallConfig) -> PreparedCall | None:
    try:
        return await agent.ctx[Llm].prepare_call(config)
    except HarnessError as error:
        if error.code != "NO_ADAPTER" or not config.model:
            raise
        return None
