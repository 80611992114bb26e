"""Serves agents over HTTP."""

from terret_context import Context, plugin


@plugin(name="http")
def http(ctx: Context) -> None:
    """Serve agents."""
    raise NotImplementedError("the HTTP service is being written")


__all__ = ["http"]
