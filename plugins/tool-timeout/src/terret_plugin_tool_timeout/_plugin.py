"""The plugin: bounds the bodies of tools at `tools/execute`."""

from typing import Final

import anyio
from pydantic import Field, PositiveInt

from terret_context import Config, Context, Next, plugin
from terret_tools import EXECUTE, ToolExec, ToolOutcome, Tools, failure

TOOL_TIMEOUT: Final = "TOOL_TIMEOUT"
"""The code of a call that was stopped."""


class ToolTimeoutConfig(Config):
    """Configuration of the entry `tool-timeout`; times are milliseconds."""

    default_ms: PositiveInt | None = None
    """How long a call of a tool may take that declares no `timeout_ms`; left out, without limit."""
    tools: dict[str, PositiveInt | None] = Field(default={})
    """Limits of single tools, by name, in place of what they declare; `null` for none."""


@plugin(config=ToolTimeoutConfig, inject=(Tools,))
def tool_timeout(ctx: Context, config: ToolTimeoutConfig) -> None:
    """Cancels the bodies of calls that take longer than they may, and tells the model."""

    def limit_of(call: ToolExec) -> float | None:
        if call.name in config.tools:
            return config.tools[call.name]
        tool = ctx[Tools].get(call.name, call.agent)
        declared = None if tool is None else tool.timeout_ms
        return config.default_ms if declared is None else declared

    async def bound(call: ToolExec, call_next: Next[ToolOutcome]) -> ToolOutcome:
        limit = limit_of(call)
        if limit is None:
            return await call_next()
        with anyio.move_on_after(limit / 1000):
            return await call_next()
        return failure(
            f"{call.name} took longer than {limit:g} ms and was stopped", code=TOOL_TIMEOUT
        )

    ctx.on(EXECUTE, bound)
