from terret_llm import Chunk, Chunks
from terret_testing import OpenScopeError, watched


async def check_no_scope_is_left(stream: Chunks) -> list[Chunk]:
    """Runs a stream to its end and returns its chunks, if no chunk leaves a scope open.

    Raises OpenScopeError with file and line of the `yield` that stands inside a cancel scope or a
    task group: the scope would lie around whatever the consumer does next. It closes the stream.
    """
    misuses: list[OpenScopeError] = []
    return [chunk async for chunk in watched(stream, misuses.append)]
