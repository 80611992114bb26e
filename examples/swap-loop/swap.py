"""Starts a conversation on one loop, edits harness.yml, and goes on with the other one."""

import tempfile
from pathlib import Path
from shutil import copytree

import anyio

from terret_agents import Agents
from terret_context import Context
from terret_loader import Loader, open_harness


async def ask(ctx: Context, question: str) -> str:
    """Sends a prompt to the agent, whichever loop drives it, and returns its answer."""
    agent = ctx[Agents].named("main")
    assert agent is not None
    agent.send(question)
    await agent.when_idle()
    return agent.session.derive_messages()[-1].text


async def main(folder: Path) -> None:
    """Holds the conversation and prints it."""
    document = folder / "harness.yml"
    async with open_harness(document) as root:
        await root.settle()
        print("agent-loop:  ", await ask(root, "How much is 17 + 25?"))
        document.write_text(document.read_text().replace("agent-loop:", "loop-codeact:"))
        faults = await root[Loader].reconcile()
        assert not faults, faults
        await root.settle()
        print("loop-codeact:", await ask(root, "How much is 20 + 22?"))
        agent = root[Agents].named("main")
        assert agent is not None
        print(f"session {agent.id}, {agent.session.last_turn} turns")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        anyio.run(main, Path(copytree(Path(__file__).parent, Path(place) / "swap-loop")))
