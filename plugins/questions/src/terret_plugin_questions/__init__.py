"""A tool with which the model asks people questions."""

from ._items import BlankAnswerError, QuestionAnswer, QuestionItem
from ._service import NO_ANSWER, Questions, QuestionsConfig

__all__ = [
    "NO_ANSWER",
    "BlankAnswerError",
    "QuestionAnswer",
    "QuestionItem",
    "Questions",
    "QuestionsConfig",
]
