from collections.abc import AsyncIterator

from terret_agents import REQUEST_ERROR, Agents
from terret_context import Context, plugin
from terret_sessions import Sessions

from ._executor import RetryExecutor
from ._rules import check_retries


@plugin(inject=(Agents, Sessions))
async def llm_retry(ctx: Context) -> AsyncIterator[None]:
    """Repeats failed requests to models as the policy of their provider says."""
    executor = RetryExecutor(ctx)
    ctx[Sessions].validator(check_retries)
    ctx.on(REQUEST_ERROR, executor)
    yield
    await executor.close()
