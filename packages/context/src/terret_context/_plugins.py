"""Plugins: the record, the decorator, and the forms that are accepted for one."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Final, overload

from ._errors import ApiRangeError, ConfigError, ConfigFault, PluginDefinitionError
from ._keys import key_name
from ._models import BaseModel

API_VERSION: Final = "1.0"
"""The version of the plugin API that this package offers."""

_FORMS: Final = "a function (ctx) or (ctx, config), plain, async or with one yield; a Service class"
_OPTIONS: Final = ("config", "inject", "optional", "provides", "api", "cancel_load")


class Form(Enum):
    """How a body is run and taken down."""

    PLAIN = "plain"
    GENERATOR = "generator"
    ASYNC = "async"
    ASYNC_GENERATOR = "async generator"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A recipe that can be mounted many times; `@plugin` makes one from a function."""

    name: str
    body: Callable[..., object]
    config: type[BaseModel] | None = None
    inject: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    api: str | None = None
    cancel_load: bool = False
    form: Form = field(init=False)
    needs: tuple[tuple[str, bool], ...] = field(init=False)
    """Each declared key, and whether it is required."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for option in ("inject", "optional", "provides"):
            set_(self, option, _names(getattr(self, option)))
        set_(self, "form", form_of(self.body))
        if self.form is Form.SERVICE:
            own = key_name(self.body)
            set_(self, "provides", (own, *(key for key in self.provides if key != own)))
        optional = (key for key in self.optional if key not in self.inject)
        needs = (*((key, True) for key in self.inject), *((key, False) for key in optional))
        set_(self, "needs", needs)
        self._check_parameters()

    def __str__(self) -> str:
        return f'plugin "{self.name}"'

    def validate(self, source: object) -> BaseModel | None:
        """Returns the validated configuration. Raises `ConfigError` with every fault."""
        if self.config is None:
            if source:
                raise ConfigError(str(self), [ConfigFault((), "takes no configuration")])
            return None
        from ._config import validate

        return validate(self.config, source, str(self))

    def check_api(self) -> None:
        """Raises `ApiRangeError` if the plugin wants another version of the API.

        packaging is imported here, since few plugins say what they want.
        """
        if self.api is None:
            return
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            fits = SpecifierSet(self.api).contains(API_VERSION)
        except InvalidSpecifier:
            raise PluginDefinitionError(
                f'{self}: "{self.api}" is no version range like ">=1,<2"'
            ) from None
        if not fits:
            raise ApiRangeError(str(self), self.api, API_VERSION)

    def _check_parameters(self) -> None:
        wanted = 1 if self.config is None else 2
        try:
            inspect.signature(self.body).bind(*range(wanted))
        except TypeError:
            takes = "(ctx)" if wanted == 1 else "(ctx, config)"
            why = "has no config model" if wanted == 1 else "has a config model"
            raise PluginDefinitionError(f"{self} {why}, so its body takes {takes}") from None
        except ValueError:  # a builtin without a signature
            return


@overload
def plugin(body: Callable[..., object], /) -> Plugin: ...
@overload
def plugin(
    *,
    name: str | None = None,
    config: type[BaseModel] | None = None,
    inject: Iterable[object] = (),
    optional: Iterable[object] = (),
    provides: Iterable[object] = (),
    api: str | None = None,
    cancel_load: bool = False,
) -> Callable[[Callable[..., object]], Plugin]: ...
def plugin(
    body: Callable[..., object] | None = None, /, *, name: str | None = None, **options: object
) -> Plugin | Callable[[Callable[..., object]], Plugin]:
    """Makes a `Plugin` from a function; see the fields of `Plugin` for the options."""
    if body is not None:
        return _record(body, name, {})
    return lambda function: _record(function, name, options)


def as_plugin(value: object) -> Plugin:
    """Returns the record of anything that is accepted as a plugin.

    Raises `PluginDefinitionError` with the accepted forms, or with the candidates of a module.
    """
    if isinstance(value, Plugin):
        return value
    if isinstance(value, ModuleType):
        return _from_module(value)
    if isinstance(value, type):
        options = getattr(value, "__plugin_options__", None)
        if not isinstance(options, Mapping):
            raise PluginDefinitionError(f"{value!r} is no plugin; accepted: {_FORMS}")
        record = value.__dict__.get("__plugin_record__")
        if not isinstance(record, Plugin):
            record = _record(value, options.get("name"), options)
            value.__plugin_record__ = record  # type: ignore[attr-defined]  # a cache on the class
        return record
    if callable(value):
        options = {key: getattr(value, key) for key in _OPTIONS if hasattr(value, key)}
        return _record(value, None, options)
    raise PluginDefinitionError(f"{value!r} is no plugin; accepted: {_FORMS}")


def form_of(body: Callable[..., object]) -> Form:
    """Returns how a body has to be run."""
    if isinstance(body, type):
        return Form.SERVICE
    if inspect.isasyncgenfunction(body):
        return Form.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(body):
        return Form.ASYNC
    if inspect.isgeneratorfunction(body):
        return Form.GENERATOR
    return Form.PLAIN


def kebab(name: str) -> str:
    """Returns `agent-loop` for `AgentLoop` and `agent_loop`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.strip("_")).replace("_", "-").lower()


def _record(body: Callable[..., object], name: object, options: Mapping[str, object]) -> Plugin:
    title = str(name) if name else kebab(getattr(body, "__name__", type(body).__name__))
    given = {key: value for key, value in options.items() if key in _OPTIONS}
    return Plugin(name=title, body=body, **given)  # type: ignore[arg-type]  # checked by the record


def _from_module(module: ModuleType) -> Plugin:
    value = module.__dict__.get("plugin")
    if value is not None and value is not plugin:
        return as_plugin(value)
    found = {name: value for name, value in vars(module).items() if _defined_in(module, value)}
    if len(found) == 1:
        return as_plugin(next(iter(found.values())))
    listed = ", ".join(f"{module.__name__}:{name}" for name in found) or "none"
    raise PluginDefinitionError(
        f'module "{module.__name__}" has no attribute `plugin`; candidates: {listed}'
    )


def _defined_in(module: ModuleType, value: object) -> bool:
    if isinstance(value, Plugin):
        home = getattr(value.body, "__module__", "")
    elif isinstance(value, type) and hasattr(value, "__plugin_options__"):
        if getattr(value, "__service_key__", None) is None:
            return False
        home = value.__module__
    else:
        return False
    return home == module.__name__ or home.startswith(module.__name__ + ".")


def _names(keys: object) -> tuple[str, ...]:
    listed = [keys] if isinstance(keys, str) or not isinstance(keys, Iterable) else keys
    return tuple(dict.fromkeys(key_name(key) for key in listed))
