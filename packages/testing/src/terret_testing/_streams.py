"""Watching streams of chunks for scopes that are left open at a `yield`."""

from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from types import AsyncGeneratorType

import anyio

from terret_llm import Chunks


class OpenScopeError(AssertionError):
    """A stream yielded inside a cancel scope or a task group.

    Scopes have to be left in the order in which they were entered; one that stays open while its
    generator waits is left in another, which breaks the cancellation of whoever reads the stream.

    Attributes:
        places: Where its generators wait, as `file:line`, the outermost first.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self.places = places
        super().__init__(
            "a stream yields inside a cancel scope or a task group (move_on_after and fail_after "
            f"count); its generators wait at {', '.join(places) or 'unknown lines'}. "
            "Leave the scope before each yield"
        )


async def watched(stream: Chunks, report: Callable[[OpenScopeError], object]) -> Chunks:
    """Passes a stream on; reports and raises `OpenScopeError` when it yields in an open scope."""
    async with aclosing(stream):
        while True:
            probe = anyio.CancelScope()
            try:
                with probe:  # cannot be left while a scope inside of it is open
                    try:
                        chunk = await anext(stream)
                    except StopAsyncIteration:
                        return
            except RuntimeError as error:
                if "cancel scope" not in str(error).lower():
                    raise
                misuse = OpenScopeError(tuple(_places(stream)))
                report(misuse)
                await _restore(stream, probe)
                raise misuse from error
            yield chunk


async def _restore(stream: Chunks, probe: anyio.CancelScope) -> None:
    """Lets the scopes of the running task be left in the order in which they were entered."""
    # A task group around a yield throws the exit of its generator as a group.
    with suppress(Exception, BaseExceptionGroup):
        await stream.aclose()
    with suppress(RuntimeError):  # trio has put its scopes in order already
        probe.__exit__(None, None, None)


def _places(stream: object) -> Iterator[str]:
    while isinstance(stream, AsyncGeneratorType) and stream.ag_frame is not None:
        frame = stream.ag_frame
        yield f"{frame.f_code.co_filename}:{frame.f_lineno}"
        inner = (one for one in frame.f_locals.values() if isinstance(one, AsyncGeneratorType))
        stream = next(inner, None)
