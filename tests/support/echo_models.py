"""An adapter that echoes, and a container in which adapters are registered."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from terret_context import Container, Context, plugin
from terret_llm import (
    BlockEnd,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmAdapter,
    ModelInfo,
    TextBlock,
    TextDelta,
    create_user_message,
)

STOP = FinishChunk(Finish.stop())


class Echo(LlmAdapter):
    """Repeats the last message; what else a test needs stands in its fields."""

    def __init__(self, **info: Any) -> None:
        self.info = info
        self.requests: list[GenerateOptions] = []
        self.closed = False

    async def stream(self, request: GenerateOptions) -> Chunks:
        self.requests.append(request)
        try:
            for index, word in enumerate(request.messages[-1].text.split()):
                yield TextDelta(index, word)
                yield BlockEnd(index, TextBlock(word))
            yield STOP
        finally:
            self.closed = True

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        return ModelInfo(**{"id": model, **self.info})


@asynccontextmanager
async def running(**adapters: LlmAdapter) -> AsyncIterator[tuple[Context, Llm]]:
    """A container with the service, and the adapters registered by a plugin of their own."""

    @plugin(inject=(Llm,))
    def models(ctx: Context) -> None:
        for provider, adapter in adapters.items():
            ctx[Llm].register_adapter(provider, adapter)

    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(models).ready()
        yield root, root[Llm]


def request(text: str = "hi there", provider: str = "echo", **fields: Any) -> GenerateOptions:
    messages = fields.pop("messages", (create_user_message(text),))
    return GenerateOptions(provider=provider, model="m", messages=messages, **fields)


async def collected(chunks: Chunks) -> list[Chunk]:
    async with aclosing(chunks):
        return [chunk async for chunk in chunks]
