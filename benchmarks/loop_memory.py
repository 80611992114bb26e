"""What one conversation, and what a thousand at once, need: measured in a process of its own.

`loop_memory.py one|many URL` prints an object of figures; `loop.py` runs it.
"""

import sys

sys.modules["trio"] = None  # type: ignore[assignment]  # comes with the tests, not with Terret

import gc  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import anyio  # noqa: E402
from conversations import harness_file, terret  # noqa: E402

from terret_agents import AgentHandle, AgentOptions, Agents  # noqa: E402
from terret_context import Container  # noqa: E402
from terret_loader import open_harness  # noqa: E402

AT_ONCE = 1000
WARM = 50


async def one(url: str) -> dict[str, float]:
    """Hold one conversation and measure the memory of the process."""
    await terret(url, "tools-3-100")
    return {"rss": megabytes()}


async def many(url: str) -> dict[str, float]:
    """Hold many conversations, one turn each: first one by one, then all at once."""
    with harness_file(url, "tools-3-100") as path:
        async with open_harness(path) as root:
            gc.set_threshold(10_000)  # as the program `terret` does
            alone = await one_by_one(root)
            tasks = len(anyio.get_running_tasks())
            gc.collect()
            empty = megabytes()
            handles = await created(root, "at-once")
            start = time.process_time_ns()
            await turns(handles)
            at_once = (time.process_time_ns() - start) / AT_ONCE / 1000
            gc.collect()
            return {
                "alone": alone,
                "at_once": at_once,
                "size": max(megabytes() - empty, 0.0) * 1000 / AT_ONCE,
                "tasks": max(len(anyio.get_running_tasks()) - tasks, 0),
            }


async def one_by_one(root: Container) -> float:
    """Return the processor time of a turn of one of many conversations, each on its own."""
    handles = await created(root, "alone")
    await turns(handles[:WARM])
    start = time.process_time_ns()
    for handle in handles[WARM:]:
        await turns([handle])
    spent = time.process_time_ns() - start
    for handle in handles:
        await handle.dispose()
    await root.settle()
    return spent / (AT_ONCE - WARM) / 1000


async def created(root: Container, name: str) -> list[AgentHandle]:
    options = AgentOptions(provider="openai", model="tools-3-100")
    create = root[Agents].create
    return [await create(session_id=f"{name}-{n}", agent_options=options) for n in range(AT_ONCE)]


async def turns(handles: list[AgentHandle]) -> None:
    """Let all these agents run a turn."""
    for handle in handles:
        handle.agent.send("hello")
    for handle in handles:
        await handle.agent.when_idle()
        assert len(handle.agent.session.derive_messages()[-1].text.split()) == 100


def megabytes() -> float:
    """Return the memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(anyio.run({"one": one, "many": many}[sys.argv[1]], sys.argv[2])))
