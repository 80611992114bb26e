"""Tokens of a request, estimated from the bytes of its parts."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from terret_agents import StepProposal
from terret_llm import Message, ToolSchema
from terret_sessions import Session, TokenMeter

_BYTES_PER_TOKEN = 4


def tokens_of(value: object) -> int:
    """Estimates a JSON value: one token for four bytes."""
    return -(-len(to_json(value)) // _BYTES_PER_TOKEN)


def messages_tokens(messages: Sequence[Message]) -> int:
    return sum(tokens_of(message.to_wire()) for message in messages)


class Estimate:
    """Estimates the next request of a session; history is estimated once for each message."""

    def __init__(self) -> None:
        self._known = WeakKeyDictionary[Session, tuple[int, int, int]]()

    def of(
        self, proposal: StepProposal, tools: Sequence[ToolSchema], meter: TokenMeter | None
    ) -> int:
        """Returns the tokens of the request that a step proposes, its new input included.

        A meter knows the history better, as soon as a provider has counted it; what stands in
        front of it is estimated here, since it may be new.
        """
        session = proposal.agent.session
        front = tokens_of(proposal.system) if proposal.system else 0
        front += sum(tokens_of(each.to_wire()) for each in tools)
        front += messages_tokens(proposal.prefix)
        batch = messages_tokens(proposal.messages)
        if meter is None:
            return front + self._history(session) + batch
        measured = meter.measure(session)
        known = measured.system + measured.tools + measured.prefix
        return measured.total - known + front + batch

    def _history(self, session: Session) -> int:
        messages = session.derive_messages()
        known, done, tokens = self._known.get(session, (session.rewrites, 0, 0))
        if known != session.rewrites:
            done = tokens = 0
        tokens += messages_tokens(messages[done:])
        self._known[session] = (session.rewrites, len(messages), tokens)
        return tokens
