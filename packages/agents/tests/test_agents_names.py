import pytest

from terret_agents import Agent, AgentNameTakenError, Agents, NoSuchAgentError
from terret_context import Container, Context


class Offered:
    """Remembers with which sessions it was started; there is nothing to start in these tests."""

    def __init__(self) -> None:
        self.sessions: list[str | None] = []

    async def __call__(self, session_id: str | None) -> Agent:
        self.sessions.append(session_id)
        raise LookupError("started")


async def test_offered_agents_are_known_and_started_in_their_own_way() -> None:
    async with Container() as root:
        await root.plugin(Agents).ready()
        start = Offered()
        offer = root[Agents].offer("shop", start, place="agents/shop/agent.yml")
        assert root[Agents].names() == ("shop",)
        assert root[Agents].entries() == ()
        for session in (None, "mine"):
            with pytest.raises(LookupError, match="started"):
                await root[Agents].start("shop", session_id=session)
        assert start.sessions == [None, "mine"]
        offer.close()
        assert root[Agents].names() == ()
        with pytest.raises(NoSuchAgentError):
            await root[Agents].start("shop")


async def test_offers_and_reservations_go_with_the_fiber_that_made_them() -> None:
    async with Container() as root:
        await root.plugin(Agents).ready()

        def two_agents(ctx: Context) -> None:
            ctx[Agents].offer("a", Offered(), place="here")
            ctx[Agents].reserve(["b"], place="there")

        fiber = root.inject((Agents,), two_agents)
        await fiber.ready()
        with pytest.raises(AgentNameTakenError):
            root[Agents].reserve(["b"], place="elsewhere")
        await fiber.dispose()
        root[Agents].reserve(["a", "b"], place="elsewhere")
        assert root[Agents].names() == ()


async def test_a_name_given_in_two_places_is_refused_naming_both() -> None:
    """E-562: One name in the list and in a folder names both places."""
    async with Container() as root:
        await root.plugin(Agents).ready()
        root[Agents].reserve(["main", "shop"], place="the agents of harness.yml#agent-loop")
        with pytest.raises(AgentNameTakenError) as caught:
            root[Agents].offer("shop", Offered(), place="agents/shop/agent.yml")
        assert caught.value.name == "shop"
        assert "the agents of harness.yml#agent-loop" in str(caught.value)
        assert "agents/shop/agent.yml" in str(caught.value)
        with pytest.raises(AgentNameTakenError):
            root[Agents].reserve(["new", "main"], place="another loop")
        root[Agents].reserve(["new"], place="another loop")  # all or none
