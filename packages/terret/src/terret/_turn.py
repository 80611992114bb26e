"""`terret run`: one turn, then the end."""

from collections.abc import Callable
from functools import partial
from typing import TextIO

import anyio

from terret_agents import CLAIMED, USER, Agent, InputClaimed
from terret_context import Container
from terret_llm import LOADING, Message, create_user_message
from terret_sessions import EVENT, Session, SessionEvent, TurnEnd, TurnEndReason, TurnStart

from ._agents import agent_names, continuation, open_agent, raw_id
from ._asking import people
from ._boot import Boot
from ._errors import FAILED, CommandError
from ._interrupts import Interrupts, interrupts
from ._output import Output, reserved_stdout
from ._printing import say
from ._request import Request
from ._rows import Rows
from ._screen import Screen, exit_code
from ._services import LOOP_EVENTS


async def run_turn(boot: Boot, request: Request) -> int:
    """Sends one message, prints the answer, and returns the exit code."""
    request.check()
    encoding = "utf-8" if request.rows else None
    with reserved_stdout(encoding) as stream, anyio.CancelScope() as everything:
        async with (
            interrupts(everything.cancel) as signals,
            boot.open(start_agents=request.address.session is None) as root,
        ):
            names = agent_names(root)
            name, text = await request.read(names)
            if request.rows and root.get(LOOP_EVENTS) is None:
                raise CommandError("--json needs the plugin loop-events in harness.yml")
            with people(root, request.on_ask):
                agent = await open_agent(root, name, request.address)
                code = await _run(boot, request, root, agent, _message(text), stream, signals)
            if code:
                say(f"go on with: {continuation(agent, names, request.address.tenant)}")
            return code
    return signals.code or FAILED


async def _run(
    boot: Boot,
    request: Request,
    root: Container,
    agent: Agent,
    message: Message,
    stream: TextIO,
    signals: Interrupts,
) -> int:
    signals.stop = partial(agent.cancel, USER)
    out = Output(stream, broken=signals.stop)
    screen = Screen(out, stream=out.is_terminal, quiet=boot.quiet or request.rows)
    events = root.get(LOOP_EVENTS) if request.rows else None
    rows = None if events is None else Rows(events, agent, out)
    turn = Turn(agent, message, screen.show if rows is None else rows.show)
    root.on(EVENT, turn.follow)
    root.on(CLAIMED, turn.claimed)
    root.on(LOADING, screen.loading)
    if request.address.session is None:
        screen.note(f"session {raw_id(agent)}")
    await turn.run()
    if turn.reason is None:
        say("error: the message was taken back before its turn")
        if rows is not None:
            rows.show_unsent("aborted: user")
    return signals.code or (FAILED if out.is_broken else exit_code(turn.reason))


def _message(text: str) -> Message:
    try:
        return create_user_message(text)
    except ValueError as error:
        raise CommandError(f"the message cannot be sent: {error}") from None


class Turn:
    """The turn that takes a message: shown from its start on, and how it ended.

    A conversation may have older messages waiting, each with a turn of its own before this one.
    """

    def __init__(
        self, agent: Agent, message: Message, show: Callable[[SessionEvent], object]
    ) -> None:
        self.reason: TurnEndReason | None = None
        self._agent = agent
        self._message = message
        self._show = show
        self._is_here = False
        self._held: list[SessionEvent] = []

    async def run(self) -> None:
        """Sends the message and returns when its turn is over, or it was taken back."""
        self._agent.send(self._message)
        await self._agent.when_idle()
        for _ in self._agent.inbox.next_turn:  # the turn of an older one failed, the rest waits
            if not self._agent.inbox.remove(self._message.id):
                return
            self._agent.send(self._message)
            await self._agent.when_idle()

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
        self._show(event)

    def claimed(self, claim: InputClaimed) -> None:
        """Takes the open turn for the one, if it takes the message."""
        if claim.message.id == self._message.id:
            self._is_here = True
            for event in self._held:
                self._show(event)
