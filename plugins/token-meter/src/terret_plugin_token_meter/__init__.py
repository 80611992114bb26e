"""Measures what sessions cost and how full their context is."""

from ._config import TokenMeterConfig
from ._plugin import token_meter

__all__ = ["TokenMeterConfig", "token_meter"]
