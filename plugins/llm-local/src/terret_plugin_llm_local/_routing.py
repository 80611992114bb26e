import json
import re
from collections.abc import Sequence

from terret_llm import GenerateOptions, ToolSchema

from ._prompts import few_shot
from ._schemas import JsonSchema, properties_of
from ._turns import Turn
from ._words import stems

NONE = "none"

_POLITE = re.compile(r"\b(?:please|need|want|would like|(?:can|could|will|would) you)\b")
_FILLERS = re.compile(r"(?:(?:and|but|so|well|now|then|ok|okay|yes|no|oh)\W+)*", re.IGNORECASE)
_REMARK = re.compile(
    r"(?:i|i'm|we|you|he|she|it|they|my|our|your|his|her|its|their|the|this|that|these|those"
    r"|there|let me|what an?)\b"
)
_FOLLOW_UP = re.compile(r"(?:and|then|now|what about|how about|plus|minus)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def candidates(tools: Sequence[ToolSchema], turn: Turn) -> tuple[list[ToolSchema], bool]:
    """The tools a request can mean, and whether one of them is meant for sure.

    This is a gate of words, because a very small model calls tools on small talk: a tool that is
    named is meant; else the request must ask for something in words of the tool; a follow-up
    without such words goes to the tool of the turn before.
    """
    named = [tool for tool in tools if _is_named(tool.name, turn.request)]
    if named:
        return named, True
    said = stems(_without_fillers(turn.request))
    meant = [tool for tool in tools if said & _keywords(tool)] if _asks(turn.request) else []
    if not meant and is_follow_up(turn.request):
        return [tool for tool in tools if turn.earlier and tool.name == turn.earlier.tool], True
    return meant, False


def route_prompt(tools: Sequence[ToolSchema], turn: Turn) -> GenerateOptions:
    """The request to name one of `tools`, or `none`."""
    instruction = f"Name the tool that fits the request. Answer {NONE} if no tool fits."
    examples = [("Hello, how are you?", json.dumps(NONE))]
    examples += [(_first_sentence(tool.description), json.dumps(tool.name)) for tool in tools]
    examples += [(f"Use the {tool.name} tool.", json.dumps(tool.name)) for tool in tools]
    return few_shot(instruction, examples, turn.request, max_tokens=64)


def route_schema(tools: Sequence[ToolSchema], *, sure: bool) -> JsonSchema:
    """The names the model can answer with."""
    return {"enum": [tool.name for tool in tools] + ([] if sure else [NONE])}


def is_follow_up(request: str) -> bool:
    """Whether the request goes on with the turn before, as in `And minus 2?`."""
    return _FOLLOW_UP.match(request) is not None


def _is_named(name: str, request: str) -> bool:
    escaped = re.escape(name)
    if re.search(rf"\b{escaped}\(|\b{escaped} tool\b|\btool {escaped}\b|`{escaped}`", request):
        return True
    return not name.isalpha() and re.search(rf"(?<!\w){escaped}(?!\w)", request) is not None


def _asks(request: str) -> bool:
    """Whether a person asks for something, rather than remarking on it."""
    text = request.strip().lower()
    if _POLITE.search(text):
        return True
    sentences = map(_without_fillers, _SENTENCE_END.split(text))
    return any(
        not each.startswith("why") and (each.endswith("?") or not _REMARK.match(each))
        for each in sentences
    )


def _without_fillers(text: str) -> str:
    """`text` without the words that only start it, as `now` does in `Now add 2 and 3.`"""
    return _FILLERS.sub("", text, count=1)


def _keywords(tool: ToolSchema) -> frozenset[str]:
    return stems(" ".join([tool.name, tool.description, *properties_of(tool.parameters)]))


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip())[0][:120]
