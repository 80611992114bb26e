"""`terret run`: one turn, then the end."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TextIO

import anyio

from terret_agents import USER, Agent, Agents
from terret_context import Container, TerretError
from terret_llm import LOADING
from terret_loader import Loader
from terret_sessions import EVENT

from ._boot import Boot
from ._errors import FAILED, CommandError
from ._interrupts import Interrupts, interrupts
from ._printing import say
from ._screen import Screen


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked of `terret run`, as it was typed."""

    words: Sequence[str] = ()
    text: str | None = None
    agent: str | None = None
    session: str | None = None
    rows: bool = False

    def check(self) -> None:
        """Refuses what is no message whatever agents there are."""
        if self.text is None and not self.words:
            raise CommandError('there is no message; give one, as in: terret run "What is 2 + 2?"')

    def split(self, names: Sequence[str]) -> tuple[str, str]:
        """Returns the agent and the message. Raises `CommandError` if one of them is unclear."""
        words = list(self.words)
        name = self.agent
        more = len(words) > 1 or self.text is not None
        if name is None and words and words[0] in names and more:
            name = words.pop(0)
        if self.text is not None and words:
            raise CommandError("give the message either as words or with --input, not both")
        if self.text is not None:
            message = self.text
        elif words == ["-"]:
            message = sys.stdin.read()
        else:
            message = " ".join(words)
        if not message.strip():
            raise CommandError("the message is blank")
        return choose(name, names), message


def choose(name: str | None, names: Sequence[str]) -> str:
    """Returns the agent of that name, or the default one: the only one, else `main`."""
    known = ", ".join(names) or "none; add one under agent-loop in harness.yml"
    if name is not None:
        if name not in names:
            raise CommandError(f'there is no agent "{name}" (known: {known})')
        return name
    if len(names) == 1:
        return names[0]
    if "main" in names:
        return "main"
    raise CommandError(f"say which agent with --agent NAME (known: {known})")


async def run_turn(boot: Boot, request: Request) -> int:
    """Sends one message, prints the answer, and returns the exit code."""
    request.check()
    out = sys.stdout
    # Whatever a plugin or tool prints, nothing but the answer reaches standard output.
    with redirect_stdout(sys.stderr), anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(start_agents=request.session is None) as root,
        ):
            name, message = request.split(agent_names(root))
            agent = await start_agent(root, name, request.session)
            return await _one_turn(boot, request, root, agent, message, signals, out)
    return signals.code or FAILED


async def _one_turn(
    boot: Boot,
    request: Request,
    root: Container,
    agent: Agent,
    message: str,
    signals: Interrupts,
    out: TextIO,
) -> int:
    stop = lambda: agent.cancel(USER)  # noqa: E731 - both uses read better with a name
    screen = Screen(
        agent.id, out, stream=out.isatty(), rows=request.rows, quiet=boot.quiet, broken=stop
    )
    signals.stop = stop
    root.on(EVENT, screen)
    root.on(LOADING, screen.loading)
    if request.session is None:
        screen.note(f"session {agent.id}")
    try:
        agent.send(message)
    except ValueError as error:
        raise CommandError(f"the message cannot be sent: {error}") from None
    await agent.when_idle()
    code = signals.code or screen.code
    if code and not screen.is_broken:
        say(f'go on with: terret run --session {agent.id} "..."')
    return code


def agent_names(root: Container) -> tuple[str, ...]:
    """Returns the names of the agents in the configuration."""
    agents = root.get(Agents)
    names = () if agents is None else agents.names()
    if not names and root[Loader].faults:
        raise CommandError("no agent can run: `terret explain` says why")
    if agents is None:
        raise CommandError("no agent can run: `agents` is not among the plugins")
    return names


async def start_agent(root: Container, name: str, session: str | None) -> Agent:
    """Returns the agent that started with the harness, or starts it on a given session."""
    agents = root[Agents]
    agent = agents.named(name) if session is None else None
    if agent is not None:
        return agent
    try:
        return await agents.start(name, session_id=session)
    except (TerretError, ValueError) as error:
        raise CommandError(f'the agent "{name}" cannot start: {error}') from error
