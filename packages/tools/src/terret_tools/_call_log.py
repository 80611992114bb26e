"""How loops write tool calls to the log."""

from terret_agents import TurnAgent
from terret_llm import create_tool_result_message
from terret_sessions import Sources, ToolCall, ToolResult, repair_closers

from ._outcome import ToolOutcome


class CallLog:
    """Logs the calls of one step with their results, and what they defer.

    Attributes:
        concluded: Whether a logged success ends the turn.
        results: The seqs of the logged results, in order.
    """

    def __init__(self, agent: TurnAgent) -> None:
        self.concluded = False
        self.results: list[int] = []
        self._agent = agent

    def call(self, call_id: str, name: str, arguments: str) -> int:
        """Logs a call and returns its seq; `arguments` is the text of the model."""
        agent = self._agent
        call = ToolCall(agent.turn, agent.step, call_id, name, arguments)
        return agent.session.append("tool/call", call).seq

    def result(self, call_id: str, outcome: ToolOutcome, *, call_seq: int) -> None:
        """Logs the result of a logged call and puts its contexts into the inbox."""
        agent = self._agent
        message = create_tool_result_message(call_id, outcome.content, is_error=outcome.is_error)
        error = None if outcome.error is None else outcome.error.info
        payload = ToolResult(agent.turn, agent.step, message, error)
        sources = Sources([call_seq])
        event = agent.session.append("tool/result", payload, surface_op="append", sources=sources)
        self.results.append(event.seq)
        self.concluded |= outcome.concludes_turn and not outcome.is_error
        for context in outcome.additional_contexts:
            agent.inbox.append("next-step", context)

    def answer_open_calls(self) -> None:
        """Gives every call without a result the one that a repair of the log would give it."""
        session = self._agent.session
        for closer in repair_closers(session.events):
            if closer.type == "tool/result":
                event = session.append(
                    closer.type, closer.view, surface_op=closer.surface_op, sources=closer.sources
                )
                self.results.append(event.seq)
