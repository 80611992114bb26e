"""`terret chat`: a conversation, message by message."""

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import anyio
from anyio.lowlevel import checkpoint

from terret_agents import USER, Agent
from terret_context import Container
from terret_llm import LOADING, Message
from terret_loader import ENTRY
from terret_sessions import EVENT, Session, SessionEvent

from ._agents import agent_names, choose, open_agent, raw_id
from ._asking import OnAsk, people
from ._boot import Boot
from ._dialogue import Dialogue
from ._errors import DONE, FAILED, INTERRUPTED, CommandError, InterruptedLineError
from ._interrupts import Interrupts, interrupts
from ._options import Address
from ._output import Output, reserved_stdout
from ._printing import counted, end_typed_line, say, say_change
from ._screen import Screen
from ._transcript import cut_items

_HELP = "Ctrl-C or /cancel stops a turn, /session names it, Ctrl-D or /quit ends"
_TERMINATED = 143


async def run_chat(boot: Boot, address: Address, on_ask: OnAsk | None) -> int:
    """Reads messages, streams the answers; returns the exit code."""
    with anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(start_agents=address.session is None, watch=True) as root,
        ):
            name = choose(address.agent, agent_names(root))
            dialogue = Dialogue()
            own_stdout = nullcontext(sys.stdout) if dialogue.edits else reserved_stdout()
            with own_stdout as stream, people(root, on_ask, dialogue) as asks:
                agent = await open_agent(root, name, address)
                address = replace(address, agent=name, session=raw_id(agent))
                chat = Chat(root, address, agent, dialogue, signals, quiet=boot.quiet)
                out = Output(stream, broken=chat.end)
                return await chat.run(Screen(out, stream=True, quiet=boot.quiet, asks=asks))
    return signals.code or FAILED


class Chat:
    """The conversation, its commands, and what Ctrl-C means."""

    def __init__(
        self,
        root: Container,
        address: Address,
        agent: Agent,
        dialogue: Dialogue,
        signals: Interrupts,
        *,
        quiet: bool,
    ) -> None:
        self._root = root
        self._address = address
        self._agent = agent
        self._dialogue = dialogue
        self._signals = signals
        self._quiet = quiet
        self._interrupted = 0
        self._code: int | None = None
        self._over = anyio.CancelScope()

    async def run(self, screen: Screen) -> int:
        """Converses until the input ends or the person does; returns the exit code."""
        id = self._agent.id

        def show(session: Session, event: SessionEvent) -> None:
            if session.id == id:
                screen.show(event)

        self._root.on(EVENT, show)
        self._root.on(LOADING, screen.loading)
        self._dialogue.remember(_messages(self._agent.session))
        if not self._quiet:
            self._root.on(ENTRY, say_change)
            self._greet()
        self._signals.forgiving = True
        self._signals.stop = self._interrupt
        with self._over:
            while (line := await self._next()) is not None and line.strip() != "/quit":
                await self._take(line.strip())
            return DONE
        return self._code or INTERRUPTED

    def end(self, code: int = FAILED) -> None:
        """Ends the chat as soon as the turn has ended, which is cancelled."""
        self._code = code
        if self._agent.status == "running":
            self._agent.cancel(USER)
        else:
            self._over.cancel()

    def _greet(self) -> None:
        session = self._agent.session
        turns = f", {counted(session.last_turn, 'turn')} so far" if session.last_turn else ""
        say(f"session {raw_id(self._agent)}{turns}")
        for item in cut_items(session.events):
            say(f"nobody had decided about this when the program ended: {item}")
        if waiting := self._agent.inbox.next_turn:
            say(f"{counted(len(waiting), 'message')} from before, answered with the next one")
        say(_HELP)

    async def _next(self) -> str | None:
        while True:
            try:
                line = await self._dialogue.next()
            except InterruptedLineError:
                self._interrupt()
                await checkpoint()
            else:
                self._interrupted = 0
                return line

    async def _take(self, line: str) -> None:
        if line == "/session":
            say(raw_id(self._agent))
        elif line.startswith("/") and len(line.split()) == 1:
            say(_HELP)
        elif line:
            try:
                (await self._present()).send(line)
            except (ValueError, CommandError) as error:
                say(f"not sent: {error}")
            else:
                await self._turn()

    async def _present(self) -> Agent:
        """Returns the agent; if it was taken down meanwhile, the one after it."""
        if self._agent.disposed:
            await self._root.settle()
            name = choose(self._address.agent, agent_names(self._root))
            self._agent = await open_agent(self._root, name, self._address)
        return self._agent

    async def _turn(self) -> None:
        """Waits for the end of the turn, and of those that wait behind it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._dialogue.read_ahead, self._command)
            await self._agent.when_idle()
            group.cancel_scope.cancel()
        if self._code is not None:
            self._over.cancel()
            await checkpoint()
        self._interrupted = 0

    def _command(self, line: str) -> bool:
        """Does what a line says that comes during a turn, unless it is an answer or a message."""
        if line == "/cancel":
            self._agent.cancel(USER)
        return line == "/cancel" or (not line and not self._dialogue.is_asking)

    def _interrupt(self) -> None:
        self._interrupted += 1
        if self._signals.code == _TERMINATED:
            self.end(_TERMINATED)
        elif self._agent.status != "running" and self._interrupted > 1:
            self._over.cancel()
        elif self._agent.status != "running":
            say("Ctrl-C again ends the chat")
        elif self._interrupted == 1:
            end_typed_line()
            self._agent.cancel(USER)
        elif self._interrupted == 2:
            end_typed_line()
            say("still stopping; Ctrl-C again ends the program at once")
        else:
            os._exit(INTERRUPTED)


def _messages(session: Session) -> Iterator[str]:
    """Yields what the person has written."""
    for event in session.events:
        if isinstance(event.view, Message) and event.view.source.kind == "user":
            yield event.view.text
