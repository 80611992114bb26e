"""The service: the registry of tools and the pipeline around their bodies."""

from collections.abc import Collection
from typing import Literal

from anyio import get_cancelled_exc_class
from pydantic import Field

from terret_context import Config, Context, Effect, Service
from terret_llm import ToolSchema
from terret_system_prompt import AssembleContext, ProvidedTools, SystemPrompt

from ._bodies import prepared
from ._calls import ToolExec
from ._definition import Tool
from ._errors import INVALID_ARGS, ViolationError
from ._events import CHANGE
from ._invocation import Invocation
from ._outcome import ToolOutcome, failure
from ._registration import Registration
from ._registry import Guard, Registry
from ._scheduler import ToolScheduler
from ._threads import Threads


class ToolsConfig(Config):
    """Settings of the entry `tools`; a change applies at once."""

    max_threads: int = Field(default=40, ge=1)
    """How many plain functions run at the same time."""


class Tools(Service, key="tools", config=ToolsConfig, inject=(SystemPrompt,)):
    """Tools that models can call, and the guarded pipeline that runs them.

    Registrations belong to the caller's fiber and scope; the nearest scope wins, and a name twice
    in one layer raises `DuplicateEntryError`. Each of them, and its end, is a `tools/change`.

    Attributes:
        scheduler: The stages of a call, for loops.
    """

    def __init__(self, ctx: Context, config: ToolsConfig | None = None) -> None:
        super().__init__(ctx, config)
        settings = config or ToolsConfig()
        self._registry = Registry(self._changed)
        self._threads = Threads(settings.max_threads, ctx.grace)
        self.scheduler = ToolScheduler(ctx, self._registry, self._threads)

    def init(self) -> None:
        self.ctx[SystemPrompt].tools(self._provide)
        self.ctx.on_update(self._update)

    def register(self, tool: Tool) -> Effect:
        """Adds a tool to the caller's scope.

        `await effect.aclose()` hides it at once and then waits for its bodies in flight, but not
        for one that it is called from; the container's `grace` bounds the wait. Raises
        `UnsupportedSchemaError`, and `ValueError` for a reserved name.
        """
        return self._registry.add(self.caller, tool)

    def guard(self, guard: Guard) -> Effect:
        """Adds a tool guard: a plain function that denies a call by returning a reason.

        Guards run after all policies, and nothing takes a denial back.
        """
        return self._registry.add_guard(self.caller, guard)

    def restrict(
        self, *, allow: Collection[str] | None = None, deny: Collection[str] | None = None
    ) -> Effect:
        """Hides inherited tools from the caller's scope and those below it.

        Its own tools stay, and tools registered later are filtered too. Several restrictions
        intersect. Raises `ValueError` without scope, without names and for unknown names.
        """
        return self._registry.restrict(self.caller, allow, deny)

    def get(self, name: str, scope: object | None = None) -> Tool | None:
        """Returns the tool that a scope sees under a name."""
        registration = self._registry.find(name, scope)
        return registration.tool if registration else None

    def schemas(self, scope: object | None = None) -> tuple[ToolSchema, ...]:
        """Returns what a model of the scope sees; copies, in order of registration."""
        return tuple([each.schema() for each in self._registry.view(scope).tools.values()])

    def execution_mode(self, exec: ToolExec) -> Literal["parallel", "exclusive"]:
        """Says whether a call may run beside others; whatever is doubtful may not."""
        registration = self._registry.find(exec.name, exec.agent)
        if registration is None or exec.fault is not None:
            return "exclusive"
        return "parallel" if self._is_safe(registration, exec) else "exclusive"

    def check(self, exec: ToolExec) -> ToolOutcome | None:
        """Returns how a call must fail: an unknown tool, bad arguments; `None` if it need not.

        Nothing runs but the check of the arguments.
        """
        if exec.fault is not None:
            return failure(f"invalid arguments: {exec.fault}", code=INVALID_ARGS)
        found = prepared(self._registry, exec)
        return found if isinstance(found, ToolOutcome) else None

    async def execute(self, exec: ToolExec) -> ToolOutcome:
        """Runs one call through all stages; for nested calls and code without a loop.

        Whatever goes wrong is an outcome. A cancellation is raised after the call was brought to
        its end, so `tools/result` is emitted in any case.
        """
        call = Invocation(exec)
        try:
            await self._run(call)
        finally:
            if call.outcome is not None:
                self.scheduler.finish(call)
        return self.scheduler.finish(call)

    async def _run(self, call: Invocation) -> None:
        scheduler = self.scheduler
        try:
            await scheduler.prepare(call)
            if call.outcome is None:
                await scheduler.dispatch(call)
        except get_cancelled_exc_class():
            await scheduler.finalize(call)
            raise
        await scheduler.finalize(call)

    def _is_safe(self, registration: Registration, exec: ToolExec) -> bool:
        classify = registration.tool.is_concurrency_safe
        if classify is None:
            return False
        try:
            return classify(registration.keywords(exec.plain_arguments())) is True
        except ViolationError:
            return False
        except Exception as error:
            self.ctx.report(error, label=f'concurrency of tool "{exec.name}"')
            return False

    def _provide(self, context: AssembleContext) -> ProvidedTools:
        view = self._registry.view(context.scope)
        return ProvidedTools(view.schemas, view.known)

    def _update(self, old: ToolsConfig, new: ToolsConfig) -> bool:
        self._threads.limiter.total_tokens = new.max_threads
        return True

    def _changed(self) -> None:
        self.ctx.emit(CHANGE)
