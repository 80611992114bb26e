"""The end of the service: what runs may finish, what is left is stopped, nothing is lost."""

import anyio

from terret_agents import Agent, hook
from terret_sessions import Sessions

from ._site import Site
from ._status import Status


async def drain(site: Site, seconds: float) -> None:
    """Waits for the running turns, stops what is left after so long, and ends the streams."""
    site.status = Status.DRAINING
    with anyio.move_on_after(seconds):
        while running := _running(site):
            await running[0].when_idle()
    left = _running(site)
    for agent in left:
        site.courier.let_wait(agent)
        agent.cancel(hook("shutdown"), keep_inbox=True)
    for agent in left:
        await agent.when_idle()
    for agent in site.agents.list():
        if agent.session.live:
            await _flush(site, agent)
    end(site)


def end(site: Site) -> None:
    """Lets everybody go who still waits for something."""
    site.status = Status.DRAINED
    site.conversations.end()
    for source in tuple(site.sources):
        source.close()
    for scope in site.arriving:
        scope.cancel()


async def _flush(site: Site, agent: Agent) -> None:
    try:
        await site.ctx[Sessions].flush(agent.session)
    except Exception as error:
        site.ctx.report(error, label=f"flush of {agent.id}")


def _running(site: Site) -> list[Agent]:
    return [agent for agent in site.agents.roots() if agent.status == "running"]
