"""The questions that wait, and what the log keeps of them."""

from collections.abc import Mapping
from typing import Final

from terret_agents import Agents, Inquiries, InquiryEnd, InquiryLog, QuestionAnswer, timestamp
from terret_sessions import declare_event_type

from ._items import BlankAnswerError, QuestionItem

QUESTIONS: Final = InquiryLog("question", "question/asked", "question/answered")

# Plain JSON: a log that another version wrote has to load.
declare_event_type(QUESTIONS.asked, ignorable=True)
declare_event_type(QUESTIONS.ended, ignorable=True)


class Desk(Inquiries[QuestionItem, QuestionAnswer]):
    """Asks questions, one after the other."""

    def log_asked(self, item: QuestionItem) -> None:
        data = {
            "id": item.id,
            "callId": item.call_id,
            "question": item.question,
            "options": None if item.options is None else list(item.options),
            "agent": item.agent.name,
            "expiresAt": timestamp(item.expires_at),
        }
        self.log.log_asked(self.ctx[Agents], item.agent, _present(data), inside=item.inside)

    def log_ended(self, item: QuestionItem, end: InquiryEnd, reply: QuestionAnswer | None) -> None:
        answer = {"answer": reply.text, "by": reply.by} if reply is not None else {}
        data = {"id": item.id, "outcome": end, **answer}
        self.log.log_ended(self.ctx[Agents], item.agent, _present(data))

    async def vet(self, item: QuestionItem, reply: QuestionAnswer) -> None:
        """Raises for an answer of another kind, and for one that says nothing."""
        if not isinstance(reply, QuestionAnswer):
            raise TypeError(f"{reply!r} is no QuestionAnswer")
        if not reply.text.strip():
            raise BlankAnswerError(item.id)


def _present(data: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in data.items() if value is not None}
