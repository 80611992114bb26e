from terret_context import Context, plugin
from terret_sessions import TOKEN_METER, Sessions

from ._config import TokenMeterConfig
from ._meter import LogTokenMeter
from ._pricing import Pricing


@plugin(config=TokenMeterConfig, inject=(Sessions,), provides=(TOKEN_METER,))
def token_meter(ctx: Context, config: TokenMeterConfig) -> None:
    """Measures what sessions cost and how full their context is."""
    ctx.provide(TOKEN_METER, LogTokenMeter(Pricing(config.bytes_per_token)))
