"""The order of entries in harness.yml decides nothing about what is stored."""

from pathlib import Path

import anyio
import pytest

from durable_checks import BACKENDS, LAYOUT, load_events, write_harness
from terret_agents import DISPOSED, Agents
from terret_loader import open_harness
from terret_sessions import EVENT, Aborted, last_turn

STORAGE = "  BACKEND: {PLACE, windowMs: 3, leaseWaitSeconds: 0}\n"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["first", "in the middle", "last"])
async def test_the_last_events_of_a_turn_that_is_shut_down_are_stored(
    tmp_path: Path, backend: str, place: str
) -> None:
    """M-118: Agents end before their storage closes, wherever its entry stands."""
    rest = LAYOUT.replace(STORAGE, "")
    layouts = {
        "first": rest.replace("plugins:\n", "plugins:\n" + STORAGE),
        "in the middle": LAYOUT,
        "last": rest + STORAGE,
    }
    write_harness(tmp_path, backend, layouts[place])
    sets = ["agents.autostart=false", "durable.seed=1"]
    async with open_harness(tmp_path / "harness.yml", sets=sets) as root:
        agent = await root[Agents].start("main", session_id="talk")
        streaming = anyio.Event()
        root.on(EVENT, lambda _, e: streaming.set() if e.type == "assistant/chunk" else None)
        agent.followup("go")
        await streaming.wait()
    session = agent.session

    assert await load_events(tmp_path, backend) == session.events
    turn = last_turn(reversed(session.events))
    assert turn is not None
    assert turn.end == Aborted(DISPOSED)
