"""`Service`: a plugin that is the object it provides."""

from collections.abc import Iterable
from typing import Any, ClassVar

from ._context import Context
from ._errors import ReservedNameError
from ._keys import ServiceKey, python_name
from ._models import BaseModel
from ._plugins import kebab
from ._views import Viewable


class Service(Viewable):
    """The base of services that know who calls them: `class Llm(Service, key="llm")`.

    A subclass is a plugin: it is constructed with `(ctx, config)`, or `(ctx)` without a config
    model, provided under its key, and then `init()` runs, in any form of a plugin body. Class
    keywords are the options of `@plugin`; declarations of bases are inherited.

    Attributes:
        ctx: the provider's own context: its dependencies, effects and events.
        caller: the context through which the service was read. What a method registers for its
            caller goes through it and ends with the caller's fiber. Raises `ServiceGoneError` once
            the service was withdrawn.
        origin: the service itself; store this, not `self`.
    """

    ctx: Context
    __service_key__: ClassVar[str | None] = None
    __plugin_options__: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(
        cls,
        *,
        key: str | None = None,
        name: str | None = None,
        config: type[BaseModel] | None = None,
        inject: Iterable[object] = (),
        optional: Iterable[object] = (),
        provides: Iterable[object] = (),
        api: str | None = None,
        cancel_load: bool | None = None,
        **others: Any,
    ) -> None:
        if "__is_view__" in cls.__dict__:
            return
        super().__init_subclass__(**others)
        if key is not None:
            cls.__service_key__ = ServiceKey[object](key).name
            if hasattr(Context, python_name(key)):
                raise ReservedNameError(key, member=python_name(key))
        base = cls.__plugin_options__
        given = {"config": config, "api": api, "cancel_load": cancel_load}
        options = {
            **base,
            **{option: value for option, value in given.items() if value is not None},
        }
        for option, keys in (("inject", inject), ("optional", optional), ("provides", provides)):
            options[option] = (*base.get(option, ()), *keys)
        options["name"] = name or kebab(cls.__service_key__ or cls.__name__)
        cls.__plugin_options__ = options

    def __init__(self, ctx: Context, config: Any = None) -> None:
        self.ctx = ctx

    @property
    def caller(self) -> Context:
        return self.ctx

    @property
    def logger(self) -> Any:
        """The provider's logger, with the calling plugin bound as `caller`."""
        caller = self.caller.fiber
        own = self.ctx.logger
        return own if caller is self.ctx.fiber else own.bind(caller=caller.name)
