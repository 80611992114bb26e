from typing import Annotated

from pydantic import Field

from terret_context import Config


class TokenMeterConfig(Config):
    """How text is estimated that no provider has counted."""

    bytes_per_token: Annotated[float, Field(gt=0)] = 4.0
    """Bytes of JSON in UTF-8 for one token."""
