from collections.abc import AsyncIterator

from terret_context import Context, plugin
from terret_llm import Llm

from ._config import OpenAiConfig


@plugin(config=OpenAiConfig, inject=(Llm,))
async def llm_openai(ctx: Context, config: OpenAiConfig) -> AsyncIterator[None]:
    """Serves one provider through the chat-completions protocol."""
    # the HTTP client takes a fifth of a second to import; a list of plugins does not need it
    from terret_llm.http import serving

    from ._wire import ChatCompletions

    async with serving(ctx, config, ChatCompletions):
        yield
