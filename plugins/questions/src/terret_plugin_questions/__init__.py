"""A tool with which the model asks people questions."""

from terret_agents import QuestionAnswer

from ._items import BlankAnswerError, QuestionItem
from ._service import NO_ANSWER, Questions, QuestionsConfig

__all__ = [
    "NO_ANSWER",
    "BlankAnswerError",
    "QuestionAnswer",
    "QuestionItem",
    "Questions",
    "QuestionsConfig",
]
