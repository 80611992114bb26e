"""The effects of plain bodies: collected steps, undone in reverse."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, GeneratorType
from typing import Any

from ._effects import Effect, Owner, Steps, attempt, bounded, finish_generator
from ._errors import InvalidEffectError
from ._events import is_async

_ACCEPTED = "None, a function, a context manager, an effect, or a generator function of these"


@dataclass(slots=True)
class Undo:
    """One step of an undo: a function or coroutine function without parameters."""

    label: str
    fn: Callable[..., object]
    is_async: bool


class Registration(Effect):
    """The effect of a plain body: what it collected is undone in reverse.

    `ctx.effect(body)` makes one. A subclass gives a handle more methods: construct it with the
    owning fiber and a label, then `run(body)`.
    """

    __slots__ = ("_items", "_suspended")

    def __init__(self, owner: Owner, label: str, *, owned: bool = True) -> None:
        self._items: list[Undo | Effect] = []
        self._suspended: Generator[Any, Any, Any] | None = None
        super().__init__(owner, label, owned=owned)

    @property
    def children(self) -> Sequence[Effect]:
        return tuple(item for item in self._items if isinstance(item, Effect))

    def run(self, body: Callable[[], object] | object) -> object:
        """Runs the body; its failure undoes what it had collected and is raised."""
        try:
            return self._run(body)
        except Exception as error:
            errors: list[Exception] = []
            part = self.async_part()
            if part is None:
                self.undo_now(errors)
            else:  # stays on the stack, where the owner's unload undoes it
                error.add_note(f"{self.label} has an async part ({part}), undone with its owner")
            for failure in errors:
                error.add_note(f"undoing it failed too: {type(failure).__name__}: {failure}")
            raise

    def _run(self, body: Callable[[], object] | object) -> object:
        result = body() if is_body(body) else body  # type: ignore[operator]  # which tells
        if not isinstance(result, GeneratorType):
            return self.collect(result)
        for value in result:
            if value is None:
                self._suspended = result
                break
            self.collect(value)
        return None

    def collect(self, value: Any) -> object:
        """Takes over something to undo; enters a manager and returns its value."""
        if value is None:
            return None
        if isinstance(value, FunctionType):
            self._items.append(Undo(value.__qualname__, value, is_async(value)))
        elif isinstance(effect := getattr(value, "handle", value), Effect):  # its own, or a fiber's
            effect.owner.disown(effect)
            self._items.append(effect)
        elif isinstance(value, AbstractContextManager):
            entered = value.__enter__()
            exit_ = partial(value.__exit__, None, None, None)
            self._items.append(Undo(f"exit of {value!r}", exit_, is_async=False))
            return entered
        elif isinstance(value, AbstractAsyncContextManager):
            raise InvalidEffectError(
                f"{self.label}: {value!r} is an async manager; use `await ctx.enter_async(manager)`"
            )
        elif callable(value):
            name = getattr(value, "__qualname__", None) or repr(value)
            self._items.append(Undo(name, value, is_async(value)))
        else:
            raise InvalidEffectError(f"{self.label}: {value!r} cannot be undone; use {_ACCEPTED}")
        return None

    def async_part(self) -> str | None:
        for item in self._items:
            if isinstance(item, Undo):
                if item.is_async:
                    return item.label
            elif not item.done and (part := item.async_part()) is not None:
                return part
        return None

    def _steps(self, errors: list[Exception]) -> Steps:
        for item in reversed(self._items):
            if not isinstance(item, Undo):
                yield from item.undo(errors)
            elif item.is_async:
                yield partial(bounded, item.fn, errors, self)
            else:
                attempt(item.fn, errors, self)
        if self._suspended is not None:
            attempt(partial(finish_generator, self._suspended, self.label), errors, self)


def is_body(value: object) -> bool:
    """Tells whether a body is to be called; managers may be callable, as decorators."""
    if isinstance(value, FunctionType):
        return True
    managers = (AbstractContextManager, AbstractAsyncContextManager)
    return callable(value) and not isinstance(value, managers)
