"""Running the body of a plugin, whatever its form, and the code after its `yield`."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from functools import partial
from types import CoroutineType
from typing import Any, TypeAlias

from anyio.lowlevel import checkpoint

from ._actor import CANCELLED
from ._effects import Effect, Steps, attempt, finish_async, finish_generator, note_failure
from ._errors import PluginDefinitionError, TeardownTimeoutError
from ._fiber import Fiber
from ._plugins import Form, form_of
from ._registrations import Registration
from ._services import Provision
from ._waits import TRANSITION, Transition

Load: TypeAlias = Generator[Any, Any, bool]
"""The steps of a load; the result is false if the body was cancelled instead of landing."""


def run_body(fiber: Fiber) -> Load:
    """Runs the body to the point where the fiber is up; raises what the body raises."""
    plugin = fiber.plugin
    assert plugin is not None
    arguments = (fiber.ctx,) if plugin.config is None else (fiber.ctx, fiber.config)
    form = plugin.form
    if form is Form.PLAIN:
        _keep(fiber, _call_plain(fiber, plugin.body, *arguments))
        return True
    body: Callable[..., Any] = partial(plugin.body, *arguments)
    if form is Form.SERVICE:
        service = _call_plain(fiber, body)
        Provision(fiber, fiber.ctx, plugin.provides[0], service)
        if not hasattr(service, "init"):
            return True
        body = service.init
        form = form_of(body)
    if form is Form.PLAIN:
        _keep(fiber, _call_plain(fiber, body))
        return True
    return (yield from _FORMS[form](fiber, body))


def _generator(fiber: Fiber, body: Callable[[], Any]) -> Load:
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
    return True
    yield


def _coroutine(fiber: Fiber, body: Callable[[], Any]) -> Load:
    result = yield body
    if result is not CANCELLED:
        _keep(fiber, result)
    return result is not CANCELLED


def _async_generator(fiber: Fiber, body: Callable[[], Any]) -> Load:
    generator = body()
    effect = AsyncGeneratorBody(fiber, generator)
    try:
        value = yield partial(_first, generator)
    except BaseException:
        effect.finish()
        raise
    if value is CANCELLED or value is _ENDED:
        effect.finish()
    else:
        fiber.actor.hold(generator)
        _refuse_value(fiber, value)
    if value is _ENDED:
        raise _never_yielded(fiber)
    return value is not CANCELLED


_FORMS: dict[Form, Callable[[Fiber, Callable[[], Any]], Load]] = {
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
        if fiber.actor is None:
            return
        if not fiber.actor.release(self._generator):
            yield checkpoint  # a scope that it held open has ended it, or does so at this moment
            return
        fiber.actor.limit(fiber.kernel.grace)
        if last := not fiber.effects:
            fiber.actor.finish()  # with this call, since nothing is left to undo
        try:
            result = yield partial(finish_async, self._generator, self.label)
        except Exception as error:
            note_failure(error, self, errors)
        else:
            if result is CANCELLED:
                late = TeardownTimeoutError(self.label, str(fiber), fiber.kernel.grace)
                errors.append(late)
        if not last:
            fiber.actor.limit(None)


async def _first(generator: AsyncGenerator[object, None]) -> object:
    return await anext(generator, _ENDED)


def _call_plain(fiber: Fiber, call: Callable[..., Any], *arguments: object) -> Any:
    """Calls plain code of a load in a context of its own, so variables it sets stay there."""
    variables = copy_context()
    variables.run(TRANSITION.set, Transition(fiber, "load"))
    return variables.run(call, *arguments)


def _keep(fiber: Fiber, result: object) -> None:
    """Makes an effect of what a body returned."""
    if isinstance(result, CoroutineType):
        result.close()
        raise PluginDefinitionError(f"{fiber}: a plain body returned a coroutine; make it async")
    if result is not None:
        Registration(fiber, f'undo of "{fiber.name}"').run(lambda: result)


def _never_yielded(fiber: Fiber) -> PluginDefinitionError:
    return PluginDefinitionError(f"the body of {fiber} ended before its `yield`")


def _refuse_value(fiber: Fiber, value: object) -> None:
    if value is not None:
        raise PluginDefinitionError(
            f"the body of {fiber} yielded {value!r}; a body has one bare `yield` (use "
            "`ctx.effect` to register something)"
        )
