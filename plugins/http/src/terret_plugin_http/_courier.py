"""Brings messages to agents and sees to it that each gets a turn, whether or not anybody waits."""

from weakref import WeakKeyDictionary

from terret_agents import (
    CLAIMED,
    DISCARDED,
    STATUS,
    Agent,
    InputClaimed,
    InputDiscarded,
    StatusChange,
    TurnAgent,
)
from terret_context import Context
from terret_llm import Message


class Courier:
    """Sends messages, and sends those again that a turn left behind."""

    def __init__(self, ctx: Context) -> None:
        self._owed = WeakKeyDictionary[Agent, set[str]]()
        self._resending = False
        ctx.on(CLAIMED, self._claimed)
        ctx.on(DISCARDED, self._discarded)
        ctx.on(STATUS, self._status)

    def send(self, agent: Agent, message: Message, *, steer: bool = False) -> None:
        """Puts a message into the inbox; with `steer` it joins the turn that runs."""
        owed = self._owed.setdefault(agent, set())
        owed.add(message.id)
        try:
            agent.send(message, "next-step" if steer and agent.status == "running" else "next-turn")
        except Exception:
            owed.discard(message.id)
            raise

    def wake(self, agent: Agent, message_id: str) -> None:
        """Lets an agent run a message that waits in its inbox, after a restart for example."""
        self._owed.setdefault(agent, set()).add(message_id)
        if agent.status == "idle":
            self._rouse(agent)

    def let_wait(self, agent: Agent) -> None:
        """Leaves what is in the inbox there until somebody else wakes the agent."""
        self._owed.pop(agent, None)

    def _claimed(self, claimed: InputClaimed) -> None:
        self._owed.get(claimed.agent, set()).discard(claimed.message.id)

    def _discarded(self, discarded: InputDiscarded) -> None:
        """Gives a message its own turn that joined one which then took nothing more."""
        agent, message = discarded.agent, discarded.message
        owed = self._owed.get(agent, set())
        if self._resending or message.id not in owed:
            return
        cancelled = not isinstance(agent, TurnAgent) or agent.cause is not None
        if cancelled or agent.status == "idle" or agent.disposed:
            owed.discard(message.id)
        else:
            agent.send(message)

    def _status(self, change: StatusChange) -> None:
        """Wakes an agent that stopped, after a failure, although messages wait for it."""
        if change.status == "idle" and not change.agent.disposed:
            self._rouse(change.agent)

    def _rouse(self, agent: Agent) -> None:
        """Sends one of the messages again that wait: the last, since it goes to the end."""
        owed = self._owed.get(agent, set())
        prompts = agent.inbox.next_turn
        steering = [message for message in agent.inbox.next_step if message.id in owed]
        if not steering and all(message.id not in owed for message in prompts):
            return
        last = (prompts or steering)[-1]
        self._resending = True
        try:
            agent.inbox.remove(last.id)
            agent.send(last)
        finally:
            self._resending = False
