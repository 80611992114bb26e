from collections.abc import AsyncIterator

from terret_context import Context, plugin
from terret_llm import Llm

from ._config import AnthropicConfig


@plugin(config=AnthropicConfig, inject=(Llm,))
async def llm_anthropic(ctx: Context, config: AnthropicConfig) -> AsyncIterator[None]:
    """Serves one provider through the Messages protocol."""
    # the HTTP client takes a fifth of a second to import; a list of plugins does not need it
    from terret_llm.http import serving

    from ._wire import Messages

    async with serving(ctx, config, Messages):
        yield
