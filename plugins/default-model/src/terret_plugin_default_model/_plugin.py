"""The plugin: lays a selection over the options of each agent."""

from collections.abc import Callable, Iterator

from terret_agents import (
    CREATED,
    Agent,
    AgentCreated,
    AgentOptions,
    Agents,
    ModelSelection,
    install_model_selection,
)
from terret_context import Config, Context, plugin


class DefaultModelConfig(Config):
    """Configuration of the entry `default-model`."""

    provider: str | None = None
    """Route of the requests of all agents; left out, that of each agent."""
    model: str | None = None
    """Model of the requests of all agents; left out, that of each agent."""
    reasoning_effort: str | None = None
    """How hard the model is to think; left out, the model's own default."""

    def over(self, options: AgentOptions) -> ModelSelection | None:
        """Returns what this chooses for an agent, or `None` if it chooses nothing."""
        if self.provider is None and self.model is None:
            return None
        # The model of an agent is one of its own provider's.
        own = options.model if self.provider in (None, options.provider) else None
        return ModelSelection(
            self.provider or options.provider or "", self.model or own or "", self.reasoning_effort
        )


class _Choice:
    """What is chosen for one agent; once something was, its own options are the fallback."""

    def __init__(self, agent: Agent, config: Callable[[], DefaultModelConfig]) -> None:
        self._options = agent.options
        self._config = config
        self._has_chosen = False

    def __call__(self) -> ModelSelection | None:
        chosen, options = self._config().over(self._options), self._options
        if chosen is not None:
            self._has_chosen = True
        elif self._has_chosen and options.provider:
            # A request is made like the one before unless somebody says otherwise.
            return ModelSelection(options.provider, options.model or "")
        return chosen


@plugin(config=DefaultModelConfig, inject=(Agents,))
def default_model(ctx: Context, config: DefaultModelConfig) -> Iterator[None]:
    """Lets the entry choose the model of every agent, from its next step on."""
    current = config
    installed = {}

    def install(agent: Agent) -> None:
        installed[agent] = install_model_selection(agent.ctx, _Choice(agent, lambda: current))

    def created(event: AgentCreated) -> None:
        install(event.agent)

    def take_over(old: DefaultModelConfig, new: DefaultModelConfig) -> bool:
        nonlocal current
        current = new
        return True

    ctx.on(CREATED, created)
    ctx.on_update(take_over)
    for agent in ctx[Agents].list():
        install(agent)
    yield
    for effect in installed.values():
        effect.close()
