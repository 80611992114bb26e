"""Watching streams of chunks for scopes that are left open at a `yield`."""

from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from types import AsyncGeneratorType, FrameType
from typing import Final

import anyio

from terret_llm import Chunks

_RUNTIME: Final = ("terret_llm._service", "terret_llm._streaming")


class OpenScopeError(AssertionError):
    """A stream yielded inside a cancel scope or a task group.

    Scopes have to be left in the order in which they were entered; one that stays open while its
    generator waits is left in another, which breaks the cancellation of whoever reads the stream.

    Attributes:
        places: Where its generators wait, as `file:line: function`, those inside first.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self.places = places
        super().__init__(
            "a chunk is yielded inside a cancel scope or a task group (move_on_after and "
            "fail_after count); leave it before each yield:\n" + "\n".join(places)
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
    for frame in _suspended(stream):
        if frame.f_globals.get("__name__") not in _RUNTIME:
            yield f"{frame.f_code.co_filename}:{frame.f_lineno}: `{frame.f_code.co_qualname}`"


def _suspended(generator: object) -> Iterator[FrameType]:
    """The frames that wait at a `yield`, those inside first."""
    if isinstance(generator, AsyncGeneratorType) and generator.ag_frame is not None:
        for value in list(generator.ag_frame.f_locals.values()):
            if value is not generator:
                yield from _suspended(value)
        yield generator.ag_frame
