"""A loop is swapped under a live conversation by editing harness.yml, and nothing is lost."""

import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from shutil import copytree

import anyio
import pytest

from end_to_end import ROOT
from terret_agents import DISPOSED, Agent, Agents
from terret_context import Container, Next
from terret_llm import STREAM, Chunks, GenerateOptions
from terret_loader import Loader, open_harness
from terret_sessions import Aborted, Completed, TurnEnd, TurnStart

EXAMPLE = ROOT / "examples" / "swap-loop"
LOOPS = ["agent-loop", "loop-codeact"]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return Path(copytree(EXAMPLE, tmp_path / "swap-loop")) / "harness.yml"


def agent_of(root: Container) -> Agent:
    agent = root[Agents].named("main")
    assert agent is not None
    return agent


def rename(document: Path, old: str, new: str) -> None:
    text = document.read_text("utf-8")
    assert f"{old}:" in text
    document.write_text(text.replace(f"{old}:", f"{new}:"), "utf-8")


async def swap(root: Container, document: Path, old: str, new: str) -> None:
    rename(document, old, new)
    assert await root[Loader].reconcile() == ()
    await root.settle()


class Holding:
    """A listener that holds every answer until it is told to let go."""

    def __init__(self, root: Container) -> None:
        self.held = anyio.Event()
        self._listening = root.on(STREAM, self.listen)

    async def listen(self, request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        return self._hold(await call_next())

    async def _hold(self, chunks: Chunks) -> Chunks:
        async with aclosing(chunks):
            self.held.set()
            await anyio.Event().wait()
            async for chunk in chunks:
                yield chunk

    def end(self) -> None:
        self._listening.close()


@pytest.mark.parametrize("first", LOOPS)
async def test_a_conversation_goes_on_with_the_other_loop(document: Path, first: str) -> None:
    """With a turn that is live when the file changes, and prompts queued behind the swap."""
    [second] = [loop for loop in LOOPS if loop != first]
    rename(document, "agent-loop", first)
    async with open_harness(document) as root:
        await root.settle()
        old = agent_of(root)
        old.send("How much is 1 + 2?")
        await old.when_idle()
        holding = Holding(root)
        old.send("How much is 2 + 3?")
        await holding.held.wait()
        old.followup("How much is 3 + 4?")
        old.inject("Be brief.")
        await swap(root, document, first, second)
        holding.end()

        agent = agent_of(root)
        assert (old.disposed, agent is old, agent.id) == (True, False, "talk")
        kept = len(old.session.events)
        assert [e.data for e in agent.session.events[:kept]] == [e.data for e in old.session.events]
        assert [m.text for m in agent.inbox.next_turn] == ["How much is 3 + 4?"]
        assert [m.text for m in agent.inbox.next_step] == ["Be brief."]
        agent.send("How much is 4 + 5?")
        await agent.when_idle()

        events = agent.session.events
        ends = [e.view.reason for e in events if isinstance(e.view, TurnEnd)]
        assert ends == [Completed(), Aborted(DISPOSED), Completed(), Completed()]
        assert [e.view.turn for e in events if isinstance(e.view, TurnStart)] == [1, 2, 3, 4]
        said = [m.text for m in agent.session.derive_messages()]
        assert said.count("It is 3.") == said.count("It is 7.") == said.count("It is 9.") == 1
        prompts = [text for text in said if text.startswith(("How", "Be"))]
        assert [text[:15] for text in prompts] == [
            "How much is 1 +",
            "How much is 2 +",
            "Be brief.",
            "How much is 3 +",
            "How much is 4 +",
        ]


async def test_a_loop_can_be_swapped_there_and_back(document: Path) -> None:
    """Each time the same session, with all that was said before."""
    async with open_harness(document) as root:
        await root.settle()
        for number, (old, new) in enumerate([LOOPS, LOOPS[::-1], LOOPS], start=1):
            agent = agent_of(root)
            agent.send(f"How much is {number} + {number}?")
            await agent.when_idle()
            assert agent.session.derive_messages()[-1].text == f"It is {2 * number}."
            await swap(root, document, old, new)
        assert agent_of(root).session.last_turn == 3


def test_the_example_runs_as_its_page_says() -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLE / "swap.py")], capture_output=True, text=True, check=True
    )
    assert run.stdout in (EXAMPLE / "README.md").read_text("utf-8")
