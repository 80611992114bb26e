from collections import Counter
from collections.abc import Callable, Mapping
from typing import final
from uuid import uuid4

from terret_llm import (
    Block,
    Chunk,
    Finish,
    FinishChunk,
    LlmFailure,
    Message,
    ToolCallBlock,
    UnknownBlock,
    Usage,
    UsageChunk,
    create_assistant_message,
)
from terret_llm.wire import ProviderErrors, parse_json

from ._blocks import OpenBlock, OpenCall, OpenForeign, OpenText, OpenThinking

_KINDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "refusal": "content-filter",
    "pause_turn": "pause",
}
_RANDOM_LENGTH = 20
_PROMPT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_COUNTS = (*_PROMPT_COUNTS, "output_tokens", "thinking_tokens")


@final
class MessagesDecoder:
    """Turns the events of an answer of the Messages wire into chunks.

    Only `message_stop` ends an answer; without it the end of the body is STREAM_CLOSED, or
    EMPTY_RESPONSE if nothing came. A turn that the model paused goes on with `resume()`, up to
    `continuations` times; then it finishes as `pause`. What is not known is counted in `ignored`.
    """

    def __init__(
        self,
        *,
        errors: ProviderErrors | None = None,
        continuations: int = 0,
        is_used: Callable[[str], bool] = lambda id: False,
    ) -> None:
        self._errors = ProviderErrors() if errors is None else errors
        self._continuations = continuations
        self._is_used = is_used
        self._open: dict[object, OpenBlock] = {}
        self._blocks: list[tuple[Block, Mapping[str, object]]] = []
        self._indexes = 0
        self._counts: Counter[str] = Counter()
        self._earlier: Counter[str] = Counter()
        self._reason: str | None = None
        self._begun = False
        self.ignored: Counter[str] = Counter()
        self.paused = False
        self.finished = False

    @property
    def answered(self) -> bool:
        """Whether the answer is complete, so that a broken connection does no harm."""
        return self.finished

    def push(self, data: bytes, event: str = "") -> list[Chunk]:
        """Take the data of the next event and return its chunks; none after the finish."""
        if self.finished or not data.strip():
            return []
        try:
            payload = parse_json(data)
        except ValueError:
            return self.fail(self._errors.malformed("an event that is no JSON", data))
        if not isinstance(payload, dict):
            return self.fail(self._errors.malformed("an event that is no object", data))
        return self._take(payload, payload.get("type") or event)

    def push_whole(self, data: bytes) -> list[Chunk]:
        """Take a whole answer, not streamed, and return all its chunks."""
        try:
            payload = parse_json(data)
        except ValueError:
            return self.fail(self._errors.malformed("no JSON", data))
        if isinstance(payload, dict) and payload.get("error"):
            return self.fail(self._errors.of_error(payload))
        content = payload.get("content") if isinstance(payload, dict) else None
        if not isinstance(payload, dict) or not isinstance(content, list):
            return self.fail(self._errors.malformed("no message", data))
        out: list[Chunk] = []
        for index, block in enumerate(content):
            self._start({"index": index, "content_block": block}, out)
        self._count(payload.get("usage"))
        self._stop_reason(payload)
        return [*out, *self._complete()]

    def close(self) -> list[Chunk]:
        """The body has ended; the failure, unless the answer is finished already."""
        if self.finished:
            return []
        if self._begun:
            text = f"{self._errors.where} closed the stream in the middle of the answer"
            return self.fail(LlmFailure(text, "STREAM_CLOSED"))
        text = f"{self._errors.where} closed the stream without an answer"
        return self.fail(LlmFailure(text, "EMPTY_RESPONSE"))

    def fail(self, failure: LlmFailure) -> list[Chunk]:
        """The answer ends here: the usage so far and the failure; nothing if it is finished."""
        return [] if self.finished else self._finish(Finish.error(failure))

    def resume(self, provider: str, model: str) -> Message | None:
        """What the model said before it paused, if it did; the next body goes on behind that."""
        if not self.paused:
            return None
        self.paused = self.finished = self._begun = False
        self._continuations -= 1
        self._earlier += self._counts
        self._counts = Counter()
        self._reason = None
        content = [block for block, _ in self._blocks]
        return create_assistant_message(content, provider, model, replay_state=self._state())

    def _take(self, payload: dict[str, object], kind: object) -> list[Chunk]:
        out: list[Chunk] = []
        if kind == "content_block_delta":
            self._delta(payload, out)
        elif kind == "content_block_start":
            self._start(payload, out)
        elif kind == "content_block_stop":
            self._end(payload.get("index"), out)
        elif kind == "message_start":
            message = payload.get("message")
            self._begun = True
            self._count(message.get("usage") if isinstance(message, dict) else None)
        elif kind == "message_delta":
            self._stop_reason(payload.get("delta"))
            self._count(payload.get("usage"))
        elif kind == "message_stop":
            return self._complete()
        elif kind == "error" or payload.get("error"):
            return self.fail(self._errors.of_error(payload))
        elif kind != "ping":
            self.ignored[str(kind)] += 1
        return out

    def _delta(self, payload: dict[str, object], out: list[Chunk]) -> None:
        block, delta = self._open.get(payload.get("index")), payload.get("delta")
        if block is None or not isinstance(delta, dict):
            self.ignored["delta"] += 1
            return
        kind = delta.get("type")
        if not block.delta(kind, delta, out):
            self.ignored[str(kind)] += 1

    def _start(self, payload: dict[str, object], out: list[Chunk]) -> None:
        wire, key = payload.get("content_block"), payload.get("index")
        self._begun = True
        if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
            self.ignored["block"] += 1
            return
        self._end(key, out)
        self._open[key] = self._opened(wire, out)
        self._indexes += 1

    def _opened(self, wire: dict[str, object], out: list[Chunk]) -> OpenBlock:
        kind = wire["type"]
        if kind == "text":
            return OpenText(self._indexes, wire, out)
        if kind == "thinking":
            return OpenThinking(self._indexes, wire, out)
        if kind == "tool_use":
            return OpenCall(self._indexes, wire, out, id=self._call_id(wire.get("id")))
        return OpenForeign(self._indexes, wire, out)

    def _call_id(self, id: object) -> str:
        own = {block.id for block, _ in self._blocks if isinstance(block, ToolCallBlock)}
        if not id or not isinstance(id, str) or id in own:
            return f"toolu_{uuid4().hex}"
        used = len(id) < _RANDOM_LENGTH and self._is_used(id)
        return f"toolu_{uuid4().hex}" if used else id

    def _end(self, key: object, out: list[Chunk]) -> None:
        open_block = self._open.pop(key, None)
        block = None if open_block is None else open_block.end(out)
        if block is not None and open_block is not None:
            self._blocks.append((block, open_block.state))

    def _stop_reason(self, delta: object) -> None:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str):
            self._reason = reason

    def _count(self, usage: object) -> None:
        """Take counts of this answer so far; they replace earlier ones, nulls do not."""
        if not isinstance(usage, dict):
            return
        details = usage.get("output_tokens_details")
        counts = {**details, **usage} if isinstance(details, dict) else usage
        for name in _COUNTS:
            value = counts.get(name)
            if isinstance(value, int) and value >= 0:
                self._counts[name] = value

    def _complete(self) -> list[Chunk]:
        out: list[Chunk] = []
        for key in list(self._open):
            self._end(key, out)
        kind = self._kind()
        if kind == "pause" and self._continuations > 0:
            self.paused = self.finished = True
            return out
        return [*out, *self._finish(Finish(kind, None, self._state()))]

    def _kind(self) -> str:
        reason = self._reason or "end_turn"
        kind = _KINDS.get(reason, reason.replace("_", "-"))
        if kind in ("stop", "tool-calls"):
            calls = any(isinstance(block, ToolCallBlock) for block, _ in self._blocks)
            return "tool-calls" if calls else "stop"
        return kind

    def _state(self) -> dict[str, object] | None:
        """What the provider wants back with this answer, by block; None if that is nothing."""
        blocks = self._blocks
        if not any(state or isinstance(block, UnknownBlock) for block, state in blocks):
            return None
        return {"response": {}, "blocks": [dict(state) for _, state in blocks]}

    def _finish(self, finish: Finish) -> list[Chunk]:
        self.finished = True
        counts = self._earlier + self._counts
        if not any(name in counts for name in _PROMPT_COUNTS):
            return [FinishChunk(finish)]  # half a count would be taken for a small conversation
        usage = Usage(
            counts["input_tokens"],
            counts["output_tokens"],
            self._known(counts, "cache_read_input_tokens"),
            self._known(counts, "cache_creation_input_tokens"),
            self._known(counts, "thinking_tokens"),
        )
        return [UsageChunk(usage), FinishChunk(finish)]

    def _known(self, counts: Counter[str], name: str) -> int | None:
        return counts[name] if name in self._counts or name in self._earlier else None
