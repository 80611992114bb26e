from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from uuid import uuid4

from terret_llm._blocks import ReasoningBlock, TextBlock
from terret_llm._chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    UsageChunk,
)
from terret_llm._outcomes import Finish, LlmFailure
from terret_llm.wire import ProviderErrors, parse_json

from ._details import ReasoningDetails
from ._markup import is_leaked_call
from ._think import ThinkSplitter
from ._tool_calls import ToolCalls
from ._usage import usage_of

_KINDS = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "length": "max-tokens",
    "max_tokens": "max-tokens",
    "model_length": "max-tokens",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
}
_FAILURES = {
    "error": "SERVER",
    "insufficient_system_resource": "SERVER",
    "malformed_function_call": "SERVER",
}
_NO_STATE: Mapping[str, object] = {}


def new_call_id() -> str:
    """An id for a tool call to which the server gave none, or one that it gave before."""
    return f"call_{uuid4().hex}"


class ChatDecoder:
    """Turns the JSON payloads of one chat-completions answer into chunks.

    A stream is complete with `[DONE]` or with a finish reason. Without both it ends with an error:
    EMPTY_RESPONSE if nothing came, else STREAM_CLOSED. An error inside the stream beats its finish.
    A text that ends with a tool call in the markup of the model's template, so that nothing was
    called, finishes as `leaked-tool-call`. `is_used` tells whether an earlier call has an id; the
    ids of this answer are then others.
    """

    def __init__(
        self,
        *,
        errors: ProviderErrors | None = None,
        inline_think: bool = False,
        new_call_id: Callable[[], str] = new_call_id,
        is_used: Callable[[str], bool] = lambda id: False,
    ) -> None:
        self._errors = ProviderErrors() if errors is None else errors
        self._splitter = ThinkSplitter() if inline_think else None
        self._indexes = 0
        self._calls = ToolCalls(self._new_index, new_call_id, is_used)
        self._details = ReasoningDetails()
        self._open: Literal["", "text", "reasoning"] = ""
        self._index = 0
        self._pieces: list[str] = []
        self._last_text = ""
        self._usage: Mapping[str, object] | None = None
        self._reason: str | None = None
        self._begun = False
        self.finished = False

    @property
    def answered(self) -> bool:
        """Whether the model has said why it stopped; what may still come is usage."""
        return self._reason is not None

    def push(self, data: bytes, event: str = "") -> list[Chunk]:
        """Take the data of the next event and return its chunks; none after the finish."""
        if self.finished:
            return []
        if not data.startswith(b"{"):
            data = data.strip()
            if not data:
                return []
            if data == b"[DONE]":
                return self.complete()
        try:
            payload = parse_json(data)
        except ValueError:
            return self.fail(self._errors.malformed("an event that is no JSON", data))
        if not isinstance(payload, dict):
            return self.fail(self._errors.malformed("an event that is no object", data))
        self._begun = True
        return self._take(payload, event)

    def push_whole(self, data: bytes) -> list[Chunk]:
        """Take a whole answer, not streamed, and return all its chunks."""
        try:
            payload = parse_json(data)
        except ValueError:
            return self.fail(self._errors.malformed("no JSON", data))
        if isinstance(payload, list):
            payload = payload[0] if payload else None
        if not isinstance(payload, dict) or not (payload.get("choices") or payload.get("error")):
            return self.fail(self._errors.malformed("no chat completion", data))
        return [*self._take(payload, ""), *self.complete()]

    def fail(self, failure: LlmFailure) -> list[Chunk]:
        """The answer ends here: the usage so far and the failure; nothing if it is finished."""
        return [] if self.finished else self._finish(Finish.error(failure), [])

    def complete(self) -> list[Chunk]:
        """The answer is whole: end its blocks, then usage and finish."""
        if self.finished:
            return []
        if self._reason in _FAILURES:
            text = f"{self._errors.where} stopped with {self._reason!r}"
            return self.fail(LlmFailure(text, _FAILURES[self._reason]))
        out: list[Chunk] = []
        if self._splitter is not None:
            self._split(self._splitter.close(), out)
        self._end_block(out)
        kind = self._kind()
        if not self._indexes and kind == "stop":
            text = f"{self._errors.where} ended the answer without any content"
            return self.fail(LlmFailure(text, "EMPTY_RESPONSE"))
        if kind == "stop" and is_leaked_call(self._last_text):
            kind = "leaked-tool-call"
        finish = Finish(kind, None, self._replay_state())
        return self._finish(finish, [*out, *self._calls.ends()])

    def close(self) -> list[Chunk]:
        """The body has ended; the rest of the chunks, nothing if the answer is finished already."""
        if self.finished:
            return []
        if self.answered:
            return self.complete()
        if self._begun:
            text = f"{self._errors.where} closed the stream in the middle of the answer"
            return self.fail(LlmFailure(text, "STREAM_CLOSED"))
        text = f"{self._errors.where} closed the stream without an answer"
        return self.fail(LlmFailure(text, "EMPTY_RESPONSE"))

    def _take(self, payload: dict[str, object], event: str) -> list[Chunk]:
        error = payload.get("error") or (payload if event == "error" else None)
        usage = payload.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        out: list[Chunk] = []
        choices = payload.get("choices")
        choice = choices[0] if choices and isinstance(choices, list) else None
        if isinstance(choice, dict) and not choice.get("index"):
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, out)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                self._reason = reason.lower()
            error = error or choice.get("error")
        return [*out, *self.fail(self._errors.of_error(error))] if error else out

    def _delta(self, delta: dict[str, object], out: list[Chunk]) -> None:
        content = delta.get("content")
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            self._text("reasoning", reasoning, out)
        if content:
            if isinstance(content, str):
                self._content(content, out)
            elif isinstance(content, list):
                self._parts(content, out)
        details = delta.get("reasoning_details")
        if details:
            self._details.take(details)
        calls = delta.get("tool_calls")
        if calls:
            self._end_block(out)
            self._calls.take(calls, out)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._text("text", refusal, out)
        function = delta.get("function_call")
        if function:
            self._end_block(out)
            self._calls.take([{"index": 0, "function": function}], out)

    def _content(self, text: str, out: list[Chunk]) -> None:
        if self._splitter is None:
            self._text("text", text, out)
        else:
            self._split(self._splitter.feed(text), out)

    def _split(self, pieces: Iterator[tuple[bool, str]], out: list[Chunk]) -> None:
        for is_reasoning, text in pieces:
            self._text("reasoning" if is_reasoning else "text", text, out)

    def _parts(self, parts: list[object], out: list[Chunk]) -> None:
        for part in parts:
            if not isinstance(part, dict):
                continue
            text, thinking = part.get("text"), part.get("thinking")
            if part.get("type") == "text" and text and isinstance(text, str):
                self._content(text, out)
            elif thinking and isinstance(thinking, str):
                self._text("reasoning", thinking, out)
            elif isinstance(thinking, list):
                for each in thinking:
                    piece = each.get("text") if isinstance(each, dict) else None
                    if piece and isinstance(piece, str):
                        self._text("reasoning", piece, out)

    def _text(self, kind: Literal["text", "reasoning"], text: str, out: list[Chunk]) -> None:
        if self._open != kind:
            self._end_block(out)
            self._open, self._index = kind, self._new_index()
            out.append(BlockStart(self._index, kind))
        self._pieces.append(text)
        delta = TextDelta if kind == "text" else ReasoningDelta
        out.append(delta(self._index, text))

    def _end_block(self, out: list[Chunk]) -> None:
        if not self._open:
            return
        text = "".join(self._pieces)
        if self._open == "text":
            self._last_text = text
        block = TextBlock(text) if self._open == "text" else ReasoningBlock(text)
        out.append(BlockEnd(self._index, block))
        self._pieces.clear()
        self._open = ""

    def _kind(self) -> str:
        """The finish kind; servers say `stop` with calls, and `tool_calls` without any."""
        reason = self._reason or "stop"
        kind = _KINDS.get(reason, reason.replace("_", "-"))
        if kind in ("stop", "tool-calls"):
            return "tool-calls" if self._calls else "stop"
        return kind

    def _replay_state(self) -> Mapping[str, object] | None:
        """What the server wants back with this answer."""
        calls = dict(self._calls.returned())
        if not calls and not self._details.items:
            return None
        response = {"reasoning_details": self._details.items} if self._details.items else {}
        blocks = [calls.get(index, _NO_STATE) for index in range(self._indexes)]
        return {"response": response, "blocks": blocks}

    def _finish(self, finish: Finish, chunks: list[Chunk]) -> list[Chunk]:
        self.finished = True
        usage = None if self._usage is None else usage_of(self._usage)
        if usage is not None:
            chunks.append(UsageChunk(usage))
        chunks.append(FinishChunk(finish))
        return chunks

    def _new_index(self) -> int:
        self._indexes += 1
        return self._indexes - 1
