import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import cast
from uuid import uuid4

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    LlmError,
    LlmFailure,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolSchema,
    Usage,
    UsageChunk,
)

from ._answers import answer_grammar, answer_prompt, fits_a_sentence, quotation
from ._arguments import argument_prompt, argument_schema, determined, without
from ._chat import LocalChat
from ._prompts import spoken
from ._routing import NONE, candidates, route_prompt, route_schema
from ._schemas import JsonSchema, properties_of
from ._turns import Turn, read_turn

_PENALTY = 0.4  # without it the smallest models repeat themselves to the limit


async def guided(chat: LocalChat, request: GenerateOptions) -> Chunks:
    """The answer of a model that can call tools, made in steps a very small model can take.

    A turn has at most one call: its result is answered, never followed by a second call.
    """
    turn = read_turn(request.messages)
    if turn.called is None:
        guide = _Guide(chat, turn)
        call = await guide.call(request.tools)
        if call is not None:
            return _replay(_call_chunks(call), Finish.tool_calls(), guide.spent)
        talk = replace(request, messages=spoken(request.messages), tools=())
        return _charged(chat.stream(talk, frequency_penalty=_PENALTY), guide.spent)
    if fits_a_sentence(turn.called):
        grammar = answer_grammar(turn, turn.called)
        return chat.stream(answer_prompt(turn, turn.called), grammar=grammar)
    return _replay(_text_chunks(quotation(turn.called)), Finish.stop(), Usage(0, 0))


class _Guide:
    """Finds the call a turn needs, with one or two constrained requests to the model."""

    def __init__(self, chat: LocalChat, turn: Turn) -> None:
        self._chat = chat
        self._turn = turn
        self.spent = Usage(0, 0)

    async def call(self, tools: Sequence[ToolSchema]) -> ToolCallBlock | None:
        meant, sure = candidates(tools, self._turn)
        schemas: dict[str, JsonSchema] = {}
        for tool in meant:
            schema = argument_schema(tool, self._turn)
            if schema is not None:
                schemas[tool.name] = schema
        name = await self._route([tool for tool in meant if tool.name in schemas], sure=sure)
        if name == NONE:
            return None
        tool = next(tool for tool in meant if tool.name == name)
        return ToolCallBlock(_new_id(), name, await self._arguments(tool, schemas[name]))

    async def _route(self, tools: Sequence[ToolSchema], *, sure: bool) -> str:
        if not tools:
            return NONE
        if sure and len(tools) == 1:
            return tools[0].name
        schema = route_schema(tools, sure=sure)
        return str(await self._ask(route_prompt(tools, self._turn), schema))

    async def _arguments(self, tool: ToolSchema, schema: JsonSchema) -> str:
        """JSON text. The model is asked for nothing that the request has settled."""
        arguments = determined(schema)
        open_schema = without(schema, arguments)
        if open_schema["properties"]:
            answer = await self._ask(argument_prompt(tool, self._turn), open_schema)
            arguments |= cast("dict[str, object]", answer)
        ordered = {name: arguments[name] for name in properties_of(schema)}
        return json.dumps(ordered, ensure_ascii=False)

    async def _ask(self, prompt: GenerateOptions, schema: JsonSchema) -> object:
        text, usage = await self._chat.complete(prompt, json_schema=schema)
        self.spent = _sum(self.spent, usage)
        try:
            return json.loads(text)
        except ValueError:
            failure = LlmFailure(
                f"the local model did not end its JSON: {text}", "MALFORMED_RESPONSE"
            )
            raise LlmError(failure) from None


async def _charged(chunks: Chunks, spent: Usage) -> Chunks:
    """`chunks`, with what was spent before them in their usage."""
    async with aclosing(chunks):
        async for chunk in chunks:
            yield UsageChunk(_sum(chunk.usage, spent)) if isinstance(chunk, UsageChunk) else chunk


async def _replay(chunks: Sequence[Chunk], finish: Finish, spent: Usage) -> Chunks:
    for chunk in (*chunks, UsageChunk(spent), FinishChunk(finish)):
        yield chunk


def _call_chunks(call: ToolCallBlock) -> Sequence[Chunk]:
    delta = ToolCallDelta(0, call.id, call.name, call.arguments)
    return BlockStart(0, "tool-call"), delta, BlockEnd(0, call)


def _text_chunks(text: str) -> Sequence[Chunk]:
    return BlockStart(0, "text"), TextDelta(0, text), BlockEnd(0, TextBlock(text))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        (one.cache_read_tokens or 0) + (other.cache_read_tokens or 0),
    )


def _new_id() -> str:
    return f"call_{uuid4().hex}"
