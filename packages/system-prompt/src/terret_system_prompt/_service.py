"""The service: what was registered, and how an assembly is made of it."""

from dataclasses import replace
from math import isfinite

from terret_context import (
    AnonymousLayers,
    Context,
    Effect,
    NamedLayers,
    Service,
    scope_chain,
)

from ._assembly import (
    ASSEMBLE,
    CHANGE,
    AssembleContext,
    Assembling,
    Assembly,
    Text,
    ToolProvider,
    Variable,
)
from ._config import SystemPromptConfig
from ._plan import Contribution, Plan, complete_sections, in_order, well_formed
from ._render import VARIABLE_NAME

HARNESS_IDENTITY = "harness-identity"
PERSONA = "persona"

_IDENTITY_TEXT = "You are an agent that runs in Terret, a harness for language models."


class SystemPrompt(Service, key="systemPrompt", config=SystemPromptConfig):
    """Sections, contexts, variables and tools that become the system prompt of a request.

    Registrations belong to the caller's fiber and scope; the nearest scope wins, and a name twice
    in one layer raises `DuplicateEntryError`. Each of them, and its end, is a
    `system-prompt/change`.
    """

    def __init__(self, ctx: Context, config: SystemPromptConfig | None = None) -> None:
        super().__init__(ctx, config)
        self._settings = config or SystemPromptConfig()
        self._sections = NamedLayers[Contribution]("prompt section")
        self._contexts = NamedLayers[Contribution]("prompt context")
        self._variables = NamedLayers[Variable]("prompt variable")
        self._providers = AnonymousLayers[ToolProvider]("tool provider")
        self._silenced = AnonymousLayers[bool]("suppression of the runtime context")
        self._plans: dict[tuple[int, ...], Plan] = {}

    def init(self) -> None:
        self.section(HARNESS_IDENTITY, -100, self._identity)
        self.section(PERSONA, 0, lambda context: self._settings.persona)
        self.ctx.on_update(self._update)

    def section(self, name: str, order: float, text: Text, *, complete: bool = False) -> Effect:
        """Adds a part of the system text; a function is called for each assembly.

        Orders: -100 identity of the harness, 0 persona, 100-199 guidance on tools. A section
        that is `complete` stands alone; two of them are an error of the assembly.
        """
        entry = Contribution(_finite(order), text, complete)
        return self._sections.add(self.caller, name, entry, changed=self._changed)

    def context(self, name: str, order: float, text: Text) -> Effect:
        """Adds a changing fact; it goes to the runtime context, not into the system text."""
        entry = Contribution(_finite(order), text)
        return self._contexts.add(self.caller, name, entry, changed=self._changed)

    def variable(self, name: str, value: Variable) -> Effect:
        """Adds a variable for `{{name}}`; `value` is called for each assembly.

        `None` means that it has no value for this context: a reference then raises.
        """
        if not VARIABLE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a prompt variable: use [a-z][a-z0-9_]*")
        return self._variables.add(self.caller, name, value, changed=self._changed)

    def tools(self, provider: ToolProvider) -> Effect:
        """Adds a source of tool schemas, asked in each assembly of its scope."""
        return self._providers.add(self.caller, provider, changed=self._changed)

    def suppress_runtime_context(self) -> Effect:
        """Leaves all contexts out for the caller's scope and those below it."""
        return self._silenced.add(self.caller, True, changed=self._changed)

    async def assemble(self, context: AssembleContext) -> Assembly:
        """Puts the prompt for one request together.

        Text functions, variables and providers are evaluated one after the other, in the order of
        registration; what is registered meanwhile counts for the next assembly. What goes wrong
        in one of them raises `PromptAssemblyError`, which names it; what a listener of
        `system-prompt/assemble` raises passes unchanged.
        """
        draft = await self._plan(context.scope).draft(context)
        declared = complete_sections(draft)
        given = await self.ctx.waterfall(ASSEMBLE, Assembling(draft, context), lambda: draft)
        final = well_formed(given)
        complete = declared or complete_sections(final)
        return replace(final, sections=complete) if complete else final

    def _identity(self, context: AssembleContext) -> str:
        return _IDENTITY_TEXT if self._settings.include_harness_identity else ""

    def _update(self, old: SystemPromptConfig, new: SystemPromptConfig) -> bool:
        self._settings = new
        self._changed()
        return True

    def _changed(self) -> None:
        self._plans.clear()
        self.ctx.emit(CHANGE)

    def _plan(self, scope: object | None) -> Plan:
        # Agents without registrations of their own share one plan. Ids are safe keys: a layer
        # holds its scope, and whenever one comes or goes all plans are dropped.
        key = tuple([id(each) for each in scope_chain(scope) if self._has_layer(each)])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._merge(scope)
        return plan

    def _has_layer(self, scope: object) -> bool:
        layers = (self._sections, self._contexts, self._variables, self._providers, self._silenced)
        return any(each.layer(scope) for each in layers)

    def _merge(self, scope: object | None) -> Plan:
        told = self._settings.include_runtime_context and not self._silenced.collect(scope)
        return Plan(
            sections=in_order(self._sections.merged(scope)),
            contexts=in_order(self._contexts.merged(scope)) if told else (),
            variables=tuple(self._variables.merged(scope).items()),
            providers=tuple(self._providers.collect(scope)),
            tool_order=self._settings.tool_order,
        )


def _finite(order: float) -> float:
    if not isfinite(order):
        raise ValueError(f"the order in a system prompt must be finite, not {order}")
    return order
