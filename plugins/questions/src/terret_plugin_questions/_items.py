"""What people are asked by a model."""

from dataclasses import dataclass
from datetime import datetime

from terret_agents import Agent
from terret_llm import HarnessError


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionItem:
    """A question that waits for an answer.

    Attributes:
        id: names the item; it is not the id of the call.
        agent: whose model asks.
        call_id: the call of `system_ask_user`.
        inside: the call in whose body that call is made, if it is in one.
        question: the question.
        options: answers to choose from, if there are any; another text is an answer too.
        requested_at: when it was asked.
        expires_at: when the model is told that nobody answers.
    """

    id: str
    agent: Agent
    call_id: str
    inside: str | None
    question: str
    options: tuple[str, ...] | None
    requested_at: datetime
    expires_at: datetime


class BlankAnswerError(HarnessError):
    """An answer says nothing; the question stays open."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        super().__init__(f"the answer to {item_id} is blank: write some text", "BAD_ANSWER")
