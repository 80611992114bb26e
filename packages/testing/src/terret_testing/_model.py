"""A model that answers from a script."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

import anyio

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    GenerateOptions,
    LlmAdapter,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)

from ._script import Answer, Call, Fail, Part, Pause, Reply, Say, Think, as_reply, finish_of


class ScriptExhaustedError(AssertionError):
    """A model was asked more often than its script has answers."""

    def __init__(self, number: int, last: str) -> None:
        self.number = number
        super().__init__(
            f"the script has no answer to request {number}; its last message is {last!r}. "
            "Add a reply to script(...), or find out why the loop asks again"
        )


class ScriptedModel(LlmAdapter):
    """Answers each request with the next entry of its script, and records the requests.

    Attributes:
        requests: Every request, in order.
        exhausted: The error of the first request that had no answer, for the test to raise; the
            run itself sees it as a failed request.
        phrase: How replies are put for a loop that understands other words; as they are by default.
    """

    def __init__(self, *answers: Answer) -> None:
        self.phrase: Callable[[Reply], Reply] = lambda reply: reply
        self.requests: list[GenerateOptions] = []
        self.exhausted: ScriptExhaustedError | None = None
        self._answers = deque(answers)
        self._calls = 0
        self._reached: dict[str, anyio.Event] = {}
        self._released: dict[str, anyio.Event] = {}

    @property
    def remaining(self) -> int:
        """How many answers are left."""
        return len(self._answers)

    def add(self, *answers: Answer) -> None:
        """Makes the script longer."""
        self._answers.extend(answers)

    async def reached(self, name: str) -> None:
        """Waits until a stream has come to `pause(name)`."""
        await _event(self._reached, name).wait()

    def release(self, name: str) -> None:
        """Lets the stream that waits, or will wait, at `pause(name)` go on."""
        _event(self._released, name).set()

    async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        """Answers one request; raises `ScriptExhaustedError` if nothing is left."""
        self.requests.append(request)
        async with aclosing(self._play(self._next(request))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _play(self, reply: Reply) -> AsyncGenerator[Chunk, None]:
        reply = self.phrase(reply)
        for index, part in enumerate(reply.parts):
            if isinstance(part, Pause):
                _event(self._reached, part.name).set()
                await _event(self._released, part.name).wait()
            elif isinstance(part, Fail):
                yield FinishChunk(part.finish)
                return
            else:
                for chunk in self._chunks(index, part):
                    yield chunk
        if reply.usage is not None:
            yield UsageChunk(reply.usage)
        yield FinishChunk(reply.finish or finish_of(reply.parts))

    def _next(self, request: GenerateOptions) -> Reply:
        if not self._answers:
            last = request.messages[-1].text if request.messages else ""
            error = ScriptExhaustedError(len(self.requests), last)
            self.exhausted = self.exhausted or error
            raise error
        answer = self._answers.popleft()
        return as_reply(answer(request) if callable(answer) else answer)

    def _chunks(self, index: int, part: Part) -> Iterator[Chunk]:
        if isinstance(part, Call):
            self._calls += 1
            id = part.id or f"call-{self._calls}"
            yield BlockStart(index, "tool-call")
            yield ToolCallDelta(index, id, part.name, part.arguments)
            yield BlockEnd(index, ToolCallBlock(id, part.name, part.arguments))
        elif isinstance(part, Say):
            yield BlockStart(index, "text")
            yield from [TextDelta(index, piece) for piece in part.pieces]
            yield BlockEnd(index, TextBlock("".join(part.pieces)))
        elif isinstance(part, Think):
            yield BlockStart(index, "reasoning")
            yield from [ReasoningDelta(index, piece) for piece in part.pieces]
            yield BlockEnd(index, ReasoningBlock("".join(part.pieces)))


def script(*answers: Answer) -> ScriptedModel:
    """Makes a model that answers its first request with the first entry, and so on.

    An entry is one part (`say`, `call`, `fail`), a `reply` of several, or a function of the
    request that returns one of these.
    """
    return ScriptedModel(*answers)


def _event(events: dict[str, anyio.Event], name: str) -> anyio.Event:
    if name not in events:
        events[name] = anyio.Event()
    return events[name]
