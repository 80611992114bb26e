"""The service: measures each model call before it is made."""

from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from terret_agents import PRE_STEP, Agent, Enter, Reject, StepProposal
from terret_context import AnonymousLayers, Context, Effect, Next, Service
from terret_llm import (
    HarnessError,
    Llm,
    LlmCallConfig,
    Message,
    ModelInfo,
    PluginSource,
    create_user_message,
)
from terret_sessions import TOKEN_METER, Session, declare_event_type
from terret_tools import Tools

from ._config import BudgetConfig
from ._estimate import Estimate

Action: TypeAlias = Literal["ok", "nudge", "over_hard_limit"]

UNKNOWN_WINDOW: Final = 8000
_PLUGIN: Final = "budget"

# Plain JSON: a log that another version wrote has to load.
declare_event_type("budget/checked", ignorable=True)


class Budget(Service, key="budget", config=BudgetConfig, inject=(Llm, Tools)):
    """Measures every model call against the budget of its agent, and logs what it finds."""

    def __init__(self, ctx: Context, config: BudgetConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._limits = AnonymousLayers[int | Literal["auto"]]("context budget")
        self._estimate = Estimate()
        self._told = WeakKeyDictionary[Session, bool]()

    def init(self) -> None:
        # Outermost, so that the check stands in front of a compaction, and the notice comes last.
        self.ctx.on(PRE_STEP, self._check, prepend=True)

    def limit(self, tokens: int | Literal["auto"]) -> Effect:
        """Gives the agents of the caller's scope a budget of their own; raises `ValueError`."""
        if tokens != "auto" and tokens < 1:
            raise ValueError(f"a context budget has at least one token, not {tokens}")
        return self._limits.add(self.caller, tokens)

    async def tokens(self, agent: Agent) -> int:
        """Returns the budget of an agent."""
        own = self._limits.collect(agent)
        given = own[-1] if own else self._config.context_budget_tokens
        return await self._window(agent) if given == "auto" else given

    async def _check(
        self, proposal: StepProposal, call_next: Next[Enter | Reject]
    ) -> Enter | Reject:
        agent = proposal.agent
        budget = await self.tokens(agent)
        schemas = self.ctx[Tools].schemas(agent)
        used = self._estimate.of(proposal, schemas, self.ctx.get(TOKEN_METER))
        action = self._action(used / budget)
        told = self._was_told(agent.session)
        content = _notice(used, budget)
        row: dict[str, object] = {"turn": proposal.turn, "step": proposal.step, "action": action}
        row |= {"usedTokens": used, "budgetTokens": budget}
        if action == "nudge":
            row["nudge"] = {"role": "user", "content": content}
        agent.session.append("budget/checked", row)
        if action == "ok":
            self._told[agent.session] = False
        decision = await call_next()
        if action == "ok" or told or not _enters(proposal, decision):
            return decision
        assert isinstance(decision, Enter)
        self._told[agent.session] = True
        source = PluginSource(_PLUGIN, form="notice", summary="context budget")
        return Enter((*decision.messages, create_user_message(content, source)))

    def _action(self, ratio: float) -> Action:
        if ratio >= self._config.hard:
            return "over_hard_limit"
        return "nudge" if ratio >= self._config.soft else "ok"

    def _was_told(self, session: Session) -> bool:
        known = self._told.get(session)
        if known is None:
            known = self._told[session] = _told_in_log(session)
        return known

    async def _window(self, agent: Agent) -> int:
        info = await self._model(agent)
        window = info.context_window if info else None
        last = agent.session.request_context()
        window = window or (last.context_window if last else None)
        if window is None:
            return UNKNOWN_WINDOW
        reserve = agent.options.max_tokens or (info.max_tokens if info else None) or 0
        return window - reserve if window > reserve else window

    async def _model(self, agent: Agent) -> ModelInfo | None:
        last, options = agent.session.request_context(), agent.options
        provider = options.provider or (last.provider if last else "")
        model = options.model or (last.model if last and last.provider == provider else "")
        if not provider:
            return None
        try:
            config = LlmCallConfig(provider=provider, model=model or "")
            config = await self.ctx[Llm].resolve_call_config(config)
            return await self.ctx[Llm].resolve_model_info(config.provider, config.model)
        except HarnessError:
            return None  # the request itself says what is wrong with its route


def _enters(proposal: StepProposal, decision: Enter | Reject) -> bool:
    """Whether the step is made anyway, so that a notice does not cause a request of its own."""
    if not isinstance(decision, Enter):
        return False
    return bool(decision.messages) or (proposal.step > 1 and not proposal.messages)


def _told_in_log(session: Session) -> bool:
    for event in reversed(session.events):
        if event.type == "budget/checked" and event.data.get("action") == "ok":
            return False
        view = event.view
        if isinstance(view, Message) and _is_notice(view):
            return True
    return False


def _is_notice(message: Message) -> bool:
    return isinstance(message.source, PluginSource) and message.source.plugin == _PLUGIN


def _notice(used: int, budget: int) -> str:
    return (
        f"The context is {round(100 * used / budget)}% full ({used} of {budget} tokens). Be brief, "
        "and come to an end or sum up what matters soon."
    )
