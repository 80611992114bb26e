"""What is imported with the first configuration, since pydantic takes longer than all the rest."""

from typing import TYPE_CHECKING, ForwardRef

if TYPE_CHECKING:
    from pydantic import BaseModel as BaseModel
else:
    BaseModel = ForwardRef("BaseModel", module="pydantic")

    def __getattr__(name):
        """Looks up `Config` for the front page."""
        if name != "Config":
            raise AttributeError(f"module 'terret_context' has no attribute {name!r}")
        from ._config import Config

        return Config
