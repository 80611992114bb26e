"""Which agent and which conversation a command is for."""

import shlex
from collections.abc import Sequence

from terret_agents import Agent, Agents
from terret_context import Container, TerretError
from terret_loader import Loader
from terret_sessions import SessionKey

from ._errors import CommandError
from ._options import Address
from ._services import AGENT_FOLDERS

DEFAULT_TENANT = "default"


def agent_names(root: Container) -> tuple[str, ...]:
    """Returns the names of all agents: those of the configuration, and those in folders."""
    agents = root.get(Agents)
    names = () if agents is None else agents.names()
    if not names and root[Loader].faults:
        raise CommandError("no agent can run: `terret explain` says why")
    if agents is None:
        raise CommandError("no agent can run: `agents` is not among the plugins")
    return names


def choose(name: str | None, names: Sequence[str]) -> str:
    """Returns the agent of that name, or the default one: the only one, else `main`."""
    known = ", ".join(names) or "none; `terret add-agent NAME` adds one"
    if name is not None:
        if name not in names:
            raise CommandError(f'there is no agent "{name}" (known: {known})')
        return name
    if len(names) == 1:
        return names[0]
    if "main" in names:
        return "main"
    raise CommandError(f"say which agent with --agent NAME (known: {known})")


async def open_agent(root: Container, name: str, address: Address, *, quiet: bool = False) -> Agent:
    """Returns the agent of a conversation: the running one, from its log, or a new one.

    Waits as long as another process has the session, and says so unless `quiet`. Raises
    `CommandError`.
    """
    folders = root.get(AGENT_FOLDERS)
    is_folder = folders is not None and name in folders.names
    if address.tenant is not None and not is_folder:
        raise CommandError(f'the agent "{name}" has no tenants: --tenant is for agents in folders')
    try:
        if folders is not None and is_folder:
            tenant = address.tenant or DEFAULT_TENANT
            return await folders.open(name, address.session, tenant=tenant)
        agents = root[Agents]
        running = agents.named(name) if address.session is None else None
        return running or await agents.start(name, session_id=address.session)
    except (TerretError, ValueError) as error:
        text = str(error)
        whose = "" if f'"{name}"' in text else f'the agent "{name}" cannot start: '
        raise CommandError(f"{whose}{text}") from error


def raw_id(agent: Agent) -> str:
    """Returns what people call the session of an agent."""
    try:
        key = SessionKey.parse(agent.id)
    except ValueError:
        return agent.id
    return key.raw_id if key.agent == agent.name else agent.id


def continuation(agent: Agent, name: str, names: Sequence[str], tenant: str | None) -> str:
    """Returns the command line that goes on with a conversation of the agent of that name."""
    words = ["terret", "run"]
    if len(names) > 1 and name != "main":
        words += ["--agent", name]
    if tenant is not None:
        words += ["--tenant", tenant]
    return shlex.join([*words, "--session", raw_id(agent)]) + ' "..."'
