"""The answer to one request while it streams in."""

from contextlib import aclosing

import anyio.lowlevel

from terret_agents import TurnAgent
from terret_llm import (
    BlockAssembler,
    Chunk,
    Finish,
    GenerateOptions,
    Llm,
    Message,
    PreparedCall,
    create_assistant_message,
)
from terret_sessions import AssistantChunk, AssistantMessage, SourceCollector


class Answer:
    """Logs the chunks of one attempt and, in the end, the message they make."""

    __slots__ = ("_agent", "_assembler", "_seqs", "_step", "_turn", "request")

    def __init__(self, agent: TurnAgent, request: GenerateOptions) -> None:
        self.request = request
        self._agent = agent
        self._turn, self._step = agent.turn, agent.step
        self._assembler = BlockAssembler()
        self._seqs = SourceCollector()

    @property
    def finish(self) -> Finish:
        return self._assembler.finish

    async def receive(self, call: PreparedCall | None) -> None:
        """Reads the answer to its end, logs each chunk, and closes the stream however that ends.

        Without a prepared call the request goes through `Llm.stream`.
        """
        start = self._agent.ctx[Llm].stream if call is None else call.stream
        async with aclosing(start(self.request)) as chunks:
            async for chunk in chunks:
                self.add(chunk)
                if self._agent.cause is not None:
                    await anyio.lowlevel.checkpoint()

    def add(self, chunk: Chunk) -> None:
        payload = AssistantChunk(self._turn, self._step, chunk)
        self._seqs.add(self._agent.session.append("assistant/chunk", payload).seq)
        self._assembler.push(chunk)

    def assembled(self) -> Message:
        """Returns the complete answer."""
        blocks, replay_state = self._assembler.blocks(), self._assembler.replay_state
        request = self.request
        return create_assistant_message(
            blocks, request.provider, request.model, replay_state=replay_state
        )

    def log(self, message: Message, *, interrupted: bool = False) -> None:
        """Logs the message that cites the chunks of this attempt."""
        usage, sources = self._assembler.usage, self._seqs.sources()
        payload = AssistantMessage(self._turn, self._step, message, usage, interrupted)
        session = self._agent.session
        session.append("assistant/message", payload, surface_op="append", sources=sources)

    def keep_interrupted(self) -> None:
        """Logs what a person saw of an answer that was cut off, if that is anything."""
        blocks = self._assembler.interrupted_blocks()
        if blocks:
            request = self.request
            message = create_assistant_message(blocks, request.provider, request.model)
            self.log(message, interrupted=True)
