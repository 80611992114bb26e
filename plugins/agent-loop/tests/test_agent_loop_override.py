"""The loop's settings as far as they can be changed while it runs."""

from pathlib import Path

import pytest

from terret_loader import HarnessConfigError, Loader, open_harness
from terret_plugin_agent_loop import AgentLoop

DOCUMENT = """\
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  agent-loop: {maxParallelToolCalls: 5}
"""


async def test_an_overridden_cap_holds_over_the_file_until_the_file_changes(tmp_path: Path) -> None:
    """L-204, in part: what is written is an override in memory, since no settings are stored.

    A cap below one is refused when it is given, and where there is no override the file's holds.
    """
    document = tmp_path / "harness.yml"
    document.write_text(DOCUMENT, "utf-8")
    async with open_harness(document) as root:
        [loop] = root.fibers(AgentLoop)
        await root[Loader].override("agent-loop.maxParallelToolCalls", 2)
        assert loop.config.max_parallel_tool_calls == 2  # type: ignore[union-attr]
        with pytest.raises(HarnessConfigError, match="greater than 0"):
            await root[Loader].override("agent-loop.maxParallelToolCalls", 0)
        assert loop.config.max_parallel_tool_calls == 2  # type: ignore[union-attr]
        document.write_text(DOCUMENT.replace("5", "7"), "utf-8")
        await root[Loader].reconcile()
        assert loop.config.max_parallel_tool_calls == 7  # type: ignore[union-attr]
        assert root.fibers(AgentLoop) == (loop,)
