"""Effects: everything that can be undone and is owned by a fiber."""

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from functools import partial
from types import CoroutineType
from typing import Any, Protocol, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ._errors import AsyncEffectError, InvalidEffectError, TeardownTimeoutError

Call: TypeAlias = Callable[[], Awaitable[object]]
Steps: TypeAlias = Generator["Waitable | Call", Any, None]
"""A transition or undo: it yields what it waits for, a fiber or a call to be awaited."""


class Waitable(Protocol):
    """A fiber, for those who wait until it has changed."""

    async def changed(self) -> None: ...


class Host(Protocol):
    """What effects need of the kernel."""

    grace: float

    def start(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> None: ...
    def report(self, fiber: Any, error: BaseException, label: str) -> None: ...
    def fatal(self, error: BaseException) -> Exception: ...
    def check_thread(self, action: str, subject: object) -> None: ...


class Owner(Protocol):
    """What effects need of the fiber that owns them."""

    @property
    def kernel(self) -> Host: ...
    def own(self, effect: "Effect") -> None: ...
    def disown(self, effect: "Effect") -> None: ...
    def fail(self, error: Exception, label: str) -> None: ...


class Effect:
    """The handle of a registration: it is undone once, by its owner or by its holder.

    `label` says what it is, `done` whether it was undone.
    """

    __slots__ = ("_joined", "_phase", "label", "owner", "serial")

    def __init__(self, owner: Owner, label: str, *, owned: bool = True) -> None:
        self.label = label
        self.owner = owner
        self.serial = 0
        self._phase = "open"
        self._joined: anyio.Event | None = None
        if owned:  # else it is a part of an effect that is
            owner.own(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label} ({self._phase})>"

    @property
    def done(self) -> bool:
        return self._phase == "closed"

    @property
    def children(self) -> Sequence["Effect"]:
        """The effects that this one is made of."""
        return ()

    def close(self) -> None:
        """Undoes the effect now; idempotent.

        Raises its failures as one group, and `AsyncEffectError`, having undone nothing, if a part
        of it is asynchronous.
        """
        self.owner.kernel.check_thread("undo", self.label)
        if self._phase != "open":
            return
        part = self.async_part()
        if part is not None:
            raise AsyncEffectError(self.label, str(self.owner), part)
        errors: list[Exception] = []
        self.undo_now(errors)
        raise_all(f"undoing {self.label}", errors)

    async def aclose(self) -> None:
        """Undoes the effect and waits for it; idempotent. Raises its failures as one group.

        A cancelled caller does not interrupt the undo, whose parts have `grace` seconds each.
        """
        self.owner.kernel.check_thread("undo", self.label)
        if self._phase == "closing" and self._joined is not None:
            await self._joined.wait()
            return
        errors: list[Exception] = []
        with CancelScope(shield=True):
            await drive(self.undo(errors))
        raise_all(f"undoing {self.label}", errors)

    def __await__(self) -> Generator[Any, Any, "Effect"]:
        return self._set_up().__await__()

    def async_part(self) -> str | None:
        """Names the part that only `aclose()` can undo, or `None`."""
        return None

    def undo(self, errors: list[Exception]) -> Steps:
        """Undoes the effect, or joins an undo that runs already; failures go to `errors`."""
        if self._phase == "closing" and self._joined is not None:
            yield partial(_shielded, self._joined.wait)
        elif self._phase == "open":
            self._phase = "closing"
            if self.async_part() is not None:
                self._joined = anyio.Event()
            try:
                yield from self._steps(errors)
            finally:
                self.finish()

    def undo_now(self, errors: list[Exception]) -> None:
        """Undoes an effect that has no asynchronous part."""
        for wait in self.undo(errors):
            raise AssertionError(f"{self.label} waits for {wait}")

    def finish(self) -> None:
        """Marks the effect as undone and takes it off its owner's stack."""
        self._phase = "closed"
        self.owner.disown(self)
        if self._joined is not None:
            self._joined.set()

    async def _set_up(self) -> "Effect":
        await checkpoint()
        return self

    def _release(self, errors: list[Exception]) -> None:
        """Undoes a plain effect, attempting all of it."""

    def _steps(self, errors: list[Exception]) -> Steps:
        self._release(errors)
        return
        yield


def finish_generator(generator: Generator[object, object, object], label: str) -> None:
    """Runs the code after a `yield`; a second `yield` closes the generator and raises."""
    try:
        next(generator)
    except StopIteration:
        return
    generator.close()
    raise _yielded_again(label)


async def finish_async(
    generator: AsyncGenerator[object, Any], label: str, cause: BaseException | None = None
) -> None:
    """Does the same with an async generator, into which `cause` may be thrown."""
    try:
        await (anext(generator) if cause is None else generator.athrow(cause))
    except StopAsyncIteration:
        return
    await generator.aclose()
    raise _yielded_again(label)


def _yielded_again(label: str) -> InvalidEffectError:
    return InvalidEffectError(f"{label} yielded again in its teardown; one bare `yield` suspends")


def attempt(fn: Callable[[], object], errors: list[Exception], effect: Effect) -> None:
    """Calls a plain undo; a failure is kept with a note that names the effect."""
    try:
        result = fn()
        if isinstance(result, CoroutineType):
            result.close()
            raise InvalidEffectError(
                f"{effect.label}: a plain undo returned a coroutine; make it an async function"
            )
    except Exception as error:
        note_failure(error, effect, errors)
    except BaseException as error:
        effect.owner.kernel.fatal(error)


async def bounded(fn: Callable[[], Any], errors: list[Exception], effect: Effect) -> None:
    """Awaits an async undo for at most `grace` seconds, whatever is cancelled around it."""
    grace = effect.owner.kernel.grace
    try:
        with CancelScope(shield=True, deadline=anyio.current_time() + grace) as scope:
            await fn()
    except Exception as error:
        note_failure(error, effect, errors)
    except BaseException as error:
        effect.owner.kernel.fatal(error)
    if scope.cancelled_caught:
        errors.append(TeardownTimeoutError(effect.label, str(effect.owner), grace))


def note_failure(error: Exception, effect: Effect, errors: list[Exception]) -> None:
    """Keeps a failure of an undo, with a note naming effect and owner."""
    error.add_note(f"while undoing {effect.label} of {effect.owner}")
    errors.append(error)


def raise_all(what: str, errors: Sequence[Exception]) -> None:
    """Raises the failures, if any, as one flat group."""
    if errors:
        raise ExceptionGroup(what, list(flatten(errors)))


def flatten(errors: Sequence[Exception]) -> Iterator[Exception]:
    """Yields the leaves of a list of exceptions and groups."""
    for error in errors:
        if isinstance(error, ExceptionGroup):
            yield from flatten(error.exceptions)
        else:
            yield error


async def drive(steps: Steps) -> None:
    """Runs a step generator to its end in the calling task."""
    value = None
    try:
        while True:
            wait = steps.send(value)
            if callable(wait):
                value = await wait()
            else:
                value = await wait.changed()  # type: ignore[func-returns-value]  # `None`
    except StopIteration:
        return


async def _shielded(wait: Call) -> None:
    with CancelScope(shield=True):
        await wait()
