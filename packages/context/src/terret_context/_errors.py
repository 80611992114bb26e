"""Every error of the container: its subject as attributes, and the way out in its text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class TerretError(Exception):
    """The one base class of every error of Terret's packages."""


class ContextError(TerretError):
    """The base class of the container's errors."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean "x"?)` for the nearest known name, or an empty text."""
    near = get_close_matches(name, tuple(known), n=1, cutoff=0.6)
    return f' (did you mean "{near[0]}"?)' if near else ""


class LookupFailedError(ContextError, AttributeError, LookupError):
    """The base of the two errors of a service lookup, so that `hasattr` and `copy` behave."""

    def __init__(self, message: str, *, key: str, plugin: str) -> None:
        super().__init__(message)
        self.key = key
        self.plugin = plugin

    def __str__(self) -> str:
        return str(self.args[0])


class NotInjectedError(LookupFailedError):
    """A plugin used a service that neither it nor an enclosing plugin declared."""

    def __init__(self, key: str, plugin: str) -> None:
        fix = f'add "{key}" to `inject`, or use `ctx.get("{key}")` if the plugin can do without'
        super().__init__(
            f'{plugin} uses "{key}" without declaring it: {fix}', key=key, plugin=plugin
        )


class ServiceUnavailableError(LookupFailedError):
    """A declared service is not there at the moment."""

    def __init__(self, key: str, plugin: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f'"{key}" is not available to {plugin}: {reason}', key=key, plugin=plugin)


class ServiceGoneError(ContextError):
    """The caller of a bound view was asked for after the service had been withdrawn."""

    def __init__(self, key: str, plugin: str) -> None:
        self.key = key
        self.plugin = plugin
        super().__init__(
            f'the service "{key}" of {plugin} was withdrawn; look it up again through the context'
        )


class DuplicateServiceError(ContextError):
    """A key has a provider in this realm already."""

    def __init__(self, key: str, holder: str) -> None:
        self.key = key
        self.holder = holder
        super().__init__(
            f'"{key}" is already provided by {holder} in this realm; remove one or isolate it'
        )


class NotProvidedError(ContextError):
    """A plugin finished loading without making a provision that it declares."""

    def __init__(self, keys: Sequence[str], plugin: str) -> None:
        self.keys = tuple(keys)
        self.plugin = plugin
        listed = ", ".join(f'"{key}"' for key in keys)
        super().__init__(
            f"{plugin} declares `provides` {listed} but finished loading without providing it"
        )


class InactiveFiberError(ContextError, RuntimeError):
    """Something was asked of a fiber that no longer admits it."""

    def __init__(self, action: str, plugin: str, state: str) -> None:
        self.action = action
        self.plugin = plugin
        self.state = state
        super().__init__(f"cannot {action}: {plugin} is {state}")


class PluginDefinitionError(ContextError, TypeError):
    """An object is not a plugin, or its parts contradict each other."""


class ApiRangeError(ContextError):
    """A plugin asks for another version of the plugin API."""

    def __init__(self, plugin: str, wanted: str, present: str) -> None:
        self.plugin = plugin
        self.wanted = wanted
        self.present = present
        super().__init__(f'{plugin} needs plugin API "{wanted}", this is {present}')


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault of a configuration: where (keys as spelled by the user), what, nearest name."""

    path: tuple[str | int, ...]
    message: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = ".".join(str(part) for part in self.path)
        near = did_you_mean(str(self.path[-1]), self.known) if self.path else ""
        return f"{place}: {self.message}{near}" if place else self.message


class ConfigError(ContextError, ValueError):
    """A configuration does not fit the plugin's model; `faults` holds every reason."""

    def __init__(self, plugin: str, faults: Sequence[ConfigFault]) -> None:
        self.plugin = plugin
        self.faults = tuple(faults)
        super().__init__(f"{plugin}: " + "; ".join(str(fault) for fault in faults))


class InvalidEffectError(ContextError, TypeError):
    """A value cannot be undone."""


class AsyncEffectError(ContextError, RuntimeError):
    """`close()` was asked of an effect that only `await aclose()` can undo."""

    def __init__(self, label: str, plugin: str, part: str) -> None:
        self.label = label
        self.plugin = plugin
        self.part = part
        super().__init__(
            f"{label} of {plugin} has an async part ({part}): use `await effect.aclose()`"
        )


class PluginFailedError(ContextError):
    """A plugin failed while loading, or by one of its tasks; `__cause__` is the error."""

    def __init__(self, plugin: str, part: str, cause: BaseException) -> None:
        self.plugin = plugin
        self.part = part
        when = "while loading" if part == "loading" else f"by its {part}"
        super().__init__(f"{plugin} failed {when}: {type(cause).__name__}: {cause}")
        self.__cause__ = cause


class LifecycleDeadlockError(ContextError, RuntimeError):
    """Code of a transition waits for something that waits for that very transition."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"this wait can never end: {path}; "
            "`retire()` only asks, and a task of `ctx.spawn` may wait"
        )


class RestartBudgetError(ContextError):
    """Changes of dependencies made a plugin load too often."""

    def __init__(self, plugin: str, loads: int, seconds: float, causes: Sequence[str]) -> None:
        self.plugin = plugin
        self.causes = tuple(causes)
        super().__init__(
            f"{plugin} was loaded {loads} times in {seconds:g} s by changes of "
            f"{', '.join(dict.fromkeys(causes)) or 'nothing'}; `await fiber.restart()` tries again"
        )


class TeardownTimeoutError(ContextError, TimeoutError):
    """A part of a teardown did not finish in time and was cancelled."""

    def __init__(self, label: str, plugin: str, seconds: float) -> None:
        self.label = label
        self.plugin = plugin
        super().__init__(f"{label} of {plugin} did not finish in {seconds:g} s and was cancelled")


class EventModeError(ContextError, TypeError):
    """An event was dispatched or listened to in another mode than declared."""

    def __init__(self, event: str, mode: str, hint: str) -> None:
        self.event = event
        self.mode = mode
        article = "an" if mode[0] in "aeiou" else "a"
        super().__init__(f'"{event}" is {article} {mode} event: {hint}')


class UnknownEventError(ContextError, LookupError):
    """No event of that name is declared."""

    def __init__(self, event: str, known: Iterable[str]) -> None:
        self.event = event
        super().__init__(
            f'no event "{event}"{did_you_mean(event, known)}; import the package that declares it'
        )


class EventConflictError(ContextError):
    """Two owners declare one event name, or one owner declares it in two modes."""

    def __init__(self, event: str, first: str, second: str) -> None:
        self.event = event
        super().__init__(
            f'event "{event}" is declared twice: {first} and {second}; rename one of them'
        )


class SubjectError(ContextError, TypeError):
    """A subject was passed although the event takes it from its payload."""

    def __init__(self, event: str) -> None:
        self.event = event
        super().__init__(f'"{event}" takes its subject from the payload; do not pass `subject=`')


class NextCalledTwiceError(ContextError, RuntimeError):
    """A waterfall listener called `call_next` again."""

    def __init__(self, event: str, listener: str, *, overlapping: bool) -> None:
        self.event = event
        self.listener = listener
        why = "a second time; only an event with `repeat=True` allows it"
        if overlapping:
            why = "while the first call still ran; await that one before"
        super().__init__(f'{listener} called `call_next()` of "{event}" {why}')


class DuplicateEntryError(ContextError):
    """A name is registered twice in one layer of a registry."""

    def __init__(self, what: str, name: str, owner: str) -> None:
        self.what = what
        self.name = name
        self.owner = owner
        super().__init__(
            f'{what} "{name}" is already registered by {owner}; '
            "register through the agent's context for a variant of one agent"
        )


class ScopeLinkError(ContextError):
    """A scope would get a second parent, or become its own ancestor."""


class ReservedNameError(ContextError):
    """A service key has the name of a member of `Context`."""

    def __init__(self, name: str, *, member: str) -> None:
        self.name = name
        super().__init__(
            f'a service cannot be named "{name}": `Context.{member}` exists; choose another name'
        )


class WrongThreadError(ContextError, RuntimeError):
    """The container was changed from a thread that is not its event loop's."""

    def __init__(self, action: str) -> None:
        self.action = action
        super().__init__(
            f"cannot {action} from another thread; enter the loop with `anyio.from_thread.run`"
        )
