"""`terret chat`: a conversation in the terminal, line by line."""

import sys
import threading

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token
from anyio.streams.memory import MemoryObjectReceiveStream

from terret_agents import STATUS, USER, Agent, StatusChange
from terret_context import Container
from terret_llm import LOADING
from terret_loader import ENTRY, EntryChange
from terret_sessions import EVENT

from ._boot import Boot
from ._errors import DONE, INTERRUPTED, CommandError
from ._interrupts import Interrupts, interrupts
from ._printing import say
from ._screen import Screen
from ._turn import agent_names, choose, start_agent

_HELP = "/cancel stops the turn, /session shows the session, /quit or Ctrl-D ends"


async def run_chat(boot: Boot, name: str | None, session: str | None) -> int:
    """Reads lines, sends them, streams the answers; returns the exit code."""
    with anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(start_agents=session is None, watch=True) as root,
        ):
            name = choose(name, agent_names(root))
            agent = await start_agent(root, name, session)
            screen = Screen(
                agent.id, sys.stdout, stream=True, quiet=boot.quiet, broken=everything.cancel
            )
            root.on(EVENT, screen)
            root.on(LOADING, screen.loading)
            say(f"session {agent.id}\n{_HELP}")
            return await Chat(root, name, agent, signals, quiet=boot.quiet).run()
    return INTERRUPTED


class Chat:
    """The prompt, the commands, and what Ctrl-C means."""

    def __init__(
        self, root: Container, name: str, agent: Agent, signals: Interrupts, *, quiet: bool
    ) -> None:
        self._root = root
        self._name = name
        self._agent = agent
        self._signals = signals
        self._quiet = quiet
        self._warned = False
        self._over = anyio.CancelScope()

    async def run(self) -> int:
        """Converses until the input ends or the person does."""
        self._signals.forgiving = True
        self._signals.stop = self._interrupt
        self._root.on(STATUS, self._status)
        self._root.on(ENTRY, self._changed)
        self._prompt()
        with self._over, _lines() as lines:
            async for line in lines:
                self._warned = False
                if line.strip() == "/quit":
                    return DONE
                await self._take(line.strip())
            await self._agent.when_idle()
            return DONE
        return INTERRUPTED

    async def _take(self, line: str) -> None:
        if line == "/cancel":
            self._agent.cancel(USER)
        elif line == "/session":
            say(self._agent.id)
            self._prompt()
        elif line.startswith("/") or not line:
            say(_HELP)
            self._prompt()
        else:
            try:
                (await self._present()).send(line)
            except (ValueError, CommandError) as error:
                say(f"not sent: {error}")
                self._prompt()

    async def _present(self) -> Agent:
        """Returns the agent; if a change of the configuration ended it, the one after it."""
        if self._agent.disposed:
            await self._root.settle()
            choose(self._name, agent_names(self._root))
            self._agent = await start_agent(self._root, self._name, self._agent.id)
        return self._agent

    def _changed(self, change: EntryChange) -> None:
        """Says which entry of the configuration follows a change of the file."""
        entry = change.entry or change.previous
        if entry is None or self._quiet:
            return
        done = "removed" if change.entry is None else "changed" if change.previous else "added"
        say(f"{entry.path}: {done}")
        self._prompt()

    def _interrupt(self) -> None:
        if self._agent.status == "running":
            self._agent.cancel(USER)
        elif self._warned:
            self._over.cancel()
        else:
            self._warned = True
            say("\nCtrl-C again ends the chat")
            self._prompt()

    def _status(self, change: StatusChange) -> None:
        if change.agent is self._agent and change.status == "idle":
            self._prompt()

    def _prompt(self) -> None:
        if sys.stdin.isatty():
            sys.stdout.write("> ")
            sys.stdout.flush()


def _lines() -> MemoryObjectReceiveStream[str]:
    """Reads standard input in a daemon thread, so that a pending read never keeps the process."""
    send, receive = anyio.create_memory_object_stream[str](0)
    token = current_token()

    def read() -> None:
        try:
            for line in sys.stdin:
                from_thread.run(send.send, line, token=token)
            from_thread.run_sync(send.close, token=token)
        except (anyio.BrokenResourceError, RuntimeError):
            return  # the chat is over

    threading.Thread(target=read, name="terret chat input", daemon=True).start()
    return receive
