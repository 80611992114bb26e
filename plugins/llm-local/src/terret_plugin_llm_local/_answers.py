import json
from collections.abc import Collection

from terret_llm import GenerateOptions

from ._prompts import few_shot
from ._routing import is_follow_up
from ._turns import Called, Turn
from ._words import bare

_EXAMPLES = (
    (
        "Request: What is the population of Chile?\nResult: 19600000",
        "The population of Chile is 19600000.",
    ),
    (
        "Request: Delete the file tmp/log.csv.\nResult: deleted",
        "The file tmp/log.csv was deleted.",
    ),
    ("Request: How much is 90 minus 45?\nResult: 45", "90 minus 45 is 45."),
)
_LONGEST_SENTENCE = 120
_LONGEST_QUOTE = 2000
_MOST_WORDS = 40
_ARTICLES = ("The", "the", "of")
_VERBS = ("is", "was", "are", "equals", "result is", "answer is")


def fits_a_sentence(called: Called) -> bool:
    """Whether the model may put this result into words; else it is quoted."""
    text = called.text
    return (
        bool(text) and not called.is_error and "\n" not in text and len(text) <= _LONGEST_SENTENCE
    )


def answer_prompt(turn: Turn, called: Called) -> GenerateOptions:
    """The request to answer with the result of the call."""
    asked = f"Request: {turn.request}\nResult: {called.text}"
    return few_shot("Answer the request with the result.", _EXAMPLES, asked, max_tokens=256)


def answer_grammar(turn: Turn, called: Called) -> str:
    """A grammar for sentences that end with the result and state nothing else.

    Before the result come words of the request in their order, and a few that join them.
    """
    stop = "" if called.text[-1] in ".!?" else ' "."'
    result = f"{_literal(called.text)}{stop}"
    if is_follow_up(turn.request):  # its words make no sentence: "plus 100 is 142"
        return f'root ::= "The result is " {result}'
    words = [bare(word) for word in turn.request.split()[:_MOST_WORDS]]
    choices = [_alternatives({word, word[:1].upper() + word[1:]}) for word in words if word]
    steps = [f"join {choice}" for choice in [*choices, _alternatives(_VERBS)]]
    return f"root ::= {' '.join(steps)} {result}\njoin ::= {_alternatives(_ARTICLES)}"


def quotation(called: Called) -> str:
    """The answer that shows a result as it is: errors, long texts, texts of several lines."""
    if called.is_error:
        return f"{called.tool} failed: {called.text.removeprefix('Error: ')}"
    if not called.text:
        return f"{called.tool} has run and returned nothing."
    cut = called.text[:_LONGEST_QUOTE]
    return f"{called.tool} returned:\n\n{cut}{'…' if cut != called.text else ''}"


def _alternatives(words: Collection[str]) -> str:
    return f"({' | '.join(_literal(f'{word} ') for word in sorted(words))})?"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
