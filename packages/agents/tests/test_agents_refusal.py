"""An agent that is refused leaves nothing, also not on the disk."""

import pytest

from terret_agents import CREATED, AgentCreated, Agents
from terret_sessions import SESSION_PERSISTENCE, TurnStart
from terret_testing import MemorySessions, running_harness


async def test_the_seeded_session_of_a_refused_agent_is_not_stored() -> None:
    """M-118: The session was announced before somebody refused its agent."""
    kept = MemorySessions()
    async with running_harness(plugins=[kept.plugin]) as h:

        def refuse(created: AgentCreated) -> None:
            raise PermissionError("not this one")

        h.session.append("turn/start", TurnStart(1))
        seed = tuple(h.session.events)
        veto = h.ctx.on(CREATED, refuse)
        with pytest.raises(PermissionError):
            await h.ctx[Agents].create(session_id="refused", seed=seed)
        veto.close()
        await h.ctx.settle()
        persistence = h.ctx.get(SESSION_PERSISTENCE)
        assert persistence is not None

    assert "refused" not in kept.rows
