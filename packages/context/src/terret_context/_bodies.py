"""Running the body of a plugin, whatever its form, and the code after its `yield`."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from functools import partial
from typing import Any

from ._actor import CANCELLED
from ._effects import Effect, Registration, Steps, attempt, finish_generator, note_failure
from ._errors import PluginDefinitionError, TeardownTimeoutError
from ._fiber import Fiber
from ._plugins import Form, form_of
from ._services import Provision
from ._waits import TRANSITION, Transition


def run_body(fiber: Fiber) -> Steps:
    """Runs the body to the point where the fiber is up; raises what the body raises."""
    plugin = fiber.plugin
    assert plugin is not None
    arguments = (fiber.ctx,) if plugin.config is None else (fiber.ctx, fiber.config)
    body: Callable[..., Any] = partial(plugin.body, *arguments)
    form = plugin.form
    if form is Form.SERVICE:
        service = _call_plain(fiber, body)
        key = plugin.provides[0]
        Provision(fiber, fiber.kernel.table, (key, fiber.ctx.realm(key)), service)
        if not hasattr(service, "init"):
            return
        body = service.init
        form = form_of(body)
    yield from _FORMS[form](fiber, body)


def _plain(fiber: Fiber, body: Callable[[], Any]) -> Steps:
    _keep(fiber, _call_plain(fiber, body))
    return
    yield


def _generator(fiber: Fiber, body: Callable[[], Any]) -> Steps:
    generator = body()
    effect = GeneratorBody(fiber, generator)
    try:
        value = _call_plain(fiber, partial(next, generator))
    except StopIteration:
        effect.finish()
        raise _never_yielded(fiber) from None
    except BaseException:
        effect.finish()
        raise
    _refuse_value(fiber, value)
    return
    yield


def _coroutine(fiber: Fiber, body: Callable[[], Any]) -> Steps:
    result = yield body
    if result is not CANCELLED:
        _keep(fiber, result)


def _async_generator(fiber: Fiber, body: Callable[[], Any]) -> Steps:
    generator = body()
    effect = AsyncGeneratorBody(fiber, generator)
    try:
        value = yield partial(_first, generator)
    except BaseException:
        effect.finish()
        raise
    if value is CANCELLED:
        effect.finish()
    elif value is _ENDED:
        effect.finish()
        raise _never_yielded(fiber)
    else:
        fiber.actor.hold(generator)
        _refuse_value(fiber, value)


_FORMS: dict[Form, Callable[[Fiber, Callable[[], Any]], Steps]] = {
    Form.PLAIN: _plain,
    Form.GENERATOR: _generator,
    Form.ASYNC: _coroutine,
    Form.ASYNC_GENERATOR: _async_generator,
}
_ENDED: Any = object()


class GeneratorBody(Effect):
    """The code after the `yield` of a plain generator body: the oldest effect of its load."""

    __slots__ = ("_generator",)

    def __init__(self, fiber: Fiber, generator: Generator[object, object, object]) -> None:
        self._generator = generator
        super().__init__(fiber, f'body "{fiber.name}"')

    def _release(self, errors: list[Exception]) -> None:
        attempt(partial(finish_generator, self._generator, self.label), errors, self)


class AsyncGeneratorBody(Effect):
    """The code after the `yield` of an async generator body, run in the task of its episode."""

    __slots__ = ("_generator",)

    def __init__(self, fiber: Fiber, generator: AsyncGenerator[object, None]) -> None:
        self._generator = generator
        super().__init__(fiber, f'body "{fiber.name}"')

    def async_part(self) -> str | None:
        return self.label

    def _steps(self, errors: list[Exception]) -> Steps:
        fiber: Fiber = self.owner  # type: ignore[assignment]  # made by a fiber only
        if fiber.actor is None or not fiber.actor.release(self._generator):
            return  # it ended early, with the failure of a scope that it held open
        fiber.actor.limit(fiber.kernel.grace)
        try:
            result = yield partial(_last, self._generator, self.label)
        except Exception as error:
            note_failure(error, self, errors)
        else:
            if result is CANCELLED:
                late = TeardownTimeoutError(self.label, str(fiber), fiber.kernel.grace)
                errors.append(late)
        fiber.actor.limit(None)


async def _first(generator: AsyncGenerator[object, None]) -> object:
    return await anext(generator, _ENDED)


async def _last(generator: AsyncGenerator[object, None], label: str) -> None:
    if await anext(generator, _ENDED) is not _ENDED:
        await generator.aclose()
        raise PluginDefinitionError(f"{label} yielded again in its teardown")


def _call_plain(fiber: Fiber, call: Callable[[], Any]) -> Any:
    """Calls plain code of a load in a context of its own, so variables it sets stay there."""

    def enter() -> Any:
        TRANSITION.set(Transition(fiber, "load"))
        return call()

    return copy_context().run(enter)


def _keep(fiber: Fiber, result: object) -> None:
    """Makes an effect of what a body returned."""
    if inspect.iscoroutine(result):
        result.close()
        raise PluginDefinitionError(f"{fiber}: a plain body returned a coroutine; make it async")
    if result is not None:
        Registration(fiber, f'undo of "{fiber.name}"').collect(result)


def _never_yielded(fiber: Fiber) -> PluginDefinitionError:
    return PluginDefinitionError(f"the body of {fiber} ended before its `yield`")


def _refuse_value(fiber: Fiber, value: object) -> None:
    if value is not None:
        raise PluginDefinitionError(
            f"the body of {fiber} yielded {value!r}; a body has one bare `yield` (use "
            "`ctx.effect` to register something)"
        )
