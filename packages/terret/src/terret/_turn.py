"""`terret run`: one turn, then the end."""

import sys
from functools import partial
from typing import Protocol

import anyio

from terret_agents import CLAIMED, USER, Agent, InputClaimed
from terret_context import Container
from terret_llm import LOADING, Message, create_user_message
from terret_sessions import EVENT, Session, SessionEvent, TurnEnd, TurnEndReason, TurnStart

from ._agents import agent_names, continuation, open_agent, raw_id
from ._asking import people
from ._boot import Boot
from ._errors import FAILED, CommandError
from ._interrupts import interrupts
from ._output import Output, reserved_stdout
from ._printing import end_typed_line, say
from ._request import Request
from ._rows import Rows
from ._screen import Screen, exit_code
from ._services import LOOP_EVENTS, LoopEvents


async def run_turn(boot: Boot, request: Request) -> int:
    """Sends one message, prints the answer, and returns the exit code."""
    request.check()
    encoding = "utf-8" if request.rows else None
    with reserved_stdout(encoding) as stdout, anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(start_agents=request.address.session is None) as root,
        ):
            names = agent_names(root)
            name, text = await request.read(names)
            message = _message(text)
            events = _loop_events(root) if request.rows else None
            with people(root, request.on_ask) as asks:
                agent = await open_agent(root, name, request.address)
                signals.stop = partial(_interrupt, agent)
                out = Output(stdout, broken=partial(agent.cancel, USER))
                if events is None:
                    view: View = _screen(boot, request, root, agent, out, asks=asks)
                else:
                    view = Rows(events, agent, out)
                turn = Turn(agent, message, view)
                await turn.run(root)
            code = signals.code or (FAILED if out.is_broken else exit_code(turn.reason))
            if code and not out.is_broken:
                again = continuation(agent, name, names, request.address.tenant)
                say(f"go on with: {again}")
            return code
    return signals.code or FAILED


def _screen(
    boot: Boot, request: Request, root: Container, agent: Agent, out: Output, *, asks: bool
) -> Screen:
    # Where text beside calls could be taken for the answer, it does not stream.
    stream = out.is_terminal and sys.stderr.isatty()
    screen = Screen(out, stream=stream, quiet=boot.quiet, asks=asks)
    root.on(LOADING, screen.loading)
    if request.address.session is None:
        screen.note(f"session {raw_id(agent)}")
    if agent.inbox.next_turn:
        screen.note("messages from before have their turns first")
    return screen


def _interrupt(agent: Agent) -> None:
    end_typed_line()
    agent.cancel(USER)


def _message(text: str) -> Message:
    try:
        return create_user_message(text)
    except ValueError as error:
        raise CommandError(f"the message cannot be sent: {error}") from None


def _loop_events(root: Container) -> LoopEvents:
    events = root.get(LOOP_EVENTS)
    if events is None:
        raise CommandError("--json needs the plugin loop-events in harness.yml")
    return events


class View(Protocol):
    """What shows a turn."""

    def show(self, event: SessionEvent) -> None: ...
    def show_unsent(self) -> None: ...


class Turn:
    """The turn that takes a message: shown from its start on, and how it ended.

    A conversation may have older messages waiting, each with a turn of its own before this one.
    """

    def __init__(self, agent: Agent, message: Message, view: View) -> None:
        self.reason: TurnEndReason | None = None
        self._agent = agent
        self._message = message
        self._view = view
        self._is_here = False
        self._held: list[SessionEvent] = []

    async def run(self, root: Container) -> None:
        """Sends the message and returns when its turn is over, or it was taken back."""
        root.on(EVENT, self.follow)
        root.on(CLAIMED, self.claimed)
        self._agent.send(self._message)
        await self._agent.when_idle()
        for _ in self._agent.inbox.next_turn:  # the turn of an older one failed, the rest waits
            if not self._agent.inbox.remove(self._message.id):
                break
            self._agent.send(self._message)
            await self._agent.when_idle()
        if self.reason is None:
            self._view.show_unsent()

    def follow(self, session: Session, event: SessionEvent) -> None:
        """Shows an event of the turn; holds it as long as the turn may be another one."""
        if session is not self._agent.session or self.reason is not None:
            return
        if isinstance(event.view, TurnStart):
            self._held.clear()
        if not self._is_here:
            self._held.append(event)
            return
        if isinstance(event.view, TurnEnd):
            self.reason = event.view.reason
        self._view.show(event)

    def claimed(self, claim: InputClaimed) -> None:
        """Takes the open turn for the one, if it takes the message."""
        if claim.message.id == self._message.id:
            self._is_here = True
            for event in self._held:
                self._view.show(event)
