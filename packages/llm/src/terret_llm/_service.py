from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import final

from terret_context import Context, Service, scope_of

from ._adapter import BoundCall, LlmAdapter
from ._errors import HarnessError, failure_of
from ._events import ADAPTERS_UPDATED, STREAM, AdaptersUpdated, Chunks
from ._models import ModelInfo, ProviderInfo, checked_catalog, checked_model, completed
from ._registry import AdapterRegistration, AdapterRegistry, NoAdapterError, Route, provider_names
from ._requests import GenerateOptions, LlmCallConfig
from ._retry_policy import RetryPolicy
from ._streaming import contained, failing, for_adapter


@final
@dataclass(frozen=True, slots=True, eq=False)
class PreparedCall:
    """One call, bound to the adapter that resolved it; later changes of routes do not reach it.

    `adapter_defaults` names the fields of `config` that the adapter filled in: of `model`,
    `reasoning_effort` and `max_tokens`.
    """

    config: LlmCallConfig
    adapter_defaults: frozenset[str]
    context_window: int | None
    retry_policy: RetryPolicy | None
    _start: Callable[[GenerateOptions], Chunks] = field(repr=False)
    _used: bool = field(default=False, init=False, repr=False)

    def stream(self, request: GenerateOptions) -> Chunks:
        """Run the request, once. Raises INVALID_PREPARED_CALL on a second use or another config."""
        if self._used:
            raise HarnessError(
                "this prepared call was used already; prepare another", "INVALID_PREPARED_CALL"
            )
        if request.config != self.config:
            raise HarnessError(
                f"the request's config {request.config} is not that of the prepared call, "
                f"{self.config}; build the request from `call.config`",
                "INVALID_PREPARED_CALL",
            )
        object.__setattr__(self, "_used", True)
        return self._start(request)


class Llm(Service, key="llm"):
    """Where adapters are registered and models are called."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self._registry = AdapterRegistry(self._announce)

    def register_adapter(
        self, providers: str | Sequence[str], adapter: LlmAdapter
    ) -> AdapterRegistration:
        """Let `adapter` serve these providers, all or none, until the caller's fiber ends.

        Raises DUPLICATE_ADAPTER if one is taken, INVALID_ADAPTER if something is no adapter.
        """
        names = provider_names(providers)
        return AdapterRegistration(self.caller, self._registry, names, adapter)

    def list_providers(self) -> tuple[ProviderInfo, ...]:
        """The registered providers, in order of registration."""
        return tuple(route.info for route in self._registry.routes.values())

    def provider_retry_policy(self, provider: str) -> RetryPolicy | None:
        """The policy the adapter gave at registration. Raises NO_ADAPTER."""
        return self._registry.find(provider).retry_policy

    async def list_models(self, provider: str) -> tuple[ModelInfo, ...]:
        """The models the provider suggests. Raises NO_ADAPTER and INVALID_CATALOG."""
        adapter = self._registry.find(provider).adapter
        return checked_catalog(await adapter.list_models(provider), provider)

    async def resolve_model_info(self, provider: str, model: str) -> ModelInfo:
        """What the adapter knows of exactly that model. Raises NO_ADAPTER and INVALID_MODEL_...."""
        adapter = self._registry.find(provider).adapter
        return checked_model(await adapter.resolve_model(provider, model), provider, model)

    async def resolve_call_config(self, config: LlmCallConfig) -> LlmCallConfig:
        """`config` with the adapter's defaults. Raises as `prepare_call` does."""
        _, _, resolved, _ = await self._resolve(config)
        return resolved

    async def prepare_call(self, config: LlmCallConfig) -> PreparedCall:
        """Bind one call to the adapter that serves it now.

        Raises NO_ADAPTER, INVALID_REQUEST if provider or model are neither given nor known,
        UNSUPPORTED_REASONING_EFFORT, and what the adapter raises.
        """
        route, bound, resolved, defaults = await self._resolve(config)
        window, policy = bound.model.context_window, route.retry_policy
        return PreparedCall(
            resolved, defaults, window, policy, lambda request: self._run(request, route, bound)
        )

    def stream(self, request: GenerateOptions) -> Chunks:
        """Run one request through `llm/stream`; close the result with `aclosing`.

        A failure of the adapter, or its absence (NO_ADAPTER), is the finish; a failure of a
        listener is raised. Closing early, or cancelling, ends the adapter and awaits its cleanup.
        """
        return self._run(request, None, None)

    async def _resolve(
        self, config: LlmCallConfig
    ) -> tuple[Route, BoundCall, LlmCallConfig, frozenset[str]]:
        if not config.provider:
            raise _not_chosen("provider")
        route = self._registry.find(config.provider)
        model = config.model or route.adapter.default_model(config.provider)
        if not model:
            raise _not_chosen("model")
        bound = await route.adapter.prepare_call(replace(config, model=model))
        info = checked_model(bound.model, config.provider, model)
        return route, bound, *completed(config, info)

    async def _run(
        self, request: GenerateOptions, route: Route | None, bound: BoundCall | None
    ) -> Chunks:
        def dispatch() -> Chunks:
            return self._dispatch(request, route, bound)

        subject = scope_of(self.caller)
        chunks = await self.ctx.waterfall(STREAM, request, dispatch, subject=subject)
        if not isinstance(chunks, AsyncGenerator):
            accepted = "accepted: an asynchronous generator of chunks"
            raise TypeError(f"a listener of {STREAM.name} returned {chunks!r}; {accepted}")
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def _dispatch(
        self, request: GenerateOptions, route: Route | None, bound: BoundCall | None
    ) -> Chunks:
        routes = self._registry.routes
        route = route or routes.get(request.provider)
        if route is None:
            error = NoAdapterError(request.provider, tuple(routes))
            return failing(failure_of(error))
        stream = route.adapter.stream if bound is None else bound.stream
        return contained(stream, for_adapter(request, route.adapter, routes))

    def _announce(self) -> None:
        self.ctx.emit(ADAPTERS_UPDATED, AdaptersUpdated(tuple(self._registry.routes)))


def _not_chosen(what: str) -> HarnessError:
    return HarnessError(
        f"no {what} is chosen: set `{what}` on the agent (the plugin of a model may have a default "
        "model), or let a plugin choose one on `agent/request`",
        "INVALID_REQUEST",
    )
