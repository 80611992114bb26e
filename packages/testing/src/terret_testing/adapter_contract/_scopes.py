from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import anyio

from terret_llm import Chunk, Chunks

_RUNTIME = ("terret_llm._service", "terret_llm._streaming")


async def check_no_scope_is_left(stream: Chunks) -> list[Chunk]:
    """Runs a stream to its end and returns its chunks, if no chunk leaves a scope open.

    Raises AssertionError with file and line of the `yield` that stands inside a cancel scope or a
    task group: the scope would lie around whatever the consumer does next. It closes the stream.
    """
    chunks: list[Chunk] = []
    while True:
        scope = anyio.CancelScope()
        scope.__enter__()
        try:
            chunk = await anext(stream, None)
        except BaseException as error:
            scope.__exit__(type(error), error, error.__traceback__)
            raise
        try:
            # A scope that was entered later and is still open makes this impossible.
            scope.__exit__(None, None, None)
        except RuntimeError as error:
            complaint = _complaint(stream)
            with suppress(RuntimeError, BaseExceptionGroup):  # of scopes out of order
                await stream.aclose()
            with suppress(RuntimeError):
                scope.__exit__(None, None, None)
            raise AssertionError(complaint) from error
        if chunk is None:
            return chunks
        chunks.append(chunk)


def _complaint(stream: Chunks) -> str:
    lines = [
        f"{frame.f_code.co_filename}:{frame.f_lineno}: `{frame.f_code.co_qualname}`"
        for frame in _suspended(stream)
        if frame.f_globals.get("__name__") not in _RUNTIME
    ]
    return "a chunk is yielded inside a cancel scope or a task group:\n" + "\n".join(lines)


def _suspended(generator: Any) -> Iterator[FrameType]:
    """The frames that wait at a `yield`, those inside first."""
    frame = generator.ag_frame
    if frame is None:
        return
    for value in list(frame.f_locals.values()):
        if isinstance(value, AsyncGenerator) and value is not generator:
            yield from _suspended(value)
    yield frame
