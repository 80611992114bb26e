from collections.abc import AsyncIterator

from terret_context import Context, plugin
from terret_llm import Llm

from ._config import OpenAiConfig


@plugin(config=OpenAiConfig, inject=(Llm,))
async def llm_openai(ctx: Context, config: OpenAiConfig) -> AsyncIterator[None]:
    """Serves one provider through the chat-completions protocol."""
    # httpx2 takes a fifth of a second to import; a harness that only lists plugins does not need it
    from ._adapter import OpenAiAdapter, open_client

    async with open_client(config) as client:
        ctx[Llm].register_adapter(config.provider, OpenAiAdapter(config, client))
        yield
