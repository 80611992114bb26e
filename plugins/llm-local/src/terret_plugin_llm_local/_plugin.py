from terret_context import Context, plugin
from terret_llm import LOADING, Llm

from ._adapter import LocalAdapter
from ._config import LlmLocalConfig


@plugin(config=LlmLocalConfig, inject=(Llm,))
def llm_local(ctx: Context, config: LlmLocalConfig) -> None:
    """Registers a model that runs inside this process; it is loaded by the first request."""
    adapter = LocalAdapter(config, loading=lambda change: ctx.emit(LOADING, change))
    ctx.effect(lambda: adapter.aclose, label="local model")
    ctx[Llm].register_adapter(config.provider, adapter)
