from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from terret_context import Context, Registration

from ._adapter import LlmAdapter
from ._errors import HarnessError
from ._models import ProviderInfo
from ._retry_policy import RetryPolicy


class NoAdapterError(HarnessError):
    """No adapter serves a provider; code NO_ADAPTER."""

    def __init__(self, provider: str, registered: Sequence[str]) -> None:
        known = ", ".join(registered) or "none"
        super().__init__(
            f"no adapter serves provider {provider!r} (registered: {known}); mount a model plugin "
            "such as llm-openai, or name one of the registered providers",
            "NO_ADAPTER",
        )
        self.provider = provider


class DuplicateAdapterError(HarnessError):
    """A provider has an adapter already; code DUPLICATE_ADAPTER."""

    def __init__(self, provider: str, owner: str) -> None:
        super().__init__(
            f"provider {provider!r} has an adapter already, from {owner}; give one of the two "
            "another name with its `provider` setting",
            "DUPLICATE_ADAPTER",
        )
        self.provider = provider


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One provider and what its adapter said at registration."""

    adapter: LlmAdapter
    info: ProviderInfo
    retry_policy: RetryPolicy | None
    owner: str


class AdapterRegistry:
    """Which adapter serves which provider."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.routes: dict[str, Route] = {}
        self._changed = changed

    def find(self, provider: str) -> Route:
        """The provider's route. Raises NoAdapterError."""
        route = self.routes.get(provider)
        if route is None:
            raise NoAdapterError(provider, tuple(self.routes))
        return route

    def exchange(self, old: Mapping[str, Route], new: Mapping[str, Route]) -> None:
        """Put `new` in place of `old` in one step, or raise DuplicateAdapterError."""
        for provider in new:
            taken = self.routes.get(provider)
            if taken is not None and provider not in old:
                raise DuplicateAdapterError(provider, taken.owner)
        for provider in old:
            del self.routes[provider]
        self.routes.update(new)
        self._changed()


@final
class AdapterRegistration(Registration):
    """The routes of one adapter; they end with the fiber that registered it, or by `close()`."""

    __slots__ = ("_adapter", "_registry", "_routes")

    def __init__(
        self, ctx: Context, registry: AdapterRegistry, providers: Sequence[str], adapter: LlmAdapter
    ) -> None:
        routes = _routes(providers, adapter, str(ctx.fiber))
        super().__init__(ctx.fiber, f"adapter {', '.join(routes)}")
        self._registry = registry
        self._adapter = adapter
        self._routes: Mapping[str, Route] = {}
        self.run(partial(self._enter, routes))

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers it serves now."""
        return tuple(self._routes)

    def replace(self, providers: str | Sequence[str]) -> None:
        """Serve these providers instead, in one step with one `llm/adapters-updated`.

        Raises, and changes nothing, if they are taken or the registration has ended.
        """
        if self.done:
            raise HarnessError(
                f"the registration ({self.label}) has ended; register the adapter again",
                "REGISTRATION_DISPOSED",
            )
        self._take(_routes(provider_names(providers), self._adapter, str(self.owner)))

    def _enter(self, routes: Mapping[str, Route]) -> Callable[[], None]:
        self._take(routes)
        return lambda: self._take({})

    def _take(self, routes: Mapping[str, Route]) -> None:
        self._registry.exchange(self._routes, routes)
        self._routes = routes


def provider_names(providers: str | Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple. Raises INVALID_ADAPTER for none or an empty one."""
    names = (providers,) if isinstance(providers, str) else tuple(providers)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise HarnessError(
            f"an adapter is registered for one or more provider names, not for {providers!r}",
            "INVALID_ADAPTER",
        )
    return names


def _routes(names: Sequence[str], adapter: LlmAdapter, owner: str) -> dict[str, Route]:
    if not isinstance(adapter, LlmAdapter):
        raise HarnessError(f"{adapter!r} is no LlmAdapter; subclass it", "INVALID_ADAPTER")
    routes: dict[str, Route] = {}
    for name in names:
        if name in routes:
            raise DuplicateAdapterError(name, "the same registration")
        info, policy = adapter.provider_info(name), adapter.retry_policy(name)
        if not isinstance(info, ProviderInfo) or not isinstance(policy, RetryPolicy | None):
            raise HarnessError(
                f"{type(adapter).__name__} must give a ProviderInfo and a RetryPolicy for "
                f"{name!r}, not {info!r} and {policy!r}",
                "INVALID_ADAPTER",
            )
        routes[name] = Route(adapter, info, policy, owner)
    return routes
